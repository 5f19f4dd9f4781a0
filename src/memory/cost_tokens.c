/* Estimates the number of tokens of a data source without reading its text. */
#include "checkpoint/safetensors.h"
#include "eval/dataset.h"
#include "memory/cost.h"
#include "util/words.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Estimates used where the options set no limit: bytes per token of English text in JSON lines, the
 * same compressed, and the mean length of a web document in tokens. */
static const double bytes_per_token = 4.5, compressed_bytes_per_token = 1.8, mean_document = 480;

/* Tokens of the files that the options name; 0: no file exists. */
static double text_tokens(const struct data_options *d)
{
    CLEANUP(texts_free) struct texts files = {0};
    double tokens = 0;
    struct stat s;
    if (dataset_files(d, &files, NULL) != OK) return 0;
    for (int64_t i = 0; i < files.n; i++) {
        const char *path = files.text[i];
        const bool compressed = words_end(path, ".gz") || words_end(path, ".zst");
        if (stat(path, &s) == 0)
            tokens +=
                (double)s.st_size / (compressed ? compressed_bytes_per_token : bytes_per_token);
    }
    return tokens;
}

/* Number and length of the sequences in FILE.safetensors:KEY: the rows of a matrix; a vector longer
 * than `limit` (0: none) is cut into rows. false: not readable. */
static bool ids_shape(const char *ids, int64_t limit, int64_t *rows, int64_t *length)
{
    const char *colon = strrchr(ids, ':');
    struct safetensors file = {0};
    char path[4096];
    bool ok = false;
    if (!colon) return false;
    snprintf(path, sizeof path, "%.*s", (int)(colon - ids), ids);
    if (safetensors_open(path, &file, NULL) != OK) return false;
    const struct tensor_entry *t = safetensors_find(&file, colon + 1);
    if (t && t->n_dims >= 1) {
        *length = t->shape[t->n_dims - 1];
        if (t->n_dims == 1 && limit > 0 && *length > limit) *length = limit;
        *rows = *length > 0 ? t->n_elements / *length : 0;
        ok = *rows > 0;
    }
    safetensors_close(&file);
    return ok;
}

/* n sequences of the same length. */
static struct cost_tokens even(double n, double length, bool guessed)
{
    return (struct cost_tokens){.tokens = n * length,
                                .squares = n * length * length,
                                .sequences = (int64_t)n,
                                .longest = (int64_t)length,
                                .guessed = guessed};
}

/* For lognormal lengths with standard deviation 1 the longest of n is about n^0.45 means. */
static double filled_up(const struct data_options *d, double length)
{
    if (d->padding != PADDING_COUNTED || d->ids) return length;
    length = ceil(length * pow((double)d->batch, 0.45));
    return d->length > 0 ? fmin(length, (double)d->length) : length;
}

struct cost_tokens cost_tokens_of(const struct data_options *d)
{
    int64_t rows = 0, row = 0;
    double length = d->length > 0 ? (double)d->length : 0, n = 0;
    bool guessed = false;
    if (!d->text && !d->ids) return (struct cost_tokens){0};
    if (d->ids && ids_shape(d->ids, d->length, &rows, &row)) {
        length = (double)row;
        n = (double)rows;
    } else {
        double all = d->text ? text_tokens(d) : 0, most = (double)d->bytes / bytes_per_token;
        if (d->bytes > 0 && (all == 0 || all > most)) all = most;
        if (d->layout == LAYOUT_DOCUMENT || length == 0) {
            length = length > 0 ? fmin(length, mean_document) : mean_document;
            guessed = true;
        }
        n = all > 0 ? all / length : 0;
    }
    bool documents = d->documents > 0 && d->text && d->layout == LAYOUT_DOCUMENT;
    bool bounded = d->samples > 0 || d->tokens > 0 || documents;
    if (d->skip > 0 && n > 0) n = n > (double)d->skip ? n - (double)d->skip : 1;
    double limit = 1e300;
    if (documents) limit = fmin(limit, (double)d->documents);
    if (d->samples > 0) limit = fmin(limit, (double)d->samples);
    if (d->tokens > 0) limit = fmin(limit, (double)(d->tokens / (int64_t)length));
    if (!bounded) limit = n;
    /* A text that does not exist yet is assumed to have what the options request. */
    if (n == 0 || n > limit) n = limit;
    if (d->cut > 0) length = fmin(length, (double)d->cut);
    if (guessed) length = filled_up(d, length);
    return even(n >= 1 ? (double)(int64_t)n : 1, length, guessed || (!bounded && d->text));
}

/* Sum of the squares of a sequence's texts; a segment whose text begins with n tokens of others
 * has as many pairs as its text alone, less those among these n. */
static double squares_of(const struct sequences *s, int64_t i)
{
    const double length = (double)(s->offset[i + 1] - s->offset[i]);
    const int64_t n = sequences_segments(s, i);
    double sum = 0;
    if (n == 0) return length * length;
    const struct segment *at = s->segments + s->first_segment[i];
    for (int64_t k = 0; k < n; k++) {
        const double end = k + 1 < n ? (double)at[k + 1].row : length;
        const double own = end - (double)at[k].row, before = (double)at[k].pos;
        sum += own * (own + 2 * before);
    }
    return sum;
}

struct cost_tokens cost_tokens_count(const struct sequences *s)
{
    struct cost_tokens t = {0};
    if (!s) return t;
    t.tokens = (double)s->offset[s->n];
    t.sequences = s->n;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t length = s->offset[i + 1] - s->offset[i];
        t.squares += squares_of(s, i);
        if (length > t.longest) t.longest = length;
    }
    return t;
}

void cost_tokens_add(struct cost_tokens *to, const struct cost_tokens *more)
{
    to->tokens += more->tokens;
    to->squares += more->squares;
    to->sequences += more->sequences;
    to->guessed = to->guessed || more->guessed;
    if (more->longest > to->longest) to->longest = more->longest;
}
