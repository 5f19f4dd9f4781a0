/* Eight weights as a vector of a codebook from the lattice E8, of mixed weights with feedback
 * between blocks of eight columns: QuIP# (Tseng et al. 2024, arXiv 2402.04396) without its
 * fine-tuning. */
#include "quant/incoherent.h"
#include "util/mem.h"
#include <omp.h>

static struct block_form e8p_blocks(const struct quant_options *o, int64_t bits)
{
    (void)o;
    return (struct block_form){.kind = BLOCK_E8P, .bits = bits};
}

static void code_block(void *context, const float *x, uint8_t *bytes, float *q)
{
    const struct block_code *c = context;
    e8_nearest(c->lattice, c->form.bits, x, bytes);
    block_values(c, bytes, q);
}

static enum status e8p_prepare(const struct quant_input *in, const struct quant_options *o,
                               void **out, struct err *e)
{
    return incoherent_prepare(in, o, E8_DIM, out, e);
}

static enum status e8p_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    const int threads = omp_get_max_threads();
    const struct block_form form = e8p_blocks(job->options, job->bits);
    CLEANUP(block_code_free) struct block_code code = {0};
    AUTO_FREE void **contexts = NULL;
    enum status st = mem_zero(&contexts, threads, sizeof *contexts, "contexts", e);
    if (st == OK) st = block_code_open(&form, NULL, &code, e);
    PASS(team_agree(job->team, st, e));
    for (int i = 0; i < threads; i++) contexts[i] = &code;
    const struct incoherent_code c = {
        .code = code_block, .contexts = contexts, .rms = e8_rms(job->bits), .values = &code};
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
    .describe_blocks = e8p_blocks,
    .memory = e8p_memory,
    .cost = e8p_cost,
};
