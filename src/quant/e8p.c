/* Eight weights as a vector of a codebook from the lattice E8, of mixed weights with feedback
 * between blocks of eight columns: QuIP# (Tseng et al. 2024, arXiv 2402.04396) without its
 * fine-tuning. */
#include "coding/e8.h"
#include "quant/incoherent.h"
#include "util/mem.h"
#include <omp.h>

struct bench {
    const struct e8 *table;
    int64_t bits;
};

static void block_code(void *context, const float *x, int64_t at, float *q)
{
    const struct bench *b = context;
    (void)at;
    e8_nearest(b->table, b->bits, x, q);
}

static enum status e8p_prepare(const struct quant_input *in, const struct quant_options *o,
                               void **out, struct err *e)
{
    return incoherent_prepare(in, o, E8_DIM, out, e);
}

static enum status e8p_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    const int threads = omp_get_max_threads();
    struct e8 table;
    struct bench bench = {&table, job->bits};
    AUTO_FREE void **contexts = NULL;
    e8_fill(&table);
    PASS(team_agree(job->team, mem_zero(&contexts, threads, sizeof *contexts, "benches", e), e));
    for (int i = 0; i < threads; i++) contexts[i] = &bench;
    const struct incoherent_code c = {.code = block_code,
                                      .contexts = contexts,
                                      .rms = e8_rms(job->bits),
                                      .bits = (double)job->bits};
    return incoherent_run(job, &c, report, e);
}

static void e8p_memory(const struct quant_options *o, const struct quant_extent *x,
                       struct quant_memory *out)
{
    (void)o;
    incoherent_memory(x, E8_DIM, out);
}

/* Two sides of 256 vectors of magnitudes, twice at 3 and 4 bits. */
static void e8p_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                     struct quant_cost *out)
{
    enum { FLOP_WEIGHT = 4000 };
    (void)o;
    incoherent_cost(rows, cols, out);
    out->run += (double)rows * (double)cols * FLOP_WEIGHT;
}

const struct quant_method quant_e8p = {
    .name = "e8p",
    .doc = "eight mixed weights as a vector of a codebook from the lattice E8, with feedback "
           "between blocks (QuIP#)",
    .bits_min = 2,
    .bits_max = 4,
    .options = INCOHERENT_OPTIONS,
    .statistics = WANTS(STATISTIC_GRAM),
    .prepare_options = INCOHERENT_OPTIONS,
    .prepare = e8p_prepare,
    .share = incoherent_share,
    .release = incoherent_release,
    .run = e8p_run,
    .memory = e8p_memory,
    .cost = e8p_cost,
};
