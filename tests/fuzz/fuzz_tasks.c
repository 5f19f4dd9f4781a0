/* The input is a letter that chooses the task (by its place in the table, from 'a'), a digit (the
 * examples; from 5 on five fewer, and choices apart), the items, a NUL byte, and the
 * rows that examples are taken from. */
#include "eval/metric.h"
#include "fuzz.h"
#include "task/accuracy.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POSITIONS = 64 };

static void put(const char *folder, const char *name, const char *ending, const char *data,
                size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *f = fopen(path, "wb");
    fuzz_expect(f && fwrite(data, 1, n, f) == n && fclose(f) == 0, "a file of rows");
}

static void take(const char *folder, const char *name, const char *ending)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    unlink(path);
}

/* Where tokens and spans are must be sound, whatever the rows say. */
static void check(const struct requests *r, const struct tokenizer *t)
{
    const struct sequences *s = &r->sequences;
    const int64_t tokens = s->offset[s->n], ids = tokenizer_n_ids(t);
    int64_t targets = 0, asked = 0;
    for (int64_t i = 0; i < tokens; i++) fuzz_expect(s->ids[i] >= 0 && s->ids[i] < ids, "an id");
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = s->first_segment[i]; k < s->first_segment[i + 1]; k++) {
            const struct segment *x = &s->segments[k];
            fuzz_expect(x->row >= 0 && x->row < s->offset[i + 1] - s->offset[i], "a row");
            fuzz_expect(x->pos >= 0 && x->pos < POSITIONS, "a position");
            fuzz_expect(x->parent < k - s->first_segment[i], "an earlier segment");
        }
    for (int64_t k = 0; k < r->first_span[s->n]; k++) {
        const struct span *x = &r->spans[k];
        fuzz_expect(x->row >= 0 && x->n > 0 && x->row + x->n <= tokens, "tokens of a span");
        fuzz_expect(x->unit >= 0 && x->unit < r->n, "a request");
        for (int64_t i = 0; i < x->n; i++)
            fuzz_expect(x->target[i] >= 0 && x->target[i] < ids, "a target");
        targets += x->n;
    }
    for (int64_t k = 0; k < r->n; k++) asked += r->list[k].tokens;
    fuzz_expect(targets == asked, "every token of the continuations once");
}

/* The accuracies of equal choices. */
static void score(const struct requests *r)
{
    double *sums;
    struct err e = {0};
    fuzz_expect(mem_zero(&sums, r->n * metrics_sums(), sizeof *sums, "sums", &e) == OK, "memory");
    const struct answers a = answers_of(sums);
    json_t *record = accuracy_record(r, &a);
    fuzz_expect(record, "a record");
    json_decref(record);
    free(sums);
}

static const struct tokenizer *tokenizer(void)
{
    static struct tokenizer *t;
    struct err e = {0};
    if (!t)
        fuzz_expect(tokenizer_open(FIXTURES "/tokenizers/gpt2/tokenizer.json", &t, &e) == OK,
                    "a tokenizer");
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/fuzz_tasks.XXXXXX", *part[2] = {0};
    size_t length[2] = {0};
    struct requests r = {0};
    struct err e = {0};
    const struct task *task = size >= 2 && data[0] >= 'a' ? task_at(data[0] - 'a') : NULL;
    if (!task || data[1] < '0' || data[1] > '9') return 0;
    char *name = NULL;
    fuzz_expect(mem_format(&name, &e, "%s%s", task->name, task->subjects ? "_x" : "") == OK,
                "memory");
    fuzz_split(data + 2, size - 2, 2, part, length);
    fuzz_expect(mkdtemp(folder), "a folder");
    put(folder, name, ".jsonl", part[0], length[0]);
    put(folder, name, ".fewshot.jsonl", part[1] ? part[1] : "", length[1]);
    const struct requests_options o = {
        .tasks = name, .folder = folder, .shots = (data[1] - '0') % 5, .apart = data[1] >= '5'};
    enum status st = requests_make(&o, tokenizer(), POSITIONS, &r, &e);
    fuzz_expect_status(st, &e);
    fuzz_expect(st == OK || st == ERR_FORMAT || st == ERR_USAGE, "a fault of the rows at worst");
    if (st == OK) check(&r, tokenizer());
    if (st == OK) score(&r);
    requests_free(&r);
    take(folder, name, ".jsonl");
    take(folder, name, ".fewshot.jsonl");
    rmdir(folder);
    free(part[0]);
    free(name);
    return 0;
}
