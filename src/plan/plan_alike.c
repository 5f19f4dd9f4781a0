/* config.json and tokenizer.json that say the same as at an earlier plan of the results in other
 * bytes keep the digest of then (docs/decisions/0002-cell-keys.md). */
#include "model/describe.h"
#include "plan/plan_internal.h"
#include "tokenizer/tokenizer.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

enum { READ_MAX = 256 << 20 };

const char *const plan_files[] = {[PLAN_CONFIG] = "config", [PLAN_TOKENIZER] = "tokenizer"};

/* What the file with that digest says: as a plan knew it, or as it is read now. */
static enum status meaning_of(const struct plan *p, enum plan_file what, const char *path,
                              const char *digest, const char **out, struct err *e)
{
    char now[HASH_HEX];
    *out = json_text(p->past.meanings, digest, NULL);
    if (*out) return OK;
    /* now "": what it says is not known. */
    json_t *root = NULL;
    char hash[HASH_HEX];
    enum status st = json_read_as(path, READ_MAX, 0, hash, &root, NULL);
    if (st == OK && strcmp(hash, digest) != 0) st = ERR_CHANGED;
    if (st == OK)
        st = what == PLAN_CONFIG ? model_config_digest(root, path, now, NULL)
                                 : tokenizer_meaning(root, now, NULL);
    json_decref(root);
    if (st != OK) now[0] = '\0';
    NEED(st != ERR_NOMEM, st, "%s: out of memory", path);
    json_object_set_new(p->past.meanings, digest, json_string(now));
    *out = json_text(p->past.meanings, digest, "");
    return json_whole(e);
}

/* The row's entry in earlier plan k; NULL: it had none. */
static const json_t *entry_then(const struct plan *p, int64_t model, int64_t row, size_t k)
{
    const json_t *of = plan_past_entries(p, k, plan_known_model(p, model));
    const struct trajectory_row *r = &p->sweep->models[model].rows[row];
    return json_object_get(of, r->average ? r->checkpoint : plan_known_row(p, model, row));
}

enum status plan_known_digest(const struct plan *p, enum plan_file what, int64_t model, int64_t row,
                              const char *path, const char *now, char known[HASH_HEX],
                              struct err *e)
{
    const char *said = NULL;
    snprintf(known, HASH_HEX, "%s", now);
    for (size_t k = json_array_size(p->past.plans); k-- > 0 && now[0];) {
        const json_t *entry = entry_then(p, model, row, k);
        const char *had = json_text(entry, plan_files[what], NULL);
        if (had && strcmp(had, now) == 0) return OK;
        if (had && !said) PASS(meaning_of(p, what, path, now, &said, e));
        if (!had || !said[0] || strcmp(json_text(p->past.meanings, had, ""), said) != 0) continue;
        snprintf(known, HASH_HEX, "%s", had);
        return OK;
    }
    return OK;
}

/* now = the digest of the folder's config.json at the path; "": there is none. */
static void config_digest(const struct plan *p, const char *path, char now[HASH_HEX])
{
    now[0] = '\0';
    if (!json_object_get(p->past.configs, path)) {
        if (!fsx_is_file(path) || hash_file(path, now, NULL) != OK) now[0] = '\0';
        json_object_set_new(p->past.configs, path, json_string(now));
    }
    snprintf(now, HASH_HEX, "%s", json_text(p->past.configs, path, ""));
}

enum status plan_config(const struct plan *p, int64_t model, int64_t row, const char *folder,
                        char now[HASH_HEX], char known[HASH_HEX], struct err *e)
{
    AUTO_FREE char *path = NULL;
    now[0] = known[0] = '\0';
    PASS(fsx_join(folder, "config.json", &path, e));
    config_digest(p, path, now);
    return plan_known_digest(p, PLAN_CONFIG, model, row, path, now, known, e);
}

/* What the file says is known to later plans; of a file that is not there (now: "") the newest
 * digest stays. */
static enum status note(const struct plan *p, const struct plan_checkpoint *c, enum plan_file what,
                        const char *path, const char *now, const char *known, json_t *entry,
                        struct err *e)
{
    const char *said, *had = NULL;
    for (size_t k = json_array_size(p->past.plans); k-- > 0 && !now[0] && !had;)
        had = json_text(entry_then(p, c->model, c->row, k), plan_files[what], NULL);
    if (had) json_object_set_new(entry, plan_files[what], json_string(had));
    if (!now[0]) return OK;
    PASS(meaning_of(p, what, path, now, &said, e));
    json_object_set_new(entry, plan_files[what], json_string(known));
    return json_whole(e);
}

/* The config.json of a folder, its digest and what it says; *path is the caller's to free. */
static enum status folder_meaning(const struct plan *p, const char *folder, char **path,
                                  char now[HASH_HEX], const char **said, struct err *e)
{
    *said = "";
    PASS(fsx_join(folder, "config.json", path, e));
    config_digest(p, *path, now);
    return now[0] ? meaning_of(p, PLAN_CONFIG, *path, now, said, e) : OK;
}

bool plan_hash_alike(const struct plan *p, struct checkpoint *c, const char *was)
{
    AUTO_FREE char *path = NULL;
    char now[HASH_HEX];
    const char *said, *digest;
    json_t *one;
    bool alike = false;
    if (folder_meaning(p, checkpoint_dir(c), &path, now, &said, NULL) == OK && said[0])
        json_object_foreach(p->past.meanings, digest, one)
            alike = alike || (strcmp(json_string_value(one), said) == 0 &&
                              checkpoint_known_as(c, now, digest, NULL) == OK &&
                              strcmp(checkpoint_hash(c), was) == 0);
    return alike;
}

enum status plan_note_files(const struct plan *p, const struct plan_checkpoint *c, json_t *entry,
                            struct err *e)
{
    AUTO_FREE char *path = NULL;
    char now[HASH_HEX], known[HASH_HEX];
    if (c->weights.kind == WEIGHTS_STORED) {
        PASS(plan_config(p, c->model, c->row, c->weights.path, now, known, e));
        PASS(fsx_join(c->weights.path, "config.json", &path, e));
        PASS(note(p, c, PLAN_CONFIG, path, now, known, entry, e));
        mem_drop(&path);
    }
    PASS(plan_tokenizer_path(p, c, &path, e));
    /* What the configurations of its stored quantized weights say. */
    for (int64_t i = 0; i < p->sweep->n_methods; i++) {
        AUTO_FREE char *folder = NULL, *config = NULL;
        const char *said;
        if (!p->sweep->methods[i].path) continue;
        PASS(plan_stored_path(p, c, &p->sweep->methods[i], &folder, e));
        PASS(folder_meaning(p, folder, &config, now, &said, e));
    }
    return note(p, c, PLAN_TOKENIZER, path ? path : "", c->tokenizer_now, c->tokenizer, entry, e);
}

json_t *plan_meanings(const struct plan *p)
{
    const char *digest;
    json_t *said, *out = json_object();
    json_object_foreach(p->past.meanings, digest, said) {
        if (json_string_length(said)) json_object_set(out, digest, said);
    }
    return out;
}
