#include "export/model_card.h"
#include "quant/quant.h"
#include "records/scores.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/version.h"
#include <math.h>

enum { CARD_MAX = 1 << 20 };

/* Of a 95 % interval, in standard errors. */
static const double half_width = 1.96;

/* "group_size 64, order none": the options that concern the method. */
static enum status add_options(const struct method_entry *m, char **text, struct err *e)
{
    json_auto_t *all = method_entry_to_json(m);
    json_t *value;
    const struct quant_method *method = quant_find(m->method);
    const char *key, *between = "";
    PASS(mem_append(text, e, "| options | "));
    json_object_foreach(all, key, value) {
        if (!quant_concerns(method, key)) continue;
        char *word = json_write_text(value, JSON_ENCODE_ANY);
        enum status st = word ? mem_append(text, e, "%s`%s: %s`", between, key, word) : OK;
        free(word);
        PASS(st);
        between = ", ";
    }
    return mem_append(text, e, "%s |\n", *between ? "" : "none");
}

static enum status add_calibration(const struct model_card *c, char **text, struct err *e)
{
    const struct data_options *d = c->calibration;
    const char *name = d ? d->text ? d->text : d->ids : NULL;
    if (!name ||
        !quant_calibrates(quant_find(c->variant->method.method), &c->variant->method.options))
        return mem_append(text, e, "| calibration | none |\n");
    PASS(mem_append(text, e, "| calibration | `%.*s`", (int)strcspn(name, "\n"), name));
    if (strchr(name, '\n')) PASS(mem_append(text, e, " and others"));
    const char *digest = c->inputs ? json_text(c->inputs, name, NULL) : NULL;
    if (digest) PASS(mem_append(text, e, ", digest `%s`", digest));
    if (d->samples)
        PASS(mem_append(text, e, ", %lld sequences",
                        (long long)(c->sequences ? c->sequences : d->samples)));
    if (d->length > 0) PASS(mem_append(text, e, " of %lld tokens", (long long)d->length));
    if (d->skip) PASS(mem_append(text, e, " after the first %lld", (long long)d->skip));
    return mem_append(text, e, " |\n");
}

/* The last section, so that it can be replaced. */
static const char heading[] = "\n## Loss\n\n";

/* cell: the record of the cell; NULL or without losses: nothing. texts: {digest: label} of those to
 * list; NULL: all. label: of a text that has none otherwise; NULL: what the record calls it. */
static enum status add_losses(const json_t *cell, const json_t *texts, const char *label,
                              char **text, struct err *e)
{
    json_t *all = json_object_get(cell, "datasets"), *scores;
    const char *name;
    const double bits =
        json_number_get(json_object_get(json_object_get(cell, "values"), "bits_per_weight"));
    if (json_object_size(all) == 0) return OK;
    PASS(mem_append(text, e,
                    "%sMean cross-entropy in nats a token; in brackets the 95 %% interval over the "
                    "text's sequences, paired. The quantized matrices have %.4g bits per weight, "
                    "scales included.\n\n"
                    "| text | quantized | full precision | relative error | KL divergence |\n"
                    "|---|---|---|---|---|\n",
                    heading, bits));
    json_object_foreach(all, name, scores) {
        if (texts && !json_object_get(texts, name)) continue;
        const char *recorded = json_text(scores_find(cell, name), "name", label ? label : name);
        /* A row of the table of losses. */
        const double loss = json_number_get(json_object_get(scores, "loss")),
                     added = json_number_get(json_object_get(scores, "loss_delta")),
                     error = 100 * json_number_get(json_object_get(scores, "loss_relative")),
                     half = half_width * 100 *
                            json_number_get(json_object_get(scores, "loss_relative_stderr")),
                     divergence = json_number_get(json_object_get(scores, "kl_divergence"));
        PASS(mem_append(text, e, "| %s | %.6f | %.6f | %+.3f %%", json_text(texts, name, recorded),
                        loss, loss - added, error));
        if (isfinite(half))
            PASS(mem_append(text, e, " (%+.3f to %+.3f)", error - half, error + half));
        PASS(mem_append(text, e, " | %.3g |\n", divergence));
    }
    return OK;
}

/* How programs load a format: packages that transformers needs, and the type of vLLM's numbers. */
static const struct loading {
    const char *format, *packages, *dtype;
} loadings[] = {
    {"dequantized", "transformers", "float32"},
    {"gptq", "transformers gptqmodel optimum", "float16"},
    {"awq", "transformers gptqmodel", "float16"},
    {"compressed-tensors", "transformers compressed-tensors", "auto"},
};

static enum status add_loading(const struct model_card *c, char **text, struct err *e)
{
    const struct loading *l = loadings;
    if (strcmp(c->format, "qtraj") == 0)
        return mem_append(
            text, e,
            "\n## Loading\n\nFOLDER is this folder. qtraj reads it:\n\n"
            "```\nqtraj eval FOLDER --text FILE\n```\n\n"
            "For other programs, a weight P.weight is s V^T C U^T: s is P.scale; C are the numbers "
            "that the bits of P.codes stand for, in blocks of 16 rows; U and V are Hadamard "
            "matrices with the signs of P.signs. docs/export.md of qtraj defines all of it.\n");
    for (size_t i = 0; i < sizeof loadings / sizeof *loadings; i++)
        if (strcmp(loadings[i].format, c->format) == 0) l = &loadings[i];
    const bool asymmetric =
        strcmp(c->format, "compressed-tensors") == 0 && !c->variant->method.options.symmetric;
    return mem_append(
        text, e,
        "\n## Loading\n\nFOLDER is this folder. With transformers, after `pip install %s`:\n\n"
        "```python\nfrom transformers import AutoModelForCausalLM, PreTrainedTokenizerFast%s\n\n"
        "model = AutoModelForCausalLM.from_pretrained(\"FOLDER\", dtype=\"auto\"%s)\n"
        "tokenizer = PreTrainedTokenizerFast.from_pretrained(\"FOLDER\")\n```\n\n"
        "The folder is in vLLM's format, but was not tried with vLLM:\n\n"
        "```\nvllm serve FOLDER --dtype %s\n```\n",
        l->packages, asymmetric ? ", CompressedTensorsConfig" : "",
        asymmetric ? ", quantization_config=CompressedTensorsConfig(dequantize=True)" : "",
        l->dtype);
}

enum status model_card_text(const struct model_card *c, char **text, struct err *e)
{
    const struct method_entry *m = &c->variant->method;
    *text = NULL;
    PASS(mem_append(text, e,
                    "---\nlibrary_name: transformers\ntags: [quantized, %s]\n---\n\n"
                    "# %s, %s at %lld bits\n\n| | |\n|---|---|\n"
                    "| checkpoint | `%s`, weights_hash `%s`: of samples of its bytes, unlike "
                    "the weights_digest of cubes, of all |\n| method | `%s`, %lld bits |\n",
                    m->method, c->name, m->name, (long long)c->variant->bits, c->name, c->digest,
                    m->method, (long long)c->variant->bits));
    PASS(add_options(m, text, e));
    PASS(add_calibration(c, text, e));
    PASS(mem_append(text, e, "| form of the weights | %s |\n| made by | qtraj %s |\n", c->format,
                    version_text));
    if (c->variant->key && c->variant->key[0])
        PASS(mem_append(text, e, "| key of the cell in the cube | `%s` |\n", c->variant->key));
    PASS(add_loading(c, text, e));
    return add_losses(c->cell, NULL, c->label, text, e);
}

enum status model_card_complete(const char *folder, const json_t *cell, const json_t *texts,
                                struct err *e)
{
    AUTO_FREE char *path = NULL, *before = NULL, *text = NULL;
    size_t n;
    PASS(fsx_join(folder, "README.md", &path, e));
    if (!fsx_is_file(path)) return OK;
    PASS(fsx_read(path, CARD_MAX, &before, &n, e));
    const char *end = strstr(before, heading);
    if (!strstr(before, json_text(cell, "key", "?"))) return OK; /* of other results, or edited */
    const int head = (int)(end ? end - before : (ptrdiff_t)strlen(before));
    PASS(mem_append(&text, e, "%.*s", head, before));
    PASS(add_losses(cell, texts, NULL, &text, e));
    if (strcmp(text, before) != 0) PASS(fsx_write_atomic(path, text, strlen(text), e));
    return OK;
}
