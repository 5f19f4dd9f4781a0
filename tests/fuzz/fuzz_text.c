/* The input is a text; its first byte selects a tokenizer of tests/fixtures/tokenizers. */
#include "fuzz.h"
#include "tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {
        FIXTURES "/tokenizers/gpt2/tokenizer.json",
        FIXTURES "/tokenizers/llama2/tokenizer.json",
        FIXTURES "/tokenizers/llama2_metaspace/tokenizer.json",
        FIXTURES "/tokenizers/llama3/tokenizer.json",
        FIXTURES "/tokenizers/neox/tokenizer.json",
        FIXTURES "/tokenizers/olmo2/tokenizer.json",
        FIXTURES "/tokenizers/smollm/tokenizer.json",
    };
    enum { N = sizeof paths / sizeof *paths };
    static struct tokenizer *tokenizers[N]; /* opened once */
    if (size == 0) return 0;
    int which = data[0] % N;
    if (!tokenizers[which]) {
        struct err e = {0};
        fuzz_expect(tokenizer_open(paths[which], &tokenizers[which], &e) == OK, e.text);
    }
    tokens_exercise(tokenizers[which], (const char *)data + 1, size - 1, true);
    return 0;
}
