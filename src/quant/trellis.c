/* Trellis codes as QTIP has them (Tseng et al. 2024, arXiv 2406.11235; its authors' code without
 * fine-tuning): tiles of 16 x 16 mixed weights are paths of a shift register
 * (coding/bitshift.h), found by Viterbi's algorithm (coding/viterbi.h), with feedback
 * (incoherent.h). And e8p: eight weights as a vector of a codebook from the lattice E8, with
 * feedback between blocks of eight columns: QuIP# (Tseng et al. 2024, arXiv 2402.04396) without its
 * fine-tuning. */
#include "coding/viterbi.h"
#include "math/dtype.h"
#include "quant/incoherent.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

enum { BLOCK = 16, TILE = BAND_ROWS * BLOCK };

/* Numbers that are coded are a little closer to zero than the code's (the authors' scale_override).
 */
static const double NARROWER = 0.9;

struct trellis_options {
    int64_t window;
    int kind; /* enum bitshift_kind */
};

static const char *const kinds[] = {"1mad", "3inst", "hyb", NULL};

static const struct option own_options[] = {
    OPTION_AT("trellis_window", trellis_options, window, INT,
              "trellis: bits of a state, at least twice those of a step", .unit = "bits",
              .fallback = "16", .low = BITSHIFT_WINDOW_MIN, .high = BITSHIFT_WINDOW_MAX),
    OPTION_AT("trellis_code", trellis_options, kind, CHOICE,
              "trellis: what a state stands for: a number from one multiplication (1mad), one from "
              "three instructions (3inst), or two from a table (hyb)",
              .fallback = "1mad", .choices = kinds),
};

static enum status trellis_check(int64_t bits, const struct quant_options *o, struct err *e)
{
    const struct trellis_options *own = quant_own(o, METHOD_trellis);
    const int64_t least = 2 * bits * bitshift_values(own->kind);
    NEED(own->window >= least, ERR_USAGE,
         "trellis_window: %lld; at %lld bits %s needs at least %lld", (long long)own->window,
         (long long)bits, kinds[own->kind], (long long)least);
    return OK;
}

static enum status trellis_prepare(const struct quant_input *in, const struct quant_options *o,
                                   void **out, struct err *e)
{
    return incoherent_prepare(in, o, BLOCK, out, e);
}

static struct block_form trellis_blocks(const struct quant_options *o, int64_t bits)
{
    const struct trellis_options *own = quant_own(o, METHOD_trellis);
    return (struct block_form){.kind = own->kind, .bits = bits, .window = own->window};
}

/* --- a tile --- */

struct bench {
    const struct block_code *code;
    struct viterbi viterbi;
};

static void tile_code(void *context, const float *x, uint8_t *bytes, float *q)
{
    struct bench *b = context;
    const int64_t steps = TILE / b->code->trellis.values;
    float rounded[TILE];
    int32_t state[TILE];
    for (int k = 0; k < TILE; k++) rounded[k] = dtype_round_f16(x[k]);
    viterbi_tail_biting(&b->code->trellis, &b->viterbi, rounded, steps, state);
    bitshift_pack(&b->code->trellis, state, steps, bytes);
    block_values(b->code, bytes, q);
}

static enum status trellis_run(const struct quant_job *job, struct quant_report *report,
                               struct err *e)
{
    enum status st = OK;
    const struct block_form form = trellis_blocks(job->options, job->bits);
    const int threads = omp_get_max_threads();
    struct block_code code = {0};
    struct bench *benches = NULL;
    void **contexts = NULL;
    enum status made = block_code_open(&form, NULL, &code, e);
    if (made == OK) made = mem_zero(&benches, threads, sizeof *benches, "benches", e);
    if (made == OK) made = mem_zero(&contexts, threads, sizeof *contexts, "benches", e);
    for (int i = 0; i < threads && made == OK; i++) {
        benches[i].code = &code;
        contexts[i] = &benches[i];
        made = viterbi_make(&code.trellis, TILE / code.trellis.values, &benches[i].viterbi, e);
    }
    TRY(team_agree(job->team, made, e));
    const struct incoherent_code c = {.code = tile_code,
                                      .contexts = contexts,
                                      .rms = code.trellis.rms * NARROWER,
                                      .values = &code};
    TRY(incoherent_run(job, &c, report, e));
done:
    for (int i = 0; i < threads && benches; i++) viterbi_free(&benches[i].viterbi);
    free(benches);
    free(contexts);
    block_code_free(&code);
    return st;
}

/* --- plans --- */

static void trellis_memory(const struct quant_options *o, const struct quant_extent *x,
                           struct quant_memory *out)
{
    const struct trellis_options *own = quant_own(o, METHOD_trellis);
    const struct bitshift code = {.window = own->window,
                                  .branch = 1,
                                  .values = bitshift_values(own->kind),
                                  .groups = (int64_t)1 << (own->window - 1)};
    incoherent_memory(x, BLOCK, out);
    out->running += (2 * code.values << code.window) * (int64_t)sizeof(float) +
                    x->threads * viterbi_bytes(&code, TILE);
}

/* Two searches of all states, to match the measured time. */
static void trellis_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                         struct quant_cost *out)
{
    enum { SEARCHES = 2, FLOP_STATE = 4 };
    const struct trellis_options *own = quant_own(o, METHOD_trellis);
    incoherent_cost(rows, cols, out);
    out->run += (double)rows * (double)cols * SEARCHES * FLOP_STATE * ldexp(1, (int)own->window);
}

const struct quant_method quant_trellis = {
    .name = "trellis",
    .doc = "tiles of 16 x 16 mixed weights as paths of a trellis code, with feedback between tiles "
           "(QTIP)",
    .bits_min = QUANT_BITS_LEAST,
    .bits_max = 4,
    INCOHERENT_MEMBERS,
    .own = {OPTION_ROWS(own_options, trellis_options)},
    .check = trellis_check,
    .prepare = trellis_prepare,
    .run = trellis_run,
    .describe_blocks = trellis_blocks,
    .memory = trellis_memory,
    .cost = trellis_cost,
};

/* --- e8p --- */

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
    INCOHERENT_MEMBERS,
    .prepare = e8p_prepare,
    .run = e8p_run,
    .describe_blocks = e8p_blocks,
    .memory = e8p_memory,
    .cost = e8p_cost,
};
