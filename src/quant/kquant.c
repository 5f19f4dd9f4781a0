/* The formats of llama.cpp (coding/kquant_round.h) as methods. A row that is no multiple of 256
 * gets the type of 32 that llama.cpp takes instead, one that is no multiple of 32 is stored in f16
 * (llama-quant.cpp). */
#include "coding/kquant_round.h"
#include "quant/job.h"
#include "util/num.h"

static void tile_round(const struct quant_job *job, const void *format, int64_t row, void *scratch)
{
    const struct kquant_format *f = format;
    struct kquant_bench *b = scratch;
    const int64_t n = f->columns;
    const double *squares = job->input ? job->input->statistic[STATISTIC_SQUARES] : NULL;
    EACH_ROW b->square[r] = 0;
    for (int64_t a = 0; a < job->cols && squares && n == KQUANT_SMALL; a += n) {
        tile_load(b->x, TILE_ROWS, job->w, job->rows, job->cols, row, a, n, NULL);
        kquant_add_squares(b->square, b->x, n);
    }
    EACH_ROW b->square[r] /= (float)job->cols;
    for (int64_t a = 0; a < job->cols; a += n) {
        tile_load(b->x, TILE_ROWS, job->w, job->rows, job->cols, row, a, n, NULL);
        for (int64_t j = 0; j < n && squares; j++)
            b->importance[j] = (float)(squares[a + j] / (double)max64(job->input->tokens, 1));
        f->round(b, f, squares != NULL);
        tile_store(job->q, job->rows, job->cols, row, a, n, NULL, b->x);
    }
}

static enum status run_format(const struct quant_job *job, const struct kquant_format *f,
                              struct quant_report *report, struct err *e)
{
    while (job->cols % f->columns != 0) f = f->instead;
    PASS(job_rows(job, TILE_ROWS, tile_round, f, sizeof(struct kquant_bench), e));
    return job_report(job, f->bits, report, e);
}

static void kquant_memory(const struct quant_options *o, const struct quant_extent *x,
                          struct quant_memory *out)
{
    (void)o;
    out->running = x->threads * (int64_t)sizeof(struct kquant_bench);
}

/* --- methods; flops of a weight match the measured time --- */

#define METHOD(id, width, flops, text, ...)                                                        \
    static enum status run_##id(const struct quant_job *job, struct quant_report *report,          \
                                struct err *e)                                                     \
    {                                                                                              \
        return run_format(job, &kquant_##id, report, e);                                           \
    }                                                                                              \
    const struct quant_method quant_##id = {.name = #id,                                           \
                                            .doc = "llama.cpp's " text,                            \
                                            .bits_min = width,                                     \
                                            .bits_max = width,                                     \
                                            .results = QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO,      \
                                            .run = run_##id,                                       \
                                            .memory = kquant_memory,                               \
                                            .flop = flops,                                         \
                                            __VA_ARGS__};

#define WITH_IMPORTANCE                                                                            \
    .options = "importance", .statistics = WANTS(STATISTIC_SQUARES), .full_precision = true,       \
    .calibrates_with = "importance"

METHOD(q2_k, 2, 120, "Q2_K: blocks of 16 with 4-bit scales and offsets", WITH_IMPORTANCE)
METHOD(q3_k, 3, 60, "Q3_K: blocks of 16 with 6-bit scales", WITH_IMPORTANCE)
METHOD(q4_k, 4, 120, "Q4_K: blocks of 32 with 6-bit scales and offsets", WITH_IMPORTANCE)
METHOD(q5_k, 5, 120, "Q5_K: blocks of 32 with 6-bit scales and offsets", WITH_IMPORTANCE)
METHOD(q6_k, 6, 60, "Q6_K: blocks of 16 with 8-bit scales", WITH_IMPORTANCE)
METHOD(q4_0, 4, 50, "Q4_0: blocks of 32 with a 16-bit scale", WITH_IMPORTANCE)
METHOD(iq4_nl, 4, 130, "IQ4_NL: 16 values, not evenly spaced, with a 16-bit scale of 32 weights",
       WITH_IMPORTANCE)
METHOD(q8_0, 8, 40, "Q8_0: blocks of 32 with a 16-bit scale; no calibration", .options = "")
