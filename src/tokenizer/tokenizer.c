#include "tokenizer/tokenizer.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/component.h"
#include "tokenizer/decode.h"
#include "tokenizer/eos.h"
#include "tokenizer/pretok.h"
#include "tokenizer/utf8.h"
#include "util/hash.h"
#include "util/mem.h"

/* The largest published files have about 35 MB. */
enum { TOKENIZER_BYTES_MAX = 256 << 20 };

/* The ids that the post-processors put around a text. */
struct template
{
    struct ids before, after;
    int64_t n_ids; /* ids are smaller */
};

struct tokenizer {
    char *path;
    char hash[HASH_HEX];
    struct special special; /* what the files beside it name */
    struct err unnamed;     /* why these cannot be read */
    struct vocab vocab;
    struct added added;
    struct steps normalizer;
    struct pretok pretok;
    struct bpe bpe;
    struct template template;
    struct decoder decoder;
    int32_t *bytes; /* (n_ids) */
};

/* ---- the post-processors ---- */

/* Published files add one or two ids; nested lists could multiply them. */
enum { TEMPLATE_IDS = 256, TEMPLATE_PROCESSING = 1 };

static void template_free(struct template *t)
{
    free(t->before.id);
    free(t->after.id);
}

static enum status add_special(struct ids *out, const json_t *tokens, const char *name,
                               int64_t n_ids, struct err *e)
{
    const json_t *list;
    const json_t *token = json_object_get(tokens, name);
    NEED(token, ERR_FORMAT, "post_processor: \"%.80s\" is not among its special_tokens", name);
    PASS(component_array(token, "post_processor", "ids", &list, e));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        NEED(json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < n_ids,
             ERR_FORMAT, "post_processor: ids of \"%.80s\" must be integers in 0..%lld", name,
             (long long)n_ids - 1);
        int32_t id = (int32_t)json_integer_value(v);
        NEED(out->n < TEMPLATE_IDS, ERR_USAGE, "post_processor: adds more than %d ids",
             TEMPLATE_IDS);
        PASS(ids_add(out, &id, 1, e));
    }
    return OK;
}

/* A later template goes around what the earlier ones made. */
static enum status read_template(void *out, int type, const json_t *o, struct err *e)
{
    struct template *t = out;
    if (type != TEMPLATE_PROCESSING) return OK; /* ByteLevel moves offsets only */
    const json_t *single, *tokens = json_object_get(o, "special_tokens");
    CLEANUP(template_free) struct template own = {0};
    bool text_seen = false;
    PASS(component_array(o, "post_processor", "single", &single, e));
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        if (special) {
            const char *name = json_text(special, "id", "");
            PASS(add_special(text_seen ? &own.after : &own.before, tokens, name, t->n_ids, e));
        } else {
            NEED(json_object_get(piece, "Sequence") && !text_seen, ERR_FORMAT,
                 "post_processor: \"single\" must be SpecialTokens and one Sequence");
            text_seen = true;
        }
    }
    NEED(text_seen, ERR_FORMAT, "post_processor: \"single\" has no Sequence");
    PASS(ids_add(&own.before, t->before.id, t->before.n, e));
    PASS(ids_add(&t->after, own.after.id, own.after.n, e));
    NEED(own.before.n <= TEMPLATE_IDS && t->after.n <= TEMPLATE_IDS, ERR_USAGE,
         "post_processor: adds more than %d ids", TEMPLATE_IDS);
    free(t->before.id);
    t->before = own.before;
    own.before = (struct ids){0};
    return OK;
}

static enum status template_read(struct template *t, const json_t *value, int64_t n_ids,
                                 struct err *e)
{
    static const char *const types[] = {"ByteLevel", "TemplateProcessing", NULL};
    static const struct component component = {
        .where = "post_processor", .list = "processors", .types = types, .read = read_template};
    t->n_ids = n_ids;
    return component_read(&component, value, t, e);
}

/* ---- reading ---- */

static enum status read_document(struct tokenizer *t, const json_t *root, struct err *e)
{
    NEED(json_is_object(root), ERR_FORMAT, "expected an object, as in a tokenizer.json");
    const json_t *model = json_object_get(root, "model");
    NEED(json_is_object(model), ERR_FORMAT, "has no \"model\": not a tokenizer.json");
    PASS(added_read(&t->added, json_object_get(root, "added_tokens"), e));
    PASS(normalizer_read(&t->normalizer, json_object_get(root, "normalizer"), e));
    PASS(pretok_read(&t->pretok, json_object_get(root, "pre_tokenizer"), e));
    PASS(decoder_read(&t->decoder, json_object_get(root, "decoder"), e));
    PASS(bpe_check(model, e));
    PASS(vocab_read(&t->vocab, json_object_get(model, "vocab"), t->added.max_id, e));
    PASS(bpe_read(&t->bpe, model, &t->vocab, t->pretok.byte_level, e));
    PASS(added_link(&t->added, &t->vocab, &t->normalizer, e));
    PASS(template_read(&t->template, json_object_get(root, "post_processor"), t->vocab.n_ids, e));
    PASS(mem_zero(&t->bytes, t->vocab.n_ids, sizeof *t->bytes, "vocabulary", e));
    for (int64_t id = 0; id < t->vocab.n_ids; id++) {
        const struct vocab_token token = t->vocab.token[id];
        if (token.s) PASS(decoder_token_bytes(&t->decoder, token.s, token.n, &t->bytes[id], e));
    }
    return OK;
}

enum status tokenizer_open(const char *path, struct tokenizer **out, struct err *e)
{
    CLEANUP(tokenizer_close_at) struct tokenizer *t = NULL;
    json_auto_t *root = NULL;
    PASS(mem_zero(&t, 1, sizeof *t, "tokenizer", e));
    enum status st = json_read_as(path, TOKENIZER_BYTES_MAX, 0, t->hash, &root, e);
    if (st == ERR_FORMAT) err_prefix(e, "not a tokenizer.json");
    if (st != OK) return st;
    st = special_read(path, &t->special, &t->unnamed); /* an error of who asks for them */
    NEED(st != ERR_NOMEM, st, "%s", t->unnamed.text);
    PASS(mem_string(&t->path, path, e));
    st = read_document(t, root, e);
    if (st != OK) err_prefix(e, "%s", path);
    if (st == OK) *out = TAKE(t);
    return st;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t) return;
    vocab_free(&t->vocab);
    added_free(&t->added);
    steps_free(&t->normalizer);
    pretok_free(&t->pretok);
    bpe_free(&t->bpe);
    template_free(&t->template);
    steps_free(&t->decoder.steps);
    special_free(&t->special);
    free(t->bytes);
    free(t->path);
    free(t);
}

const char *tokenizer_hash(const struct tokenizer *t)
{
    return t->hash;
}

const char *tokenizer_special_hash(const struct tokenizer *t)
{
    return t->special.hash;
}

int64_t tokenizer_n_ids(const struct tokenizer *t)
{
    return t->vocab.n_ids;
}

int32_t tokenizer_id_bytes(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n_ids ? t->bytes[id] : 0;
}

/* ---- special tokens ---- */

void tokenizer_special(const struct tokenizer *t, const int32_t **before, int64_t *n_before,
                       const int32_t **behind, int64_t *n_behind)
{
    *before = t->template.before.id;
    *n_before = t->template.before.n;
    *behind = t->template.after.id;
    *n_behind = t->template.after.n;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *token)
{
    size_t n = strlen(token);
    for (int64_t id = 0; id < t->vocab.n_ids; id++) {
        struct vocab_token own = t->vocab.token[id];
        if (own.s && own.n == n && memcmp(own.s, token, n) == 0) return (int32_t)id;
    }
    return -1;
}

/* *id = the token that the files name as `what`; -1: none. */
static enum status named(const struct tokenizer *t, const struct eos *x, const char *what,
                         const char *advice, int32_t *id, struct err *e)
{
    NEED(t->unnamed.code == OK, t->unnamed.code, "%s", t->unnamed.text);
    *id = x->token ? tokenizer_find(t, x->token) : x->id;
    NEED((*id >= 0 || !x->token) && *id < t->vocab.n_ids, ERR_USAGE,
         "%s: the %s token that %s names (%s) is not among the tokens%s", t->path, what, x->file,
         x->token ? x->token : "by its id", advice);
    return OK;
}

enum status tokenizer_eos(const struct tokenizer *t, int32_t *id, struct err *e)
{
    PASS(named(t, &t->special.eos, "end-of-text", "", id, e));
    NEED(*id >= 0, ERR_USAGE,
         "no eos_token in a tokenizer_config.json or special_tokens_map.json, no eos_token_id in "
         "a config.json beside %s: name the token itself",
         t->path);
    return OK;
}

enum status tokenizer_pad(const struct tokenizer *t, const struct pad_hint *hint, int32_t *id,
                          struct err *e)
{
    static const char *const usual[] = {"<|finetune_right_pad_id|>", "<|pad|>", "<pad>", "<|unk|>",
                                        "<unk>"};
    const struct pad_hint *h = hint ? hint : &t->special.beside;
    const bool hinted = h->pad >= 0 && h->pad != h->bos && h->pad != h->eos;
    const struct eos pad = {.id = h->pad, .file = "config.json"};
    PASS(named(t, hinted ? &pad : &t->special.pad, "padding", ": give its pad_id", id, e));
    for (size_t i = 0; i < sizeof usual / sizeof *usual && *id < 0; i++)
        *id = tokenizer_find(t, usual[i]);
    if (*id < 0 && hint) *id = hint->eos;
    return *id < 0 ? tokenizer_eos(t, id, e) : OK;
}

/* ---- encoding ---- */

/* One call's state. */
struct encoding {
    const struct tokenizer *t;
    struct ids out;
    struct bpe_run bpe;
    struct pretok_run cut;
    struct buf valid, normalized, spare;
};

static enum status take_word(void *context, const char *s, size_t n, struct err *e)
{
    struct encoding *c = context;
    return bpe_encode(&c->t->bpe, &c->bpe, s, n, &c->out, e);
}

/* Encodes text between two added tokens of the raw text: normalises it, finds the added tokens of
 * the normalised text, and cuts and encodes what is between those. */
static enum status encode_segment(struct encoding *c, const char *s, size_t n, bool at_start,
                                  struct err *e)
{
    const struct added *added = &c->t->added;
    struct added_cursor cursor = {0};
    struct added_part part;
    if (c->t->normalizer.n > 0) {
        PASS(normalizer_apply(&c->t->normalizer, s, n, &c->normalized, &c->spare, e));
        s = c->normalized.data;
        n = c->normalized.n;
        NEED(n < INT32_MAX / 2, ERR_USAGE,
             "a text of %zu bytes when normalised is too long to encode: split it", n);
    }
    while (added_next(added, &added->normalized, &cursor, s, n, &part)) {
        PASS(pretok_cut(&c->t->pretok, &c->cut, s + part.from, part.to - part.from,
                        at_start && part.from == 0, e));
        if (part.id >= 0) PASS(ids_add(&c->out, &part.id, 1, e));
    }
    return OK;
}

static enum status encode_text(struct encoding *c, const char *s, size_t n, struct err *e)
{
    const struct added *added = &c->t->added;
    struct added_cursor cursor = {0};
    struct added_part part;
    if (utf8_valid_prefix(s, n) < n) {
        PASS(utf8_add_replaced(&c->valid, s, n, e));
        s = c->valid.data;
        n = c->valid.n;
    }
    while (added_next(added, &added->raw, &cursor, s, n, &part)) {
        PASS(encode_segment(c, s + part.from, part.to - part.from, part.from == 0, e));
        if (part.id >= 0) PASS(ids_add(&c->out, &part.id, 1, e));
    }
    return OK;
}

enum status tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, bool special,
                             int32_t **ids, int64_t *n_ids, struct err *e)
{
    enum status st = OK;
    struct encoding c = {.t = t, .cut = {.word = take_word, .context = &c}};
    /* Replacement and byte fallback may triple the length, and places in a word have 32 bits. */
    ENSURE(n < INT32_MAX / 6, ERR_USAGE, "a text of %zu bytes is too long to encode: split it", n);
    TRY(ids_reserve(&c.out, (int64_t)n / 3 + 16, e));
    TRY(bpe_run_init(&c.bpe, n, e));
    TRY(pattern_work_new(&c.cut.work, e));
    if (special) TRY(ids_add(&c.out, t->template.before.id, t->template.before.n, e));
    if ((st = encode_text(&c, text, n, e)) != OK) {
        err_prefix(e, "%s", t->path);
        goto done;
    }
    if (special) TRY(ids_add(&c.out, t->template.after.id, t->template.after.n, e));
    *ids = c.out.id;
    *n_ids = c.out.n;
    c.out.id = NULL;
done:
    free(c.out.id);
    bpe_run_free(&c.bpe);
    pretok_run_free(&c.cut);
    pattern_work_free(c.cut.work);
    buf_free(&c.valid);
    buf_free(&c.normalized);
    buf_free(&c.spare);
    return st;
}

/* ---- decoding ---- */

enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, int64_t n_ids,
                             char **text, size_t *n, struct err *e)
{
    CLEANUP(strings_free) struct strings tokens = {0};
    for (int64_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= t->vocab.n_ids || !t->vocab.token[ids[i]].s) continue;
        struct vocab_token token = t->vocab.token[ids[i]];
        PASS(strings_add(&tokens, token.s, token.n, e));
    }
    PASS(decoder_apply(&t->decoder, &tokens, e));
    *text = tokens.text.data;
    *n = tokens.text.n;
    tokens.text.data = NULL;
    return OK;
}
