#include "engine/inputs.h"
#include "eval/common_tokens.h"
#include "eval/dataset.h"
#include "eval/overlap.h"
#include "model/positions.h"
#include "tokenizer/eos.h"
#include "tokenizer/tokenizer.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/lru.h"
#include "util/mem.h"
#include "util/num.h"

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
    lru_trim(&cache->inputs, INPUTS_KEPT);
}

/* --- what was planned --- */

/* The one check of all inputs: whether what was read of one is what was planned. */
static enum status expect(const json_t *planned, const char *name, const char *tokenizer,
                          const char *found, struct err *e)
{
    char text[DATASET_NAME];
    const char *digest = json_text(planned, name, "");
    if (!planned || (!digest[0] && strcmp(name, INPUT_SPECIAL) == 0)) return OK;
    dataset_name(&(struct data_options){.text = (char *)(uintptr_t)name}, text);
    if (strcmp(name, INPUT_TOKENIZER) == 0) snprintf(text, DATASET_NAME, "%s", tokenizer);
    if (strcmp(name, INPUT_SPECIAL) == 0)
        snprintf(text, DATASET_NAME, "%s: its end-of-text or padding token", tokenizer);
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
    json_t *digest;
    json_auto_t *all = json_object();
    json_object_foreach(v->inputs, name, digest)
        json_object_set_new(all, json_string_value(digest), json_true());
    AUTO_FREE char *text = json_dump_whole(all, JSON_COMPACT | JSON_SORT_KEYS);
    NEED(text, ERR_NOMEM, "out of memory for digests");
    hash_text(text, out);
    return json_whole(e);
}

/* Notes what was read for x, and checks it. */
static enum status note(const json_t *planned, const char *name, const char *tokenizer,
                        const char *found, struct input *x, struct err *e)
{
    json_object_set_new(x->read, name, json_string(found));
    return expect(planned, name, tokenizer, found, e);
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

bool visit_reads_text(const struct visit *v)
{
    bool text = v->calibration.text != NULL || v->requests.tasks;
    for (int64_t i = 0; i < v->n_evaluations; i++) text = text || v->evaluations[i].text;
    return text;
}

/* What sequences are made of. */
struct source {
    const struct visit *visit;
    const char *tokenizer;           /* its file; "": none */
    const struct data_options *data; // (n)
    int64_t n;
    const struct requests_options *requests; /* NULL: none */
    /* > 0: so many draws of data[0], of `size` sequences each, which avoid those of the texts
     * `beside`. */
    int64_t n_draws, size;
    const struct input *beside;
    int64_t texts;
    uint64_t seed;
};

/* Values from the checkpoint's config.json for options that are left open. */
struct source_info {
    int64_t written, usable; /* positions (positions.h); 0: not needed */
    struct pad_hint pad;
};

enum status visit_positions(const char *checkpoint, int64_t *written, int64_t *usable,
                            struct err *e)
{
    json_auto_t *config = NULL;
    PASS(checkpoint_read_config(checkpoint, &config, NULL, e));
    *written = positions_written(config);
    *usable = positions_usable(config);
    return OK;
}

static bool asks_for_pad(const struct data_options *d)
{
    return d->padding == PADDING_COUNTED && d->pad_id < 0;
}

bool input_names_tokens(const struct data_options *d)
{
    return asks_for_pad(d) || (d->separator && strcmp(d->separator, "eos") == 0);
}

static enum status source_info_read(const struct source *from, struct source_info *f, struct err *e)
{
    const char *checkpoint = weights_folder(&from->visit->weights);
    const struct data_options *options = from->data;
    bool cuts = false, open = from->requests != NULL, fills = false;
    *f = (struct source_info){0, 0, {-1, -1, -1}};
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
static enum status resolve(struct data_options *d, const struct source_info *f,
                           const struct tokenizer *t, struct err *e)
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

static enum status draw(const struct source *from, const struct data_options *d,
                        const struct tokenizer *tokenizer, struct input *out, char hash[HASH_HEX],
                        struct err *e)
{
    struct sequences texts = from->beside->sequences; /* shallow: without tasks */
    texts.n = from->texts;
    PASS(mem_zero(&out->draws, from->n_draws, sizeof *out->draws, "draws", e));
    out->n_draws = from->n_draws;
    return dataset_draw(d, tokenizer, from->size, &texts, from->seed, out->n_draws, out->draws,
                        hash, e);
}

static enum status join(const struct source *from, const struct sequences *parts, struct input *out,
                        struct err *e)
{
    const struct requests *r = &out->requests;
    const int64_t n = from->n;
    PASS(mem_zero(&out->first, n + 1, sizeof *out->first, "datasets", e));
    PASS(sequences_join(parts, n, r->n ? &r->sequences : NULL, &out->sequences, out->first, e));
    const int64_t texts = out->first[n], all = out->sequences.n;
    PASS(mem_alloc(&out->first_unit, all + 1, sizeof *out->first_unit, "units", e));
    for (int64_t i = 0; i <= all; i++)
        out->first_unit[i] = i <= texts ? i : texts + r->first_request[i - texts];
    return OK;
}

static enum status load(const struct source *from, const struct source_info *f, struct input *out,
                        struct err *e)
{
    const int64_t n = from->n;
    enum status st = OK;
    struct tokenizer *tokenizer = NULL;
    struct sequences *parts = NULL;
    double start = clock_seconds();
    TRY(open_tokenizer(from->visit->inputs, from->tokenizer, &tokenizer, out, e));
    TRY(mem_zero(&parts, n, sizeof *parts, "datasets", e));
    for (int64_t i = 0; i < n; i++) {
        char hash[HASH_HEX];
        struct data_options d = from->data[i];
        TRY(resolve(&d, f, tokenizer, e));
        if (from->n_draws)
            TRY(draw(from, &d, tokenizer, out, hash, e));
        else
            TRY(dataset_load(&d, tokenizer, &parts[i], hash, e));
        TRY(note(from->visit->inputs, d.text ? d.text : d.ids, "", hash, out, e));
    }
    if (from->requests)
        TRY(requests_make(from->requests, tokenizer, f->written ? f->written : POSITIONS_OTHERWISE,
                          &out->requests, e));
    json_object_update(out->read, out->requests.files);
    TRY(expect_all(from->visit->inputs, out->requests.files, e));
    if (!from->n_draws) TRY(join(from, parts, out, e));
    log_trace("io", "%s of %s: %.3f s", from->n_draws ? "draws" : "tokens",
              n ? from->data[0].name : "", clock_seconds() - start);
done:
    for (int64_t i = 0; parts && i < n; i++) sequences_free(&parts[i]);
    free(parts);
    tokenizer_close(tokenizer);
    return st;
}

/* *key (the caller frees) = what the sequences depend on. */
static enum status input_key(const struct source *from, const struct source_info *f, char **key,
                             struct err *e)
{
    char hash[HASH_HEX] = "";
    const char *planned = json_text(from->visit->inputs, INPUT_TOKENIZER, NULL);
    AUTO_FREE char *text = NULL;
    json_auto_t *list = json_array();
    const struct requests_options *r = from->requests;
    for (int64_t i = 0; i < from->n; i++)
        json_array_append_new(list, data_options_to_json(&from->data[i]));
    if (r)
        json_array_append_new(list,
                              json_pack("[s, s, I, I, b]", r->tasks, r->folder,
                                        (json_int_t)r->shots, (json_int_t)r->limit, r->apart));
    if (from->tokenizer[0] && !planned) PASS(hash_file(from->tokenizer, hash, e));
    NEED(text = json_dump_whole(list, JSON_COMPACT | JSON_SORT_KEYS), ERR_NOMEM, "out of memory");
    PASS(json_whole(e));
    return mem_format(key, e, "%s %lld %lld %d %d %d %s %lld draws, seed %llu, beside %s",
                      planned ? planned : hash, (long long)f->written, (long long)f->usable,
                      f->pad.pad, f->pad.bos, f->pad.eos, text, (long long)from->n_draws,
                      (unsigned long long)from->seed, from->beside ? from->beside->lru.key : "");
}

/* *out = an input from the cache, if it was made of what is planned; else it is loaded. */
static enum status get(struct visit_cache *cache, const struct source *from,
                       const struct input **out, struct err *e)
{
    enum status st = OK;
    struct input *input = NULL;
    char *key = NULL;
    struct source_info f;
    TRY(source_info_read(from, &f, e));
    TRY(input_key(from, &f, &key, e));
    *out = (const struct input *)lru_find(&cache->inputs, key);
    if (*out && expect_all(from->visit->inputs, (*out)->read, NULL) == OK) goto done;
    TRY(mem_zero(&input, 1, sizeof *input, "token sequences", e));
    input->read = json_object();
    TRY(load(from, &f, input, e));
    input->lru.key = key;
    input->lru.drop = input_free;
    lru_add(&cache->inputs, &input->lru);
    *out = TAKE(input);
    key = NULL;
done:
    input_free(input);
    free(key);
    return st;
}

/* What a visit reads: *calibration (NULL: none) and *evaluation, made with the file *tokenizer (the
 * caller frees). */
static enum status get_both(struct visit_cache *cache, const struct visit *v, char **tokenizer,
                            const struct input **calibration, const struct input **evaluation,
                            struct err *e)
{
    *calibration = NULL;
    PASS(visit_find_tokenizer(v, visit_reads_text(v), tokenizer, e));
    struct source from = {.visit = v, .tokenizer = *tokenizer, .data = &v->calibration, .n = 1};
    if (v->calibration.text || v->calibration.ids) PASS(get(cache, &from, calibration, e));
    from.data = v->evaluations;
    from.n = v->n_evaluations;
    from.requests = v->requests.tasks ? &v->requests : NULL;
    return get(cache, &from, evaluation, e);
}

enum status visit_inputs_get(struct visit_cache *cache, const struct visit *v,
                             struct visit_inputs *out, struct err *e)
{
    const struct input *calibration, *evaluation;
    AUTO_FREE char *tokenizer = NULL;
    PASS(get_both(cache, v, &tokenizer, &calibration, &evaluation, e));
    *out = (struct visit_inputs){.calibration = calibration ? &calibration->sequences : NULL,
                                 .evaluation = &evaluation->sequences,
                                 .first = evaluation->first,
                                 .first_unit = evaluation->first_unit,
                                 .requests = evaluation->requests.n ? &evaluation->requests : NULL,
                                 .texts = evaluation->first[v->n_evaluations]};
    return OK;
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
    const struct input *input;
    AUTO_FREE char *tokenizer = NULL;
    PASS(visit_find_tokenizer(v, data->text != NULL, &tokenizer, e));
    const struct source from = {.visit = v, .tokenizer = tokenizer, .data = data, .n = 1};
    PASS(get(cache, &from, &input, e));
    *out = &input->sequences;
    return OK;
}

/* --- common tokens --- */

enum status visit_common_tokens(struct visit_cache *cache, const struct visit *v,
                                const struct data_options *data, const char *name, int64_t *tokens,
                                struct err *e)
{
    AUTO_FREE char *own_path = NULL, *path = NULL;
    CLEANUP(tokenizer_close_at) struct tokenizer *own = NULL, *common = NULL;
    const struct sequences *s;
    PASS(visit_common_tokenizer(name, &path, e));
    PASS(tokenizer_open(path, &common, e));
    PASS(visit_find_tokenizer(v, true, &own_path, e));
    PASS(tokenizer_open(own_path, &own, e));
    PASS(expect(v->inputs, path, "", tokenizer_hash(common), e));
    PASS(expect(v->inputs, INPUT_TOKENIZER, own_path, tokenizer_hash(own), e));
    PASS(visit_sequences_get(cache, v, data, &s, e));
    return common_tokens_count(s, own, common, tokens, e);
}

enum status visit_draws_get(struct visit_cache *cache, const struct visit *v,
                            const struct sequences **out, int64_t *n, struct err *e)
{
    AUTO_FREE char *tokenizer = NULL;
    const struct input *calibration, *evaluation, *draws;
    struct visit by = *v; /* shallow */
    if (v->n_drawn) {
        by.evaluations = v->drawn;
        by.n_evaluations = v->n_drawn;
    }
    *n = 0;
    for (int64_t i = 0; i < v->n_variants; i++) *n = max64(*n, v->variants[i].replicate);
    *out = NULL;
    if (*n == 0) return OK;
    PASS(get_both(cache, &by, &tokenizer, &calibration, &evaluation, e));
    NEED(calibration, ERR_USAGE, "calibration: replicates need it and none is given");
    const struct source from = {.visit = v,
                                .tokenizer = tokenizer,
                                .data = &v->calibration,
                                .n = 1,
                                .n_draws = *n,
                                .size = calibration->sequences.n,
                                .beside = evaluation,
                                .texts = evaluation->first[by.n_evaluations],
                                .seed = (uint64_t)v->seed};
    PASS(get(cache, &from, &draws, e));
    *out = draws->draws;
    return OK;
}

enum status warn_of_overlap(const struct visit *v, const struct visit_inputs *in, struct err *e)
{
    if (!in->calibration) return OK;
    for (int64_t i = 0; i < v->n_evaluations; i++) {
        int64_t found, n = in->first[i + 1] - in->first[i];
        PASS(overlap_count(in->evaluation, in->first[i], in->first[i + 1], in->calibration, &found,
                           e));
        if (found)
            log_warn(
                "%lld of %lld evaluation sequences also calibrate (%s): methods that calibrate "
                "look better on them than they are; evaluate on another text, or skip the "
                "sequences that calibrate",
                (long long)found, (long long)n, v->evaluations[i].name);
    }
    return OK;
}
