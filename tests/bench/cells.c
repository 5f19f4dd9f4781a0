/* Cost of orchestration: seconds to plan a million cells, and microseconds per cell of a run whose
 * cells do nothing, journal included. bench_cells [CELLS [FOLDER]] under mpirun; the journal goes
 * to FOLDER (default: the current folder). */
#include "bench.h"
#include "plan/plan.h"
#include "records/results.h"
#include "sched/sched.h"
#include "util/fsx.h"
#include <unistd.h>

/* --- planning --- */

enum { CHECKPOINTS = 10000, METHODS = 20, WIDTHS = 5 };

static void write_sweep(const char *folder)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/many.csv", folder);
    FILE *f = fopen(path, "w");
    fprintf(f, "checkpoint,step\n");
    for (int i = 0; i < CHECKPOINTS; i++) fprintf(f, "step%d,%d\n", i, i);
    fclose(f);
    snprintf(path, sizeof path, "%s/many.txt", folder);
    f = fopen(path, "w");
    fprintf(f, "some text\n");
    fclose(f);
    snprintf(path, sizeof path, "%s/many.yaml", folder);
    f = fopen(path, "w");
    fprintf(f, "name: many\nresults: many.h5\nmodels:\n"
               "  - {name: m, trajectory: many.csv, path: 'none/{checkpoint}'}\n"
               "bits: [2, 3, 4, 5, 8]\nmethods:\n");
    for (int i = 0; i < METHODS; i++)
        fprintf(f, "  - {method: rtn, name: rtn%d, group_size: %d}\n", i, 16 * (i + 1));
    fprintf(f, "evaluation:\n  - {name: e, text: many.txt, length: 64}\n");
    fclose(f);
}

static void bench_plan(const char *folder)
{
    struct err e = {0};
    struct sweep sweep;
    struct plan plan;
    struct plan_visits visits;
    const struct plan_choice all = {0};
    char path[1024];
    write_sweep(folder);
    snprintf(path, sizeof path, "%s/many.yaml", folder);
    double start = clock_seconds();
    must(sweep_read(path, NULL, 0, &sweep, &e), &e);
    double read = clock_seconds();
    must(plan_make(&sweep, false, &plan, &e), &e);
    double made = clock_seconds();
    must(plan_visits_make(&plan, NULL, &all, &visits, &e), &e);
    double end = clock_seconds();
    printf("plan of %lld cells: %.2f s (sweep file %.2f, keys and costs %.2f, visits %.2f)\n",
           (long long)visits.to_make[MEASURE_cell], end - start, read - start, made - read,
           end - made);
    plan_visits_free(&visits);
    plan_free(&plan);
    sweep_free(&sweep);
    static const char *const names[] = {"many.csv", "many.txt", "many.yaml"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
}

/* --- running --- */

struct sink {
    struct journal *journal;
    bool unsynced;
    double since;
    int64_t records, syncs;
    double seconds_parse, seconds_append, seconds_sync;
};

static enum status accept(void *context, const char *result, struct err *e)
{
    enum status st = OK;
    struct sink *s = context;
    json_t *record = NULL;
    double start = clock_seconds();
    TRY(json_read_text("result", result, strlen(result), &record, e));
    double parsed = clock_seconds();
    TRY(journal_append(s->journal, record, e));
    s->seconds_parse += parsed - start;
    s->seconds_append += clock_seconds() - parsed;
    if (!s->unsynced) s->since = start;
    s->unsynced = true;
    s->records++;
done:
    json_decref(record);
    return st;
}

static enum status tick(void *context, struct err *e)
{
    struct sink *s = context;
    double start = clock_seconds();
    if (!s->unsynced || start - s->since < 5e-3) return OK; /* as the run command */
    enum status st = journal_sync(s->journal, e);
    s->seconds_sync += clock_seconds() - start;
    s->unsynced = false;
    s->syncs++;
    return st;
}

/* A cell's record without layers. */
static enum status work(void *context, MPI_Comm group, const struct sched_batch *batch,
                        struct sched_port *port, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    (void)context;
    (void)group;
    TRY(mem_format(&text, e,
                   "{\"type\":\"cell\",\"key\":\"%s\",\"fingerprint\":\"f\",\"model\":\"m\","
                   "\"checkpoint\":\"c\",\"status\":\"done\",\"message\":\"\",\"bits\":4,"
                   "\"quantizer\":\"rtn\",\"values\":{\"weight_distance\":1.25,"
                   "\"bits_per_weight\":4.25,\"seconds\":0.5},\"datasets\":{\"e\":{\"loss\":3.5,"
                   "\"loss_delta\":0.25,\"perplexity\":33.1,\"kl_divergence\":0.125}}}",
                   batch->text));
    TRY(sched_send(port, text, e));
done:
    free(text);
    return st;
}

static void bench_run(int rank, int64_t cells, const char *folder)
{
    struct err e = {0};
    struct sink s = {0};
    struct sched_outcome outcome;
    struct sched_job *jobs = NULL;
    char path[1024];
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s/bench_cells.journal", folder);
    if (rank == 0) {
        unlink(path);
        must(journal_open(path, &s.journal, &e), &e);
        jobs = room(cells, sizeof *jobs);
        for (int64_t i = 0; i < cells; i++) {
            char text[64];
            snprintf(text, sizeof text, "%032lld", (long long)i);
            jobs[i].cost = 1e-6;
            must(mem_string(&jobs[i].text, text, &e), &e);
        }
    }
    const struct sched_work w = {.run = work};
    const struct sched_sink sink = {.accept = accept, .tick = tick, .context = &s};
    MPI_Barrier(MPI_COMM_WORLD);
    double start = clock_seconds();
    must(sched_run(MPI_COMM_WORLD, jobs, rank == 0 ? cells : 0, &w, &sink, NULL, &outcome, &e), &e);
    double seconds = clock_seconds() - start;
    if (rank != 0) return;
    printf("run of %lld cells on %d ranks: %.1f us a cell (parse %.1f, append %.1f, sync %.1f; "
           "%lld syncs)\n",
           (long long)s.records, size, 1e6 * seconds / (double)cells,
           1e6 * s.seconds_parse / (double)cells, 1e6 * s.seconds_append / (double)cells,
           1e6 * s.seconds_sync / (double)cells, (long long)s.syncs);
    journal_close(s.journal);
    unlink(path);
    for (int64_t i = 0; i < cells; i++) free(jobs[i].text);
    free(jobs);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int64_t cells = argc > 1 ? strtoll(argv[1], NULL, 10) : 100000;
    const char *folder = argc > 2 ? argv[2] : ".";
    if (rank == 0) bench_plan(folder);
    bench_run(rank, cells, folder);
    MPI_Finalize();
    return 0;
}
