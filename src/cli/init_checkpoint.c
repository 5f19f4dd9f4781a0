/* What a checkpoint's folder says of its place in training. */
#include "cli/init_internal.h"
#include "engine/inputs.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/mem.h"
#include <ctype.h>
#include <math.h>
#include <strings.h>

/* A checkpoint's trainer_state.json grows with the run, scheduler.pt does not. */
enum { STATE_BYTES = 256 << 20, SCHEDULER_BYTES = 1 << 20 };

void init_checkpoint_free(struct init_checkpoint *f)
{
    free(f->name);
    free(f->tokenizer);
}

/* --- names --- */

/* The number behind the last "word" in the name, or "word-", "word_"; *rest: what follows it.
 * NULL: none. */
static const char *number_after(const char *name, const char *word, const char **rest)
{
    const char *found = NULL;
    const size_t n = strlen(word);
    for (const char *p = name; *p; p++) {
        if (strncasecmp(p, word, n) != 0) continue;
        const char *digits = p + n + (p[n] == '-' || p[n] == '_');
        if (!isdigit((unsigned char)*digits)) continue;
        found = digits;
        *rest = digits + strspn(digits, "0123456789");
    }
    return found;
}

/* "step1000-tokens4B", "checkpoint-500", "ckpt_10", "000300"; not "main", "llama-7b", "epoch3". */
static int64_t step_of(const char *name)
{
    const char *rest, *digits = number_after(name, "step", &rest);
    if (!digits) {
        const char *end = name + strlen(name);
        digits = end;
        while (digits > name && isdigit((unsigned char)digits[-1])) digits--;
        if (digits == end || number_after(name, "epoch", &rest) == digits) return -1;
    }
    return strtoll(digits, NULL, 10);
}

static double tokens_of(const char *name)
{
    static const char prefixes[] = "KMBT";
    const char *rest, *digits = number_after(name, "tokens", &rest),
                      *prefix = digits && *rest ? strchr(prefixes, *rest) : NULL;
    return prefix ? strtod(digits, NULL) * pow(1000, (double)(prefix - prefixes + 1)) : NAN;
}

/* --- files of trainers --- */

static void read_trainer_state(const char *path, struct init_checkpoint *f)
{
    json_t *state = NULL, *one;
    size_t i;
    double last = -1;
    if (json_read_file(path, STATE_BYTES, &state, NULL) != OK) return;
    const json_t *step = json_object_get(state, "global_step");
    if (json_is_integer(step)) f->step = json_integer_value(step);
    const double seen = json_number_get(json_object_get(state, "num_input_tokens_seen"));
    if (seen > 0) f->tokens = seen;
    json_array_foreach(json_object_get(state, "log_history"), i, one) {
        const double at = json_number_get(json_object_get(one, "step"));
        const double rate = json_number_get(json_object_get(one, "learning_rate"));
        if (!(at > last && at <= (double)f->step && rate >= 0)) continue;
        last = at;
        f->learning_rate = rate;
    }
    json_decref(state);
}

/* The first number of the list `_last_lr` that PyTorch's schedulers save: in the pickle, behind
 * the name, an empty list (the opcode ]), perhaps a mark (, and a double, G and 8 bytes with the
 * highest first; each of the first two may be noted (q and a byte, r and 4, or 0x94). Source:
 * Python's pickletools. Anything else is not known. */
static void read_scheduler(const char *path, struct init_checkpoint *f)
{
    static const char name[] = "_last_lr";
    char *data = NULL;
    size_t n;
    uint64_t bits = 0;
    double rate;
    if (fsx_read(path, SCHEDULER_BYTES, &data, &n, NULL) != OK) return;
    const unsigned char *p = memmem(data, n, name, sizeof name - 1),
                        *end = (unsigned char *)data + n;
    if (p) p += sizeof name - 1;
    while (p && p < end && *p != 'G')
        p = *p == ']' || *p == '(' || *p == 0x94 ? p + 1
            : *p == 'q'                          ? p + 2
            : *p == 'r'                          ? p + 5
                                                 : NULL;
    if (p && end - p > 8) {
        for (int i = 1; i <= 8; i++) bits = bits << 8 | p[i];
        memcpy(&rate, &bits, sizeof rate);
        if (rate >= 0 && isfinite(rate)) f->learning_rate = rate;
    }
    free(data);
}

enum status init_checkpoint_find(const char *folder, const char *name, struct init_checkpoint *out,
                                 struct err *e)
{
    AUTO_FREE char *path = NULL, *state = NULL, *scheduler = NULL;
    *out = (struct init_checkpoint){
        .step = step_of(name), .tokens = tokens_of(name), .learning_rate = NAN};
    PASS(mem_string(&out->name, name, e));
    PASS(mem_format(&path, e, "%s/%s", folder, name));
    PASS(mem_format(&state, e, "%s/trainer_state.json", path));
    PASS(mem_format(&scheduler, e, "%s/scheduler.pt", path));
    read_trainer_state(state, out);
    read_scheduler(scheduler, out);
    return visit_tokenizer(path, &out->tokenizer, e);
}

int init_checkpoint_order(const void *a, const void *b)
{
    const struct init_checkpoint *x = a, *y = b;
    const uint64_t i = (uint64_t)x->step, k = (uint64_t)y->step; /* -1 is the largest */
    return i != k ? (i > k) - (i < k) : strcmp(x->name, y->name);
}
