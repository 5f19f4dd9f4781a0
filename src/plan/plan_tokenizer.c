/* The tokenizers of a plan's checkpoints, and the special tokens that files beside them name. */
#include "engine/inputs.h"
#include "plan/plan_internal.h"
#include "tokenizer/eos.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

/* Whether any text asks for tokens that the files beside a tokenizer name. */
static bool names_tokens(const struct plan *p)
{
    const struct sweep *s = p->sweep;
    bool any = input_names_tokens(&s->calibration);
    for (int k = 0; k < MEASURES_N; k++) {
        const struct data_options own = {0},
                                  text = measures[k]->text ? measures[k]->text(p, 0) : own;
        any = any || input_names_tokens(&text) ||
              (measures[k]->names_tokens && measures[k]->names_tokens(s));
    }
    for (int64_t i = 0; i < s->n_evaluations; i++)
        any = any || input_names_tokens(&s->evaluations[i]);
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t j = 0; j < s->models[i].n_averages; j++)
            any = any || input_names_tokens(&s->models[i].averages[j].greedy.text);
    return any;
}

/* The digests of the tokenizer at the path, from those of earlier checkpoints or read now. */
static enum status tokenizer_digests(struct plan *p, const char *path, struct plan_checkpoint *c,
                                     struct err *e)
{
    const json_t *known = json_object_get(p->tokenizers, path);
    if (known) {
        snprintf(c->tokenizer_now, HASH_HEX, "%s", json_string_value(known));
        snprintf(c->special, HASH_HEX, "%s", json_text(p->specials, path, ""));
        return OK;
    }
    if (p->look_ahead && !fsx_is_file(path)) {
        char why[512];
        snprintf(why, sizeof why, "%s: no such tokenizer", path);
        snprintf(c->tokenizer_now, HASH_HEX, "%s", plan_past_input(p, path));
        PASS(plan_without(p, why, e));
    } else {
        PASS(hash_file(path, c->tokenizer_now, e));
        CLEANUP(special_free) struct special x = {0};
        /* what cannot be read now is an error of the visits, and changed once it can */
        if (names_tokens(p))
            snprintf(c->special, HASH_HEX, "%s",
                     special_read(path, &x, NULL) == OK ? x.hash : "unreadable");
    }
    json_object_set_new(p->tokenizers, path, json_string(c->tokenizer_now));
    json_object_set_new(p->specials, path, json_string(c->special));
    return OK;
}

/* A tokenizer that is gone, with the checkpoint's folder or alone, is that of the newest plan that
 * had it: what is finished keeps its keys. *path (the caller frees): where it was; NULL: nowhere.
 */
static enum status recall_tokenizer(struct plan *p, struct plan_checkpoint *c, char **path,
                                    struct err *e)
{
    static const char *const places[] = {"", "/.."};
    for (int i = 0; i < 2 && !*path; i++) {
        PASS(mem_format(path, e, "%s%s/tokenizer.json", weights_folder(&c->weights), places[i]));
        const char *known = plan_past_input(p, *path);
        snprintf(c->tokenizer_now, HASH_HEX, "%s", known);
        c->recalled = known[0] != '\0';
        if (c->recalled) {
            json_object_set_new(p->tokenizers, *path, json_string(known));
        } else {
            mem_drop(path);
        }
    }
    return OK;
}

enum status plan_tokenizer_path(const struct plan *p, const struct plan_checkpoint *c, char **path,
                                struct err *e)
{
    const struct model_entry *m = &p->sweep->models[c->model];
    return m->tokenizer ? mem_string(path, m->tokenizer, e)
                        : visit_tokenizer(weights_folder(&c->weights), path, e);
}

enum status plan_find_tokenizer(struct plan *p, struct plan_checkpoint *c, struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(plan_tokenizer_path(p, c, &path, e));
    PASS(path ? tokenizer_digests(p, path, c, e) : recall_tokenizer(p, c, &path, e));
    /* A stored checkpoint with this tokenizer: itself, or the first member of an average. */
    const struct model_entry *m = &p->sweep->models[c->model];
    const struct trajectory_row *r = &m->rows[c->row];
    const bool other = !r->average || (m->tokenizer && r->members[0].model != c->model);
    const struct average_member by =
        other ? (struct average_member){c->model, c->row, 1} : r->members[0];
    return plan_known_digest(p, PLAN_TOKENIZER, by.model, by.row, path, c->tokenizer_now,
                             c->tokenizer, e);
}

bool plan_special_changed(const struct plan_checkpoint *c, const json_t *record)
{
    const char *was = json_text(json_object_get(record, "provenance"), "special_tokens", "");
    return was[0] && c->special[0] && strcmp(was, c->special) != 0;
}
