#include "run/owner.h"
#include "records/part_files.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <stdlib.h>
#include <string.h>

static bool in_sweep(const struct sweep *s, const char *model, const char *checkpoint)
{
    for (int64_t i = 0; i < s->n_models; i++) {
        if (strcmp(s->models[i].name, model) != 0) continue;
        for (int64_t k = 0; k < s->models[i].n_rows; k++)
            if (strcmp(s->models[i].rows[k].checkpoint, checkpoint) == 0) return true;
    }
    return false;
}

/* *there (the caller frees) = "11 checkpoints of a, 3 of b"; *shared = whether the sweep has one of
 * them. */
static enum status list_models(const struct sweep *s, const json_t *plan, char **there,
                               bool *shared, struct err *e)
{
    size_t i, k;
    json_t *model, *one;
    *shared = false;
    PASS(mem_string(there, "", e));
    json_array_foreach(json_object_get(plan, "models"), i, model)
    {
        const char *name = json_text(model, "name", "");
        const json_t *list = json_object_get(model, "checkpoints");
        const int64_t n = (int64_t)json_array_size(list);
        json_array_foreach(list, k, one) *shared =
            *shared || in_sweep(s, name, json_text(one, "name", ""));
        if (i == 0)
            PASS(mem_append(there, e, "%lld checkpoint%s", (long long)n, quantity_plural(n)));
        if (i > 0 && i < 3) PASS(mem_append(there, e, ", %lld", (long long)n));
        if (i < 3) PASS(mem_append(there, e, " of %s", name));
        if (i == 3) PASS(mem_append(there, e, ", ..."));
    }
    return OK;
}

/* *journal (the caller frees) = that of the results, else that of a part of the sweep's; NULL:
 * there is none. */
static enum status find_journal(const struct sweep *s, const char *results, char **journal,
                                struct err *e)
{
    enum status st = OK;
    char *cube = NULL, *folder = NULL;
    struct part_places parts = {0};
    TRY(fsx_resolve(results, &cube, e));
    TRY(journal_path(cube, journal, e));
    if (fsx_is_file(*journal)) goto done;
    free(*journal);
    *journal = NULL;
    TRY(parts_folder(s->results, &folder, e));
    TRY(parts_list(folder, &parts, e));
    if (parts.n) TRY(mem_string(journal, parts.part[0].journal, e));
done:
    parts_free(&parts);
    free(folder);
    free(cube);
    return st;
}

enum status owner_check(const struct sweep *s, const char *results, struct err *e)
{
    enum status st = OK;
    struct part_look look = {0};
    char *journal = NULL, *there = NULL;
    struct err none = {0};
    bool shared;
    TRY(find_journal(s, results, &journal, e));
    if (!journal) goto done;
    /* What cannot be read is an error of opening it. */
    if (part_look(journal, &look, &none) != OK || !look.plan) goto done;
    TRY(list_models(s, look.plan, &there, &shared, e));
    const char *name = json_text(look.plan, "name", "");
    ENSURE(shared && strcmp(name, s->name) == 0, ERR_USAGE,
           "results: %s is another sweep's: %s, %s, planned %s on %s; name another file, or take "
           "it over with `qtraj run --adopt`",
           results, name, there, json_text(look.plan, "utc", "?"),
           json_text(look.plan, "host", "?"));
done:
    err_clear(&none);
    part_look_free(&look);
    free(there);
    free(journal);
    return st;
}
