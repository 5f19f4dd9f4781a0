#include "group/inputs.h"
#include "eval/dataset.h"
#include "group/lru.h"
#include "model/positions.h"
#include "tokenizer/eos.h"
#include "tokenizer/tokenizer.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* The cached sequences of one list of datasets with one tokenizer. */
struct input {
    struct lru lru;
    struct sequences sequences;
    int64_t *first; // (datasets + 1)
};

enum { INPUTS_KEPT = 4 };

static void input_free(void *input)
{
    struct input *i = input;
    if (!i) return;
    free(i->lru.key);
    free(i->first);
    sequences_free(&i->sequences);
    free(i);
}

void visit_inputs_trim(struct visit_cache *cache)
{
    lru_trim(&cache->inputs, INPUTS_KEPT, input_free);
}

void visit_inputs_forget(struct visit_cache *cache)
{
    lru_trim(&cache->inputs, 0, input_free);
}

/* Concatenates n parts; bytes are retained only if every part has them. */
static enum status join(const struct sequences *parts, int64_t n, struct input *out, struct err *e)
{
    int64_t sequences = 0, tokens = 0, at = 0;
    int with_bytes = 1;
    bool padded = false;
    for (int64_t i = 0; i < n; i++) {
        sequences += parts[i].n;
        tokens += parts[i].offset[parts[i].n];
        with_bytes = with_bytes && parts[i].bytes;
        padded = padded || parts[i].valid;
    }
    PASS(sequences_init(&out->sequences, sequences, tokens, with_bytes, e));
    PASS(mem_zero(&out->first, n + 1, sizeof *out->first, "datasets", e));
    struct sequences *all = &out->sequences;
    if (padded) PASS(mem_alloc(&all->valid, sequences, sizeof *all->valid, "lengths", e));
    for (int64_t i = 0; i < n; i++) {
        const struct sequences *p = &parts[i];
        int64_t base = all->offset[at], size = p->offset[p->n];
        memcpy(all->ids + base, p->ids, (size_t)size * sizeof *p->ids);
        if (with_bytes) memcpy(all->bytes + base, p->bytes, (size_t)size * sizeof *p->bytes);
        for (int64_t j = 0; j < p->n; j++) {
            all->offset[at + j + 1] = base + p->offset[j + 1];
            if (padded)
                all->valid[at + j] = p->valid ? p->valid[j] : p->offset[j + 1] - p->offset[j];
        }
        at += p->n;
        out->first[i + 1] = at;
    }
    return OK;
}

enum status visit_tokenizer(const char *checkpoint, char **path, struct err *e)
{
    enum status st = OK;
    char *file = NULL;
    *path = NULL;
    TRY(mem_format(&file, e, "%s/tokenizer.json", checkpoint));
    if (!fsx_is_file(file)) {
        free(file);
        file = NULL;
        TRY(mem_format(&file, e, "%s/../tokenizer.json", checkpoint));
    }
    if (fsx_is_file(file)) {
        *path = file;
        file = NULL;
    }
done:
    free(file);
    return st;
}

static bool reads_text(const struct visit *v)
{
    bool text = v->calibration.text != NULL;
    for (int64_t i = 0; i < v->n_evaluations; i++) text = text || v->evaluations[i].text;
    return text;
}

/* *path = the tokenizer's file; "" if all data are stored ids. */
static enum status find_tokenizer(const struct visit *v, bool text, char **path, struct err *e)
{
    char *found;
    if (!text) return mem_string(path, "", e);
    if (v->tokenizer) return mem_string(path, v->tokenizer, e);
    PASS(visit_tokenizer(weights_folder(&v->weights), &found, e));
    NEED(found, ERR_IO,
         "%s: no tokenizer.json there or in the folder above; name one with the sweep file's "
         "models[].tokenizer or --tokenizer",
         weights_folder(&v->weights));
    *path = found;
    return OK;
}

/* Values from the checkpoint's config.json for options that are left open. */
struct facts {
    int64_t written, usable; /* positions (positions.h); 0: not needed */
    struct pad_hint pad;
};

enum status visit_positions(const char *checkpoint, int64_t *written, int64_t *usable,
                            struct err *e)
{
    enum status st = OK;
    char *file = NULL;
    json_t *config = NULL;
    TRY(mem_format(&file, e, "%s/config.json", checkpoint));
    TRY(json_read_file(file, 0, &config, e));
    *written = positions_written(config);
    *usable = positions_usable(config);
done:
    json_decref(config);
    free(file);
    return st;
}

static bool asks_for_pad(const struct data_options *d)
{
    return d->padding == PADDING_COUNTED && d->pad_id < 0;
}

static enum status facts_read(const char *checkpoint, const struct data_options *options, int64_t n,
                              struct facts *f, struct err *e)
{
    bool cuts = false, open = false, fills = false;
    *f = (struct facts){0, 0, {-1, -1, -1}};
    for (int64_t i = 0; i < n; i++) {
        cuts = cuts || options[i].within_positions;
        open = open || options[i].length == LENGTH_AUTO;
        fills = fills || asks_for_pad(&options[i]);
    }
    if (cuts || open) PASS(visit_positions(checkpoint, &f->written, &f->usable, e));
    NEED(!cuts || f->written >= 2, ERR_FORMAT,
         "%s/config.json: max_position_embeddings is missing; within_positions needs it",
         checkpoint);
    if (fills) PASS(pad_hint_read(checkpoint, &f->pad, e));
    return OK;
}

/* Sets the options of d (a copy) that were left open. */
static enum status settle(struct data_options *d, const struct facts *f, const struct tokenizer *t,
                          struct err *e)
{
    enum status st = OK;
    int32_t pad;
    d->length = data_options_length(d, f->usable);
    if (d->within_positions && (d->length == LENGTH_WHOLE || d->length > f->written))
        d->length = f->written;
    if (!asks_for_pad(d) || !t) return OK;
    st = tokenizer_pad(t, &f->pad, &pad, e);
    if (st != OK) err_prefix(e, "pad_id auto");
    PASS(st);
    d->pad_id = pad;
    log_trace("io", "batches are filled up with token %d", pad);
    return OK;
}

static enum status load(const struct data_options *options, int64_t n, const char *tokenizer_path,
                        const struct facts *f, struct input *out, struct err *e)
{
    enum status st = OK;
    struct tokenizer *tokenizer = NULL;
    struct sequences *parts = NULL;
    double start = clock_seconds();
    if (tokenizer_path[0]) TRY(tokenizer_open(tokenizer_path, &tokenizer, e));
    TRY(mem_zero(&parts, n, sizeof *parts, "datasets", e));
    for (int64_t i = 0; i < n; i++) {
        char hash[HASH_HEX];
        struct data_options d = options[i];
        TRY(settle(&d, f, tokenizer, e));
        TRY(dataset_load(&d, tokenizer, &parts[i], hash, e));
    }
    TRY(join(parts, n, out, e));
    log_trace("io", "tokens of %s: %.3f s", n ? options[0].name : "", clock_seconds() - start);
done:
    for (int64_t i = 0; parts && i < n; i++) sequences_free(&parts[i]);
    free(parts);
    tokenizer_close(tokenizer);
    return st;
}

static enum status input_key(const struct data_options *options, int64_t n, const char *tokenizer,
                             const struct facts *f, char **key, struct err *e)
{
    enum status st = OK;
    char hash[HASH_HEX] = "";
    char *text = NULL;
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, data_options_to_json(&options[i]));
    if (tokenizer[0]) TRY(hash_file(tokenizer, hash, e));
    ENSURE(text = json_dump_whole(list, JSON_COMPACT | JSON_SORT_KEYS), ERR_NOMEM, "out of memory");
    TRY(json_whole(e));
    TRY(mem_format(key, e, "%s %lld %lld %d %d %d %s", hash, (long long)f->written,
                   (long long)f->usable, f->pad.pad, f->pad.bos, f->pad.eos, text));
done:
    free(text);
    json_decref(list);
    return st;
}

/* Returns an input from the cache; loads it if it is not there. */
static enum status get(struct visit_cache *cache, const char *checkpoint,
                       const struct data_options *options, int64_t n, const char *tokenizer,
                       const struct input **out, struct err *e)
{
    enum status st = OK;
    struct input *input = NULL;
    char *key = NULL;
    struct facts f;
    TRY(facts_read(checkpoint, options, n, &f, e));
    TRY(input_key(options, n, tokenizer, &f, &key, e));
    *out = lru_find(&cache->inputs, key);
    if (*out) goto done;
    TRY(mem_zero(&input, 1, sizeof *input, "token sequences", e));
    input->lru.key = key;
    key = NULL;
    TRY(load(options, n, tokenizer, &f, input, e));
    lru_add(&cache->inputs, &input->lru);
    *out = input;
    input = NULL;
done:
    input_free(input);
    free(key);
    return st;
}

enum status visit_inputs_get(struct visit_cache *cache, const struct visit *v,
                             struct visit_inputs *out, struct err *e)
{
    enum status st = OK;
    const struct input *calibration = NULL, *evaluation;
    char *tokenizer = NULL;
    TRY(find_tokenizer(v, reads_text(v), &tokenizer, e));
    if (v->calibration.text || v->calibration.ids)
        TRY(get(cache, weights_folder(&v->weights), &v->calibration, 1, tokenizer, &calibration,
                e));
    TRY(get(cache, weights_folder(&v->weights), v->evaluations, v->n_evaluations, tokenizer,
            &evaluation, e));
    *out = (struct visit_inputs){.calibration = calibration ? &calibration->sequences : NULL,
                                 .evaluation = &evaluation->sequences,
                                 .first = evaluation->first};
done:
    free(tokenizer);
    return st;
}

enum status visit_check_ids(const struct model *m, const struct data_options *data,
                            const struct sequences *s, struct err *e)
{
    char name[DATASET_NAME];
    enum status st = model_check_ids(m, s, e);
    if (st == OK) return OK;
    dataset_name(data, name);
    err_prefix(e, "%s", name);
    return st;
}

enum status visit_sequences_get(struct visit_cache *cache, const struct visit *v,
                                const struct data_options *data, const struct sequences **out,
                                struct err *e)
{
    enum status st = OK;
    const struct input *input;
    char *tokenizer = NULL;
    TRY(find_tokenizer(v, data->text != NULL, &tokenizer, e));
    TRY(get(cache, weights_folder(&v->weights), data, 1, tokenizer, &input, e));
    *out = &input->sequences;
done:
    free(tokenizer);
    return st;
}
