/* The section `run`: its keys and checks. */
#include "config/sweep.h"
#include "math/products.h"
#include "util/mem.h"
#include <math.h>
#include <strings.h>

/* Bytes of a text such as 24G, 1.5 GiB or 800000000; 0: not such a text. */
static int64_t bytes_of(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value)) return 0;
    end += strspn(end, " ");
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
    }
    if (strcasecmp(end, "iB") == 0 || strcasecmp(end, "B") == 0) end += strlen(end);
    return *end == '\0' && value >= 1 && value < 0x1p62 ? (int64_t)value : 0;
}

/* A folder is relative to the sweep file; NULL and "off" stay. */
static enum status place_folder(const struct option_scope *scope, const char *key, char **folder,
                                struct err *e)
{
    char *path = NULL;
    struct err why = {0};
    if (!*folder || strcmp(*folder, "off") == 0 || !scope->source->folder) return OK;
    if (option_path(*folder, scope->source->folder, &path, &why) != OK)
        PASS(options_fail(scope, key, e, "%s", why.text));
    free(*folder);
    *folder = path;
    return OK;
}

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct run_options *r = entry;
    if (r->memory_per_rank && strcmp(r->memory_per_rank, "auto") == 0)
        mem_drop(&r->memory_per_rank);
    if (r->memory_per_rank) {
        r->memory = bytes_of(r->memory_per_rank);
        if (r->memory == 0)
            PASS(options_fail(scope, "memory_per_rank", e,
                              "expected auto or a number of bytes such as 24G, found %s",
                              r->memory_per_rank));
    }
    if (r->stage_space) {
        r->stage_bytes = bytes_of(r->stage_space);
        if (r->stage_bytes == 0)
            PASS(options_fail(scope, "stage_space", e,
                              "expected a number of bytes such as 400G, found %s", r->stage_space));
    }
    if (r->scratch && strcmp(r->scratch, "auto") == 0) mem_drop(&r->scratch);
    PASS(place_folder(scope, "scratch", &r->scratch, e));
    return place_folder(scope, "checkpoints", &r->checkpoints, e);
}

/* In the order of their enums. */
static const char *const activations[] = {"f32", "bf16", NULL};
const char *const rounding_words[] = {"f32", "bf16", NULL};

static const struct option keys[] = {
    OPTION(run_options, ranks_per_group, INT,
           "MPI ranks that work on one checkpoint together; auto: as few as memory allows",
           .unit = "ranks", .fallback = "auto", .low = 1, .high = 1 << 20,
           OPTION_SPECIAL(0, "auto")),
    OPTION(run_options, threads, INT, "OpenMP threads per rank", .unit = "threads",
           .fallback = "auto", .low = 1, .high = 512, OPTION_SPECIAL(0, "auto")),
    OPTION(run_options, memory_per_rank, TEXT,
           "maximum bytes of a rank, with K, M, G or T for powers of 1024: what does not fit is "
           "computed twice, goes to scratch, or waits for another wave",
           .unit = "bytes", .otherwise = "auto: nine tenths of the rank's part of its node"),
    OPTION(run_options, scratch, TEXT,
           "folder on the node's local disk for hidden states that do not fit in memory_per_rank, "
           "or off",
           .otherwise = "auto: SLURM_TMPDIR, TMPDIR, /tmp or /var/tmp, the first that is a disk"),
    OPTION(run_options, checkpoints, TEXT,
           "folder in which long visits save their state, from which an interrupted run continues, "
           "or off; all nodes must see it",
           .otherwise = "a folder next to the results, named RESULTS.checkpoints"),
    OPTION(run_options, activations, CHOICE,
           "type of hidden states between blocks; bf16 halves their memory and changes results",
           .fallback = "f32", .choices = activations),
    OPTION(run_options, products, CHOICE,
           "how forward passes and derivatives multiply: in f32; activations and weights as sums "
           "of bf16 numbers, "
           "of f32's accuracy (bf16x3), to about 2^-17 (bf16x2), or rounded to one (bf16); auto: "
           "f32's accuracy by the fastest way of the CPU; bf16x2 and bf16 change results",
           .fallback = "f32", .choices = products_words),
    OPTION(run_options, rounding, CHOICE,
           "bf16: forward passes round the result of every operation to bf16, and all parameters "
           "outside the matrices, as transformers does with a model in bf16 (products: bf16 rounds "
           "the matrices too); changes results",
           .fallback = "f32", .choices = rounding_words),
    OPTION(run_options, scalapack_from, INT,
           "Hessians with at least this many input channels are distributed over the ranks of a "
           "group; each smaller one is factored by one rank",
           .unit = "channels", .fallback = "4096", .low = 1, .high = INT64_MAX),
    OPTION(run_options, reproducible, BOOL,
           "the same results bit for bit for any ranks_per_group: sums are exact, and one rank "
           "factors each Hessian, whatever its size",
           .fallback = "false"),
    OPTION(
        run_options, stage_space, TEXT,
        "disk space of all checkpoints that `stage` of the models fetches, with K, M, G or T for "
        "powers of 1024; it must hold the checkpoints that one visit reads",
        .unit = "bytes", .otherwise = "no limit", .with = "models[].stage"),
    OPTION(run_options, stage_tries, INT,
           "how often the command of `stage` is started for a checkpoint before its cells fail",
           .unit = "tries", .fallback = "4", .low = 1, .high = 1000, .with = "models[].stage"),
    OPTION(run_options, stage_pause, REAL,
           "time before the second of these tries; it doubles before each further one", .unit = "s",
           .fallback = "15", .minimum = 0, .maximum = 86400, .with = "models[].stage"),
    OPTION(run_options, stage_commands, BOOL,
           "a run starts the commands of `stage`; false: it waits for what `qtraj stage` fetches, "
           "where the nodes of a job have no network",
           .fallback = "true", .with = "models[].stage"),
};
const struct option_table run_table = {OPTION_ROWS(keys, run_options), .finish = finish};
