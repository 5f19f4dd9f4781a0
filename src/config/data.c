/* Sources of token sequences: what holds between their keys, their JSON form and flags. */
#include "config/preset.h"
#include "util/mem.h"
#include "util/words.h"

bool data_options_even(const struct data_options *d)
{
    return d->layout == LAYOUT_PACKED && (d->bytes || d->draw);
}

/* Clears a preset's settings for documents, which do not concern stored ids, and for the tokens
 * that it leaves out. */
static void clear_text_keys(struct data_options *d)
{
    if (d->preset == PRESET_NONE) return;
    if (data_options_even(d)) d->follow = 0;
    if (!d->ids) return;
    d->special_tokens = false;
    d->documents = d->bytes = d->draw = d->follow = 0;
}

/* A conflict between the keys, NULL: none; *key: the key to name in the message. */
static const char *fault(const struct data_options *d, const char **key)
{
    *key = NULL;
    if (!d->text && !d->ids) return "text or ids is missing: where do the tokens come from?";
    *key = "ids";
    if (d->text && d->ids) return "text and ids are both given, expected one of them";
    const char *colon = d->ids ? strrchr(d->ids, ':') : NULL;
    if (d->ids && (!colon || colon == d->ids || !colon[1] || strchr(colon, '/')))
        return "expected FILE.safetensors:KEY, the name of a tensor after a colon";
    *key = "length";
    if (d->text && d->layout == LAYOUT_PACKED && d->length == LENGTH_WHOLE)
        return "none is for layout: document; packed text is cut into blocks of a length";
    *key = "draw";
    if (d->draw && !d->documents && !d->bytes) return "of how many documents or bytes?";
    *key = "follow";
    if (d->follow && data_options_even(d)) return "leaves tokens out, which bytes and draw do not";
    return NULL;
}

/* The (first) file's name without folder, compression and extension: data/c4.en.jsonl.gz is c4.en.
 */
static enum status name_after_file(struct data_options *d, struct err *e)
{
    static const char *const packed[] = {".gz", ".zst", ".xz", ".bz2"};
    const char *base = d->text ? d->text : d->ids;
    const char *end = base + (d->text ? strcspn(base, "\n") : (size_t)(strrchr(base, ':') - base));
    for (const char *p = base; p < end; p++)
        if (*p == '/') base = p + 1;
    PASS(mem_format(&d->name, e, "%.*s", (int)(end - base), base));
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (words_end(d->name, packed[i])) {
            d->name[strlen(d->name) - strlen(packed[i])] = '\0';
            break;
        }
    char *dot = strrchr(d->name, '.');
    if (dot && dot > d->name) *dot = '\0';
    return OK;
}

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct data_options *d = entry;
    clear_text_keys(d);
    const char *key, *what = fault(d, &key);
    if (what) PASS(options_fail(scope, key, e, "%s", what));
    if (!d->name) PASS(name_after_file(d, e));
    return OK;
}

/* In the order of their enums. */
static const char *const paddings[] = {"none", "counted", "masked", NULL};
static const char *const sorts[] = {"none", "length", NULL};
static const char *const layouts[] = {"packed", "document", NULL};

static const struct option keys[] = {
    OPTION(data_options, name, TEXT, "label on the cube's dataset axis, each only once",
           .otherwise = "the file's name without its extension"),
    OPTION(data_options, text, PATHS,
           "text to tokenize: plain (one document a file) or JSON lines, gzip or zstd of either; "
           "several files in a list, or by patterns such as part-*.jsonl",
           .otherwise = "none, ids are given instead"),
    OPTION(data_options, field, TEXT, "field of a JSON line that holds the text",
           .otherwise = "the file is plain text", .with = "text"),
    OPTION(data_options, ids, PATH,
           "FILE.safetensors:KEY, an integer tensor (sequences, length) of token ids",
           .otherwise = "none, text is given instead"),
    OPTION(data_options, layout, CHOICE,
           "all documents concatenated and cut into blocks of `length` (packed), or one sequence "
           "per document, cut at `length` (document)",
           .fallback = "packed", .choices = layouts, .with = "text"),
    OPTION(data_options, length, INT,
           "tokens of a sequence; auto: 2048, or the model's positions if it has fewer; none: "
           "documents are not cut",
           .unit = "tokens", .fallback = "auto", .low = 2, .high = 1 << 24,
           OPTION_SPECIAL_2(LENGTH_AUTO, "auto", LENGTH_WHOLE, "none"), .with = "text"),
    OPTION(data_options, special_tokens, BOOL,
           "each document gets the tokens that the tokenizer's post-processor adds (BOS)",
           .fallback = "false", .with = "text"),
    OPTION(data_options, separator, TEXT,
           "token after each packed document: its text, or eos for the model's",
           .otherwise = "none", .with = "text layout=packed"),
    OPTION(data_options, documents, INT, "maximum number of documents read; 0: all",
           .unit = "documents", .fallback = "0", .low = 0, .high = INT64_MAX, .with = "text"),
    OPTION(data_options, bytes, INT,
           "maximum number of bytes of text, whatever the tokenizer; the last document is cut; 0: "
           "all",
           .unit = "bytes", .fallback = "0", .low = 0, .high = INT64_MAX, .with = "text",
           .later = true),
    OPTION(data_options, draw, INT,
           "seed by which so many documents or bytes are drawn from the whole text; none: they are "
           "its first ones",
           .fallback = "none", .low = 1, .high = INT64_MAX, OPTION_SPECIAL(0, "none"),
           .with = "text", .later = true),
    OPTION(data_options, min_length, INT,
           "documents (and rows of ids) with fewer tokens, added ones included, are skipped",
           .unit = "tokens", .fallback = "0", .low = 0, .high = INT64_MAX),
    OPTION(data_options, skip, INT, "sequences skipped at the start", .unit = "sequences",
           .fallback = "0", .low = 0, .high = INT64_MAX),
    OPTION(data_options, samples, INT, "maximum number of sequences; 0: all", .unit = "sequences",
           .fallback = "0", .low = 0, .high = INT64_MAX),
    OPTION(data_options, tokens, INT, "maximum number of tokens, in whole sequences; 0: all",
           .unit = "tokens", .fallback = "0", .low = 0, .high = INT64_MAX),
    OPTION(data_options, cut, INT,
           "tokens used of each sequence, the first ones, after the keys above have chosen the "
           "sequences; none: all",
           .unit = "tokens", .fallback = "none", .low = 2, .high = 1 << 24,
           OPTION_SPECIAL(0, "none"), .later = true),
    OPTION(data_options, within_positions, BOOL,
           "sequences are cut at the model's max_position_embeddings too", .fallback = "false"),
    OPTION(data_options, follow, INT,
           "tokens that must follow a packed block; otherwise it is dropped", .unit = "tokens",
           .fallback = "0", .low = 0, .high = 1 << 24, .with = "text layout=packed"),
    OPTION(data_options, sort, CHOICE,
           "order of the sequences: as in the text (none), longest first (length)",
           .fallback = "none", .choices = sorts),
    OPTION(data_options, batch, INT, "calibration sequences that are padded together",
           .unit = "sequences", .fallback = "1", .low = 1, .high = INT64_MAX, .with = "padding"),
    OPTION(data_options, padding, CHOICE,
           "calibration sequences are padded on the right to the longest of their batch; padding "
           "counts in the Hessian (counted) or not (masked, the same as none)",
           .fallback = "none", .choices = paddings),
    OPTION(data_options, pad_id, INT,
           "padding token; auto: from config.json and the tokenizer's files", .fallback = "auto",
           .low = 0, .high = INT32_MAX, OPTION_SPECIAL(-1, "auto"), .with = "padding"),
    OPTION(data_options, preset, CHOICE,
           "defaults of these keys by a published protocol (listed below)", .fallback = "none",
           .otherwise = "the sweep's", .choices = preset_names, .file_only = true),
};

/* Of the keys above, the first is the label in a cube, the last are three of calibration and the
 * preset. */
enum { KEYS = sizeof keys / sizeof *keys, UNLABELLED = KEYS - 2, SCORED = UNLABELLED - 3 };

static bool absent(const void *entry)
{
    const struct data_options *d = entry;
    return !d->text && !d->ids;
}

const struct option_table data_table = {OPTION_ROWS(keys, data_options), .begin = data_begin,
                                        .finish = finish, .absent = absent};

static enum status check_scored(void *entry, const struct option_scope *scope, struct err *e)
{
    const char *key, *what = fault(entry, &key);
    return what ? options_fail(scope, key, e, "%s", what) : OK;
}

const struct option_table data_heldout_table = {.options = keys + 1,
                                                .n = SCORED,
                                                .size = sizeof(struct data_options),
                                                .finish = check_scored,
                                                .absent = absent};
const struct option_table data_scored_table = {
    .options = keys + 1, .n = SCORED, .size = sizeof(struct data_options), .absent = absent};
const struct option_table data_calibration_table = {
    .options = keys + 1, .n = UNLABELLED, .size = sizeof(struct data_options), .absent = absent};

int64_t data_options_length(const struct data_options *d, int64_t positions)
{
    if (d->length != LENGTH_AUTO) return d->length;
    return positions > 0 && positions < LENGTH_USUAL ? positions : LENGTH_USUAL;
}

enum status data_options_finish(struct data_options *d, const char *prefix, struct err *e)
{
    clear_text_keys(d);
    const char *key, *what = fault(d, &key);
    NEED(!what, ERR_USAGE, "--%s%s: %s", prefix, key ? key : "text", what);
    if (!d->name) PASS(name_after_file(d, e));
    return OK;
}

json_t *data_options_to_json(const struct data_options *d)
{
    return absent(d) ? json_null() : options_to_json(&data_table, d);
}
