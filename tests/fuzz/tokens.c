#include "tokens.h"
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

static void decode(const struct tokenizer *t, const int32_t *ids, int64_t n)
{
    struct err e = {0};
    char *text = NULL;
    size_t length = 0;
    enum status st = tokenizer_decode(t, ids, n, &text, &length, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK, "ids to be decoded");
    fuzz_expect(text && text[length] == '\0', "a NUL behind the text");
    free(text);
}

void tokens_exercise(const struct tokenizer *t, const char *text, size_t n, bool sound)
{
    int64_t count[2] = {0}, extra[2] = {0};
    for (int special = 0; special < 2; special++) {
        struct err e = {0};
        int32_t *ids = NULL;
        enum status st = tokenizer_encode(t, text, n, special, &ids, &count[special], &e);
        fuzz_expect_status(st, &e);
        fuzz_expect(st == OK || (!sound && st == ERR_NUMERIC), "a text to be encoded");
        if (st != OK) return;
        for (int64_t i = 0; i < count[special]; i++) {
            fuzz_expect(ids[i] >= 0 && ids[i] < tokenizer_n_ids(t), "an id of the vocabulary");
            fuzz_expect(tokenizer_id_bytes(t, ids[i]) >= 0, "bytes of an id");
        }
        decode(t, ids, count[special]);
        free(ids);
    }
    const int32_t *before, *behind;
    tokenizer_special(t, &before, &extra[0], &behind, &extra[1]);
    fuzz_expect(count[1] == count[0] + extra[0] + extra[1], "special tokens beside the others");
}
