#include "group/inputs.h"
#include "eval/common_tokens.h"
#include "eval/dataset.h"
#include "group/lru.h"
#include "model/positions.h"
#include "tokenizer/eos.h"
#include "tokenizer/tokenizer.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <stdlib.h>
#include <string.h>

/* The cached sequences of one list of datasets with one tokenizer. */
struct input {
    struct lru lru;
    struct sequences sequences;
    int64_t *first;           // (datasets + 1)
    int64_t *first_unit;      // (sequences.n + 1)
    struct requests requests; /* n = 0: none */
    int64_t n_draws;
    struct sequences *draws; // (n_draws) of the calibration text, in place of sequences
    json_t *read;            /* {NAME: digest} of what was read, as in visit.inputs */
};

enum { INPUTS_KEPT = 4 };

static void input_free(void *input)
{
    struct input *i = input;
    if (!i) return;
    free(i->lru.key);
    free(i->first);
    free(i->first_unit);
    requests_free(&i->requests);
    sequences_free(&i->sequences);
    for (int64_t k = 0; k < i->n_draws; k++) sequences_free(&i->draws[k]);
    free(i->draws);
    json_decref(i->read);
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

/* --- what was planned --- */

/* What messages call an input. */
static void describe(const char *name, const char *tokenizer, char text[DATASET_NAME])
{
    const struct data_options data = {.text = (char *)(uintptr_t)name};
    dataset_name(&data, text);
    if (strcmp(name, INPUT_TOKENIZER) == 0) snprintf(text, DATASET_NAME, "%s", tokenizer);
    if (strcmp(name, INPUT_SPECIAL) == 0)
        snprintf(text, DATASET_NAME, "%s: its end-of-text or padding token", tokenizer);
}

/* The one check of all inputs: whether what was read of one is what was planned. */
static enum status expect(const json_t *planned, const char *name, const char *tokenizer,
                          const char *found, struct err *e)
{
    char text[DATASET_NAME];
    const char *digest = json_text(planned, name, "");
    if (!planned || (!digest[0] && strcmp(name, INPUT_SPECIAL) == 0)) return OK;
    describe(name, tokenizer, text);
    NEED(digest[0], ERR_CHANGED,
         "%s: was not there when the run was planned; `qtraj run` again plans anew", text);
    NEED(found[0], ERR_CHANGED,
         "%s: changed since the run was planned, and cannot be read; `qtraj run` again plans anew",
         text);
    return hash_expect(text, "the run was planned", digest, found, e);
}

static enum status expect_all(const json_t *planned, const json_t *read, struct err *e)
{
    const char *name;
    json_t *digest;
    json_object_foreach((json_t *)(uintptr_t)read, name, digest)
        PASS(expect(planned, name, "", json_string_value(digest), e));
    return OK;
}

enum status inputs_check_tokenizer(const struct visit *v, const char *path, struct err *e)
{
    char hash[HASH_HEX];
    if (!path || !v->inputs) return OK;
    PASS(hash_file(path, hash, e));
    return expect(v->inputs, INPUT_TOKENIZER, path, hash, e);
}

enum status inputs_digest(const struct visit *v, char out[HASH_HEX], struct err *e)
{
    const char *name;
    json_t *digest, *all = json_object();
    json_object_foreach(v->inputs, name, digest)
        json_object_set_new(all, json_string_value(digest), json_true());
    char *text = json_dump_whole(all, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(all);
    NEED(text, ERR_NOMEM, "out of memory for digests");
    hash_text(text, out);
    free(text);
    return json_whole(e);
}

/* Notes what was read for x, and checks it. */
static enum status note(const json_t *planned, const char *name, const char *tokenizer,
                        const char *found, struct input *x, struct err *e)
{
    json_object_set_new(x->read, name, json_string(found));
    return expect(planned, name, tokenizer, found, e);
}

static enum status note_data(const json_t *planned, const struct data_options *d, const char *found,
                             struct input *x, struct err *e)
{
    return note(planned, d->text ? d->text : d->ids, "", found, x, e);
}

/* Opens the tokenizer if there is one. */
static enum status open_tokenizer(const json_t *planned, const char *path, struct tokenizer **out,
                                  struct input *x, struct err *e)
{
    if (!path[0]) return OK;
    PASS(tokenizer_open(path, out, e));
    PASS(note(planned, INPUT_TOKENIZER, path, tokenizer_hash(*out), x, e));
    return note(planned, INPUT_SPECIAL, path, tokenizer_special_hash(*out), x, e);
}

/* --- sequences --- */

/* Appends the sequences of the tasks to all->n ones of texts, for which there is room. */
static enum status join_requests(const struct sequences *more, int64_t texts, struct sequences *all,
                                 struct err *e)
{
    const int64_t base = all->offset[texts], segments = more->first_segment[more->n];
    memcpy(all->ids + base, more->ids, (size_t)more->offset[more->n] * sizeof *more->ids);
    PASS(mem_alloc(&all->segments, segments, sizeof *all->segments, "segments", e));
    PASS(mem_zero(&all->first_segment, all->n + 1, sizeof *all->first_segment, "segments", e));
    memcpy(all->segments, more->segments, (size_t)segments * sizeof *all->segments);
    for (int64_t i = 0; i <= more->n; i++) {
        all->offset[texts + i] = base + more->offset[i];
        all->first_segment[texts + i] = more->first_segment[i];
        if (all->valid && i < more->n)
            all->valid[texts + i] = more->offset[i + 1] - more->offset[i];
    }
    return OK;
}

static enum status count_units(struct input *x, int64_t texts, struct err *e)
{
    const int64_t n = x->sequences.n;
    PASS(mem_alloc(&x->first_unit, n + 1, sizeof *x->first_unit, "units", e));
    for (int64_t i = 0; i <= n; i++)
        x->first_unit[i] = i <= texts ? i : texts + x->requests.first_request[i - texts];
    return OK;
}

/* Concatenates n parts and the sequences of out->requests; bytes are retained only if every part
 * has them. */
static enum status join(const struct sequences *parts, int64_t n, struct input *out, struct err *e)
{
    const struct sequences *more = out->requests.n ? &out->requests.sequences : NULL;
    int64_t sequences = 0, tokens = 0, at = 0;
    int with_bytes = 1;
    bool padded = false;
    for (int64_t i = 0; i < n; i++) {
        sequences += parts[i].n;
        tokens += parts[i].offset[parts[i].n];
        with_bytes = with_bytes && parts[i].bytes;
        padded = padded || parts[i].valid;
    }
    const int64_t texts = sequences;
    if (more) {
        sequences += more->n;
        tokens += more->offset[more->n];
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
    if (more) PASS(join_requests(more, texts, all, e));
    return count_units(out, texts, e);
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
    bool text = v->calibration.text != NULL || v->requests.tasks;
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

/* What sequences are made of. */
struct source {
    const json_t *planned;           /* visit.inputs */
    const struct data_options *data; // (n)
    int64_t n;
    const struct requests_options *requests; /* NULL: none */
};

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

bool input_names_tokens(const struct data_options *d)
{
    return asks_for_pad(d) || (d->separator && strcmp(d->separator, "eos") == 0);
}

static enum status facts_read(const char *checkpoint, const struct source *from, struct facts *f,
                              struct err *e)
{
    const struct data_options *options = from->data;
    bool cuts = false, open = from->requests != NULL, fills = false;
    *f = (struct facts){0, 0, {-1, -1, -1}};
    for (int64_t i = 0; i < from->n; i++) {
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

/* The harness's length for a model whose configuration names none. */
enum { POSITIONS_OTHERWISE = 2048 };

static enum status load(const struct source *from, const char *tokenizer_path,
                        const struct facts *f, struct input *out, struct err *e)
{
    const int64_t n = from->n;
    enum status st = OK;
    struct tokenizer *tokenizer = NULL;
    struct sequences *parts = NULL;
    double start = clock_seconds();
    TRY(open_tokenizer(from->planned, tokenizer_path, &tokenizer, out, e));
    TRY(mem_zero(&parts, n, sizeof *parts, "datasets", e));
    for (int64_t i = 0; i < n; i++) {
        char hash[HASH_HEX];
        struct data_options d = from->data[i];
        TRY(settle(&d, f, tokenizer, e));
        TRY(dataset_load(&d, tokenizer, &parts[i], hash, e));
        TRY(note_data(from->planned, &d, hash, out, e));
    }
    if (from->requests)
        TRY(requests_make(from->requests, tokenizer, f->written ? f->written : POSITIONS_OTHERWISE,
                          &out->requests, e));
    json_object_update(out->read, out->requests.files);
    TRY(expect_all(from->planned, out->requests.files, e));
    TRY(join(parts, n, out, e));
    log_trace("io", "tokens of %s: %.3f s", n ? from->data[0].name : "", clock_seconds() - start);
done:
    for (int64_t i = 0; parts && i < n; i++) sequences_free(&parts[i]);
    free(parts);
    tokenizer_close(tokenizer);
    return st;
}

static enum status input_key(const struct source *from, const char *tokenizer,
                             const struct facts *f, char **key, struct err *e)
{
    enum status st = OK;
    char hash[HASH_HEX] = "";
    const char *planned = json_text(from->planned, INPUT_TOKENIZER, NULL);
    char *text = NULL;
    json_t *list = json_array();
    const struct requests_options *r = from->requests;
    for (int64_t i = 0; i < from->n; i++)
        json_array_append_new(list, data_options_to_json(&from->data[i]));
    if (r)
        json_array_append_new(list,
                              json_pack("[s, s, I, I, b]", r->tasks, r->folder,
                                        (json_int_t)r->shots, (json_int_t)r->limit, r->apart));
    if (tokenizer[0] && !planned) TRY(hash_file(tokenizer, hash, e));
    ENSURE(text = json_dump_whole(list, JSON_COMPACT | JSON_SORT_KEYS), ERR_NOMEM, "out of memory");
    TRY(json_whole(e));
    TRY(mem_format(key, e, "%s %lld %lld %d %d %d %s", planned ? planned : hash,
                   (long long)f->written, (long long)f->usable, f->pad.pad, f->pad.bos, f->pad.eos,
                   text));
done:
    free(text);
    json_decref(list);
    return st;
}

/* Adds an input to the cache under the key; takes both over. */
static const struct input *keep(struct visit_cache *cache, struct input **input, char **key)
{
    struct input *kept = *input;
    kept->lru.key = *key;
    lru_add(&cache->inputs, &kept->lru);
    *input = NULL;
    *key = NULL;
    return kept;
}

/* *out = an empty one. */
static enum status input_new(struct input **out, struct err *e)
{
    PASS(mem_zero(out, 1, sizeof **out, "token sequences", e));
    (*out)->read = json_object();
    return OK;
}

/* The input from the cache, if it was made of what is planned; else NULL. */
static const struct input *find(struct visit_cache *cache, const char *key, const json_t *planned)
{
    const struct input *x = lru_find(&cache->inputs, key);
    return x && expect_all(planned, x->read, NULL) == OK ? x : NULL;
}

/* Returns an input from the cache; loads it if it is not there. */
static enum status get(struct visit_cache *cache, const char *checkpoint, const struct source *from,
                       const char *tokenizer, const struct input **out, struct err *e)
{
    enum status st = OK;
    struct input *input = NULL;
    char *key = NULL;
    struct facts f;
    TRY(facts_read(checkpoint, from, &f, e));
    TRY(input_key(from, tokenizer, &f, &key, e));
    *out = find(cache, key, from->planned);
    if (*out) goto done;
    TRY(input_new(&input, e));
    TRY(load(from, tokenizer, &f, input, e));
    *out = keep(cache, &input, &key);
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
    const struct source first = {.planned = v->inputs, .data = &v->calibration, .n = 1};
    const struct source second = {v->inputs, v->evaluations, v->n_evaluations,
                                  v->requests.tasks ? &v->requests : NULL};
    if (v->calibration.text || v->calibration.ids)
        TRY(get(cache, weights_folder(&v->weights), &first, tokenizer, &calibration, e));
    TRY(get(cache, weights_folder(&v->weights), &second, tokenizer, &evaluation, e));
    *out = (struct visit_inputs){.calibration = calibration ? &calibration->sequences : NULL,
                                 .evaluation = &evaluation->sequences,
                                 .first = evaluation->first,
                                 .first_unit = evaluation->first_unit,
                                 .requests = evaluation->requests.n ? &evaluation->requests : NULL,
                                 .texts = evaluation->first[v->n_evaluations]};
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
    const struct source from = {.planned = v->inputs, .data = data, .n = 1};
    TRY(get(cache, weights_folder(&v->weights), &from, tokenizer, &input, e));
    *out = &input->sequences;
done:
    free(tokenizer);
    return st;
}

/* --- common tokens --- */

enum status visit_common_tokenizer(const char *name, char **path, struct err *e)
{
    if (fsx_is_dir(name))
        PASS(mem_format(path, e, "%s/tokenizer.json", name));
    else
        PASS(mem_string(path, name, e));
    if (fsx_is_file(*path)) return OK;
    enum status st =
        err_set(e, ERR_IO, __FILE__, __LINE__, "count_tokens: %s: no such file", *path);
    free(*path);
    *path = NULL;
    return st;
}

enum status visit_common_tokens(struct visit_cache *cache, const struct visit *v,
                                const struct data_options *data, const char *name, int64_t *tokens,
                                struct err *e)
{
    enum status st = OK;
    struct tokenizer *own = NULL, *common = NULL;
    char *own_path = NULL, *path = NULL;
    const struct sequences *s;
    TRY(visit_common_tokenizer(name, &path, e));
    TRY(tokenizer_open(path, &common, e));
    TRY(find_tokenizer(v, true, &own_path, e));
    TRY(tokenizer_open(own_path, &own, e));
    TRY(expect(v->inputs, path, "", tokenizer_hash(common), e));
    TRY(expect(v->inputs, INPUT_TOKENIZER, own_path, tokenizer_hash(own), e));
    TRY(visit_sequences_get(cache, v, data, &s, e));
    TRY(common_tokens_count(s, own, common, tokens, e));
done:
    tokenizer_close(own);
    tokenizer_close(common);
    free(own_path);
    free(path);
    return st;
}

/* --- draws --- */

/* What the draws of a visit are made of. */
struct drawing {
    const json_t *planned; /* visit.inputs */
    const struct data_options *options;
    const char *checkpoint, *tokenizer;
    struct facts facts;
    int64_t size; /* sequences of one */
    const struct sequences *avoid;
    uint64_t seed;
};

static enum status draw(const struct drawing *d, struct input *out, struct err *e)
{
    enum status st = OK;
    struct tokenizer *tokenizer = NULL;
    struct data_options settled = *d->options;
    char hash[HASH_HEX];
    const double start = clock_seconds();
    TRY(open_tokenizer(d->planned, d->tokenizer, &tokenizer, out, e));
    TRY(settle(&settled, &d->facts, tokenizer, e));
    TRY(dataset_draw(&settled, tokenizer, d->size, d->avoid, d->seed, out->n_draws, out->draws,
                     hash, e));
    TRY(note_data(d->planned, &settled, hash, out, e));
    log_trace("io", "%lld draws of %s: %.3f s", (long long)out->n_draws, d->options->name,
              clock_seconds() - start);
done:
    tokenizer_close(tokenizer);
    return st;
}

/* *key (the caller frees) = what the draws depend on. */
static enum status draws_key(const struct drawing *d, const struct visit *v, int64_t n, char **key,
                             struct err *e)
{
    enum status st = OK;
    char *calibration = NULL, *evaluation = NULL;
    struct facts facts;
    const struct source first = {.planned = d->planned, .data = d->options, .n = 1},
                        second = {
                            .planned = d->planned, .data = v->evaluations, .n = v->n_evaluations};
    TRY(input_key(&first, d->tokenizer, &d->facts, &calibration, e));
    TRY(facts_read(d->checkpoint, &second, &facts, e));
    TRY(input_key(&second, d->tokenizer, &facts, &evaluation, e));
    TRY(mem_format(key, e, "%lld draws, seed %llu: %s beside %s", (long long)n,
                   (unsigned long long)d->seed, calibration, evaluation));
done:
    free(calibration);
    free(evaluation);
    return st;
}

/* *out = the n draws, from the cache or made now. */
static enum status get_draws(struct visit_cache *cache, const struct visit *v,
                             const struct drawing *d, int64_t n, const struct input **out,
                             struct err *e)
{
    enum status st = OK;
    struct input *input = NULL;
    char *key = NULL;
    TRY(draws_key(d, v, n, &key, e));
    *out = find(cache, key, d->planned);
    if (*out) goto done;
    TRY(input_new(&input, e));
    TRY(mem_zero(&input->draws, n, sizeof *input->draws, "draws", e));
    input->n_draws = n;
    TRY(draw(d, input, e));
    *out = keep(cache, &input, &key);
done:
    input_free(input);
    free(key);
    return st;
}

enum status visit_draws_get(struct visit_cache *cache, const struct visit *v,
                            const struct sequences **out, int64_t *n, struct err *e)
{
    enum status st = OK;
    char *tokenizer = NULL;
    struct visit_inputs in;
    const struct input *draws = NULL;
    *n = 0;
    for (int64_t i = 0; i < v->n_variants; i++) *n = max64(*n, v->variants[i].replicate);
    *out = NULL;
    if (*n == 0) return OK;
    TRY(visit_inputs_get(cache, v, &in, e));
    ENSURE(in.calibration, ERR_USAGE, "calibration: replicates need it and none is given");
    TRY(find_tokenizer(v, reads_text(v), &tokenizer, e));
    struct sequences texts = *in.evaluation; /* shallow: without tasks */
    texts.n = in.texts;
    struct drawing d = {.planned = v->inputs,
                        .options = &v->calibration,
                        .checkpoint = weights_folder(&v->weights),
                        .tokenizer = tokenizer,
                        .size = in.calibration->n,
                        .avoid = &texts,
                        .seed = (uint64_t)v->seed};
    TRY(facts_read(d.checkpoint, &(const struct source){.data = d.options, .n = 1}, &d.facts, e));
    TRY(get_draws(cache, v, &d, *n, &draws, e));
    *out = draws->draws;
done:
    free(tokenizer);
    return st;
}
