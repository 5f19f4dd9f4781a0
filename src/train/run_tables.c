/* steps.csv, trajectory.csv and the checkpoints of a run. */
#include "checkpoint/folder_write.h"
#include "math/bf16.h"
#include "train/run_files_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>

static const char head[] = STEPS_TABLE_HEAD;

/* A number of a table; one that is not known is an empty field. */
static const char *number(double x, const char *format, char text[32])
{
    snprintf(text, 32, format, x);
    return isnan(x) ? "" : text;
}

/* The row of trajectory.csv of a checkpoint. */
static enum status add_checkpoint(struct run_files *f, const struct steps_row *x, struct err *e)
{
    const struct run *r = f->run;
    char rate[32], loss[32], validation[32], norm[32];
    return mem_append(&f->trajectory, e, "step%06lld,%lld,%lld,%s,%s,%s,%s,%s,%s,%g,%lld%s%s\n",
                      (long long)x->step, (long long)x->step, (long long)x->tokens,
                      number(x->rate, "%.9g", rate), schedule_phase(&r->schedule, x->step),
                      number(x->loss, "%.9g", loss), number(x->validation, "%.9g", validation),
                      number(x->norm, "%.9g", norm), schedule_kind(&r->schedule),
                      r->recipe->optimizer.weight_decay, (long long)r->recipe->seed,
                      r->left ? "," : "", r->left ? r->left : "");
}

enum status run_files_add(struct run_files *f, const struct steps_row *x, struct err *e)
{
    char line[400], rate[32], loss[32], z[32], norm[32], validation[32], speed[32];
    const int n =
        snprintf(line, sizeof line, "%lld,%lld,%s,%s,%s,%s,%s,%s\n", (long long)x->step,
                 (long long)x->tokens, number(x->rate, "%.9g", rate), number(x->loss, "%.9g", loss),
                 number(x->z, "%.9g", z), number(x->norm, "%.9g", norm),
                 number(x->validation, "%.9g", validation), number(x->speed, "%.4g", speed));
    PASS(fsx_write(f->fd, f->steps, line, (size_t)n, e));
    return run_has_checkpoint(f->run, x->step) ? add_checkpoint(f, x, e) : OK;
}

enum status run_files_cut(struct run_files *f, int64_t step, double limit, int64_t *above,
                          struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n, kept = sizeof head - 1;
    *above = 0;
    free(f->trajectory);
    f->trajectory = NULL;
    PASS(fsx_read(f->steps, 0, &text, &n, e));
    if (strncmp(text, head, kept) != 0) {
        NEED(fsx_truncate(f->fd, 0), fsx_errno_status(errno), "%s: %s", f->steps, strerror(errno));
        PASS(fsx_write(f->fd, f->steps, head, kept, e));
        return OK;
    }
    struct steps_row x;
    for (const char *at = text + kept; steps_row_read(&at, &x) && x.step <= step;) {
        kept = (size_t)(at - text);
        *above = x.loss > limit ? *above + 1 : 0;
        if (run_has_checkpoint(f->run, x.step)) PASS(add_checkpoint(f, &x, e));
    }
    NEED(fsx_truncate(f->fd, (int64_t)kept), fsx_errno_status(errno), "%s: %s", f->steps,
         strerror(errno));
    return OK;
}

/* --- checkpoints --- */

/* Where the trainer has the tensor; NULL: it is a buffer, which stays as it was. */
static const float *weights_of(const struct trainer *t, const char *name)
{
    for (int64_t i = 0; i < trainer_n_tensors(t); i++) {
        const float *w;
        if (strcmp(trainer_tensor(t, i, &w)->name, name) == 0) return w;
    }
    return NULL;
}

static enum status append(const struct trainer *t, const struct tensor_entry *x, enum dtype dtype,
                          struct folder_out *o, struct err *e)
{
    enum { PIECE = 1 << 20 };
    AUTO_FREE float *stored = NULL;
    AUTO_FREE uint16_t *narrow = NULL;
    const float *w = weights_of(t, x->name);
    PASS(mem_alloc(&narrow, PIECE, sizeof *narrow, "a piece of a checkpoint", e));
    if (!w) {
        PASS(mem_alloc(&stored, x->n_elements, sizeof *stored, x->name, e));
        PASS(checkpoint_read_range(trainer_checkpoint(t), x, 0, x->n_elements, stored, e));
        w = stored;
    }
    for (int64_t a = 0, n; a < x->n_elements; a += n) {
        n = min64(PIECE, x->n_elements - a);
        if (dtype == DTYPE_BF16) bf16_split(narrow, n, 1, w + a, n);
        PASS(folder_append(o, x->name, dtype == DTYPE_BF16 ? (const void *)narrow : w + a, n, e));
    }
    return OK;
}

enum status run_files_checkpoint(struct run_files *f, const struct trainer *t, int64_t step,
                                 struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(run_files_sync(f, e));
    PASS(run_path(f->run, &path, e, "step%06lld", (long long)step));
    if (!fsx_is_dir(path)) {
        AUTO_FREE struct tensor_shape *tensors = NULL;
        CLEANUP(folder_close_at) struct folder_out *o = NULL;
        const struct checkpoint *c = trainer_checkpoint(t);
        const int64_t n = checkpoint_n_tensors(c);
        const enum dtype dtype = f->run->recipe->checkpoints.dtype ? DTYPE_BF16 : DTYPE_F32;
        PASS(mem_alloc(&tensors, n, sizeof *tensors, "tensors", e));
        for (int64_t i = 0; i < n; i++) {
            tensors[i] = folder_shape(checkpoint_tensor(c, i));
            tensors[i].dtype = dtype;
        }
        const struct folder_plan plan = {.config = checkpoint_config(c),
                                         .n = n,
                                         .tensors = tensors,
                                         .tokenizer = f->run->recipe->tokenizer};
        PASS(folder_create(path, &plan, &o, e));
        for (int64_t i = 0; i < n; i++) PASS(append(t, checkpoint_tensor(c, i), dtype, o, e));
        PASS(folder_commit(o, NULL, e));
    }
    static const char columns[] = "checkpoint,step,tokens,learning_rate,phase,training_loss,"
                                  "validation_loss,training_gradient_norm,schedule,"
                                  "weight_decay,seed";
    AUTO_FREE char *table = NULL, *text = NULL;
    PASS(run_path(f->run, &table, e, "trajectory.csv"));
    PASS(mem_format(&text, e, "%s%s\n%s", columns, f->run->left ? ",parent" : "",
                    f->trajectory ? f->trajectory : ""));
    return fsx_write_atomic(table, text, strlen(text), e);
}
