#include "run/requeue.h"
#include "plan/plan.h"
#include "records/results.h"
#include "records/saved.h"
#include "records/slurm.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* Whether the record is a result, not one about the run. */
static bool is_result(const json_t *record)
{
    static const char *const others[] = {"plan", "loss", "end"};
    const char *type = json_text(record, "type", "");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(type, others[i]) == 0) return false;
    return true;
}

/* *n = the results in the journal. */
static enum status count_results(const char *path, int64_t *n, struct err *e)
{
    enum status st = OK;
    struct journal *journal = NULL;
    *n = 0;
    if (!fsx_is_file(path)) return OK;
    TRY(journal_open_readonly(path, &journal, e));
    for (int64_t i = 0; i < journal_n(journal); i++) {
        json_t *record = NULL;
        TRY(journal_read(journal, i, NULL, &record, e));
        *n += is_result(record);
        json_decref(record);
    }
done:
    journal_close(journal);
    return st;
}

enum status requeue_begin(struct requeue *r, const struct sweep *s, const char *results,
                          const char *journal, struct err *e)
{
    const struct plan plan = {.sweep = s, .results = results};
    r->since = time(NULL);
    PASS(mem_string(&r->journal, journal, e));
    PASS(plan_states_folder(&plan, &r->states, e));
    return count_results(journal, &r->records, e);
}

void requeue_free(struct requeue *r)
{
    free(r->journal);
    free(r->states);
    *r = (struct requeue){0};
}

void requeue_ask(const struct requeue *r)
{
    struct err e = {0};
    int64_t now = 0;
    char why[256];
    const bool counted = count_results(r->journal, &now, &e) == OK;
    err_clear(&e);
    if (counted && now <= r->records && !(r->states && saved_since(r->states, r->since))) {
        log_warn("the job is not requeued: in its time no result was finished and no state saved; "
                 "give it more time");
        return;
    }
    if (slurm_requeue(why, sizeof why))
        log_info("the job is requeued; its next start continues");
    else
        log_warn("the job is not requeued (scontrol requeue: %s); submit it again to continue",
                 why);
}
