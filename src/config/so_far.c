/* What of a sweep is there while its checkpoints are still being made. */
#include "config/sweep_internal.h"
#include "config/trajectory.h"
#include "util/mem.h"

void so_far_keep(struct model_entry *m, const struct sweep_so_far *how)
{
    int64_t n = 0;
    while (n < m->n_rows && how->whole(m, n, how->texts)) n++;
    trajectory_cut(m, n);
}

bool so_far_texts(const struct node *root)
{
    const struct node *list = node_find(root, "evaluation");
    for (int64_t i = 0; list && i < list->n; i++)
        if (node_find(list->items[i], "text")) return true;
    return node_find(node_find(root, "calibration"), "text") != NULL;
}

/* Whether the model branches from one of those. */
static bool branches_from(const struct sweep *s, const struct model_entry *m, const bool *absent)
{
    for (int64_t i = 0; m->branch_of && i < s->n_models; i++)
        if (absent[i] && strcmp(s->models[i].name, m->branch_of) == 0) return true;
    return false;
}

enum status so_far_drop(struct sweep *s, struct node *models, struct err *e)
{
    AUTO_FREE bool *absent = NULL;
    int64_t n = 0, before = -1, kept = 0;
    PASS(mem_zero(&absent, s->n_models, sizeof *absent, "models", e));
    while (n != before) {
        before = n;
        for (int64_t i = 0; i < s->n_models; i++)
            if (!absent[i] && (s->models[i].n_rows == 0 || branches_from(s, &s->models[i], absent)))
                absent[i] = ++n > 0;
    }
    for (int64_t i = 0; i < s->n_models; i++)
        if (absent[i]) {
            node_free(models->items[i]);
            options_free(&model_table, &s->models[i]);
        } else {
            models->items[kept] = models->items[i];
            s->models[kept++] = s->models[i];
        }
    s->n_models = models->n = kept;
    return OK;
}
