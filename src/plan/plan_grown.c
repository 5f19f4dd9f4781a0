/* Texts that have been appended to since an earlier plan of the results. For whom the same is read
 * of them as then, they are the text of then (docs/decisions/0035-scores-per-text.md). */
#include "engine/inputs.h"
#include "eval/dataset.h"
#include "eval/grown.h"
#include "plan/plan_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/texts.h"

/* --- who reads a text --- */

/* The different tokenizers of those that read it. */
struct readers {
    struct texts paths;
    json_t *digests; /* [DIGEST] */
    bool complete;   /* all are there */
};

static void readers_free(struct readers *r)
{
    texts_free(&r->paths);
    json_decref(r->digests);
}

/* The tokenizer of the model's first checkpoint that has one. */
static enum status add_reader(const struct plan *p, int64_t model, struct readers *r, struct err *e)
{
    AUTO_FREE char *path = NULL;
    const struct plan_checkpoint *c = NULL;
    json_t *one;
    size_t i;
    for (int64_t k = 0; k < p->n_checkpoints && !path; k++) {
        c = &p->checkpoints[k];
        if (c->model == model) PASS(plan_tokenizer_path(p, c, &path, e));
    }
    r->complete = r->complete && path && fsx_is_file(path);
    if (!r->complete) return OK;
    json_array_foreach(r->digests, i, one)
        if (strcmp(json_string_value(one), c->tokenizer) == 0) return OK;
    json_array_append_new(r->digests, json_string(c->tokenizer));
    return texts_add(&r->paths, path, e);
}

/* use = digest of what is read of a text with that digest, of what it is cut into, and by whom. */
static enum status use_of(const struct readers *r, const json_t *identity, const char *digest,
                          char use[HASH_HEX], struct err *e)
{
    json_t *own = json_copy((json_t *)(uintptr_t)identity);
    json_object_set_new(own, "hash", json_string(digest));
    json_object_set(own, "tokenizers", r->digests);
    return plan_digest(own, use, e);
}

/* --- what was planned --- */

static bool had_input(const json_t *plan, const char *digest)
{
    const char *path;
    json_t *one;
    json_object_foreach(json_object_get(plan, "inputs"), path, one) {
        if (strcmp(json_string_value(one), digest) == 0) return true;
    }
    return false;
}

/* As which text the plan took one with that digest; NULL: it had no such use. A plan that says
 * nothing of uses took each as itself. Borrowed. */
static enum status as_taken(const json_t *plan, const struct readers *r, const json_t *identity,
                            const char *digest, const char **taken, struct err *e)
{
    char use[HASH_HEX];
    const json_t *read = json_object_get(plan, "read");
    PASS(use_of(r, identity, digest, use, e));
    *taken = read ? json_text(read, use, NULL) : digest;
    return OK;
}

/* *starts (borrowed): those of the text that earlier plans knew; a text that cannot be read has
 * none. */
static enum status find_starts(struct plan *p, const struct data_options *d, const json_t **starts,
                               struct err *e)
{
    struct err why = {0};
    json_t *found = NULL;
    *starts = json_object_get(p->past.starts, d->text);
    if (*starts) return OK;
    json_auto_t *known = json_object(); /* {DIGEST: true} of all inputs of earlier plans */
    json_t *plan, *one;
    const char *path;
    size_t i;
    json_array_foreach(p->past.plans, i, plan)
        json_object_foreach(json_object_get(plan, "inputs"), path, one)
            json_object_set_new(known, json_string_value(one), json_true());
    const enum status st = grown_starts(d, known, &found, &why);
    NEED(st != ERR_NOMEM, ERR_NOMEM, "%s", why.text);
    json_object_set_new(p->past.starts, d->text, found ? found : json_object());
    *starts = json_object_get(p->past.starts, d->text);
    return OK;
}

static bool has_replicates(const struct sweep *s)
{
    bool any = false;
    for (int64_t i = 0; i < s->n_methods; i++) any = any || s->methods[i].replicates > 1;
    return any;
}

static enum status alike(const struct plan *p, const struct data_options *d,
                         const struct readers *r, const json_t *place, bool *same, struct err *e)
{
    const struct text_start start = {json_integer_value(json_array_get(place, 0)),
                                     json_integer_value(json_array_get(place, 1))};
    const char *calibration = p->sweep->calibration.text;
    const bool pool = calibration && strcmp(d->text, calibration) == 0 && has_replicates(p->sweep);
    *same = r->paths.n > 0;
    for (int64_t i = 0; *same && i < r->paths.n; i++) {
        CLEANUP(tokenizer_close_at) struct tokenizer *t = NULL;
        PASS(tokenizer_open(r->paths.text[i], &t, e));
        PASS(dataset_starts_alike(d, t, &start, pool, same, e));
    }
    return OK;
}

/* What the plan took for a start of which the same is read as of the text with the digest `now`;
 * *taken: unchanged if it knew none. tried: {DIGEST: whether the same is read}. */
static enum status look_in(struct plan *p, const json_t *plan, const struct data_options *d,
                           const struct readers *r, const json_t *identity, const char *now,
                           json_t *tried, const char **taken, struct err *e)
{
    const json_t *starts;
    const char *digest;
    json_t *place;
    PASS(find_starts(p, d, &starts, e));
    json_object_foreach((json_t *)(uintptr_t)starts, digest, place) {
        bool same = json_flag(tried, digest);
        if (*taken || strcmp(digest, now) == 0 || !had_input(plan, digest)) continue;
        if (!json_object_get(tried, digest)) PASS(alike(p, d, r, place, &same, e));
        json_object_set_new(tried, digest, json_boolean(same));
        if (same) PASS(as_taken(plan, r, identity, digest, taken, e));
    }
    return OK;
}

/* By the newest plan that had this use of the text, or of a start of which the same is read. out:
 * the text's digest, in place of which that of the start may come. */
static enum status decide(struct plan *p, const struct data_options *d, const struct readers *r,
                          const json_t *identity, char out[HASH_HEX], struct err *e)
{
    const char *taken = NULL;
    json_auto_t *tried = json_object();
    const size_t n = json_array_size(p->past.plans);
    for (size_t i = n; i-- > 0 && !taken;) {
        const json_t *plan = json_array_get(p->past.plans, i);
        if (had_input(plan, out)) PASS(as_taken(plan, r, identity, out, &taken, e));
    }
    for (size_t i = n; i-- > 0 && !taken;)
        PASS(look_in(p, json_array_get(p->past.plans, i), d, r, identity, out, tried, &taken, e));
    if (taken && taken != out) snprintf(out, HASH_HEX, "%s", taken);
    return OK;
}

/* The same of a use of the text; out: as above. */
static enum status find_read(struct plan *p, int64_t model, const struct data_options *d,
                             const json_t *identity, char out[HASH_HEX], struct err *e)
{
    CLEANUP(readers_free) struct readers r = {0};
    char use[HASH_HEX], now[HASH_HEX];
    memcpy(now, out, sizeof now);
    const int64_t first = model < 0 ? 0 : model, end = model < 0 ? p->sweep->n_models : model + 1;
    r = (struct readers){.digests = json_array(), .complete = true};
    for (int64_t i = first; r.complete && i < end; i++) PASS(add_reader(p, i, &r, e));
    if (!r.complete) return OK;
    PASS(use_of(&r, identity, now, use, e));
    const char *known = json_text(p->past.read, use, NULL);
    if (known)
        snprintf(out, HASH_HEX, "%s", known);
    else
        PASS(decide(p, d, &r, identity, out, e));
    json_object_set_new(p->past.read, use, json_string(out));
    const bool grown = strcmp(out, now) != 0;
    /* Whoever reads another text makes it one that has changed. */
    if (!grown || !json_object_get(p->past.grown, d->text))
        json_object_set_new(p->past.grown, d->text, json_boolean(grown));
    return OK;
}

enum status plan_grown(struct plan *p, int64_t model, const struct data_options *d,
                       const char *hash, json_t **out, struct err *e)
{
    char known[HASH_HEX];
    json_auto_t *own = plan_identity(d, hash);
    snprintf(known, sizeof known, "%s", hash);
    if (d->text && hash[0] && json_array_size(p->past.plans))
        PASS(find_read(p, model, d, own, known, e));
    json_object_set_new(own, "hash", json_string(known));
    *out = json_incref(own);
    return OK;
}
