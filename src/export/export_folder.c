#include "export/export_folder.h"
#include "checkpoint/folder_write.h"
#include "model/describe.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/version.h"

/* The tensors of the folder: first those that are copied, then linear by linear, in the visit's
 * order, what is made of it: the norm before its stage if that absorbs scales, the linear, its
 * bias if that does. */
struct export_folder {
    const struct checkpoint *checkpoint;
    struct export_form form;
    json_t *config;
    struct tensor_description *list; // (n_list) the model's
    int64_t n_list, linear;          /* linear: place of the next one in the list */
    int64_t copied, n, capacity;
    struct tensor_shape *tensors; // (n)
    char **names;                 // (n_names) of packed tensors, owned
    int64_t n_names, names_capacity;
    struct folder_out *out;
};

/* --- forms --- */

static const char dequantized[] = "dequantized";

const char *const *export_formats(void)
{
    static const char *words[8] = {dequantized};
    for (int i = 0; packed_formats[i]; i++) words[1 + i] = packed_formats[i];
    return words;
}

enum status export_form_choose(const char *format, const struct quant_method *method,
                               const struct quant_options *options, int64_t bits,
                               struct export_form *out, struct err *e)
{
    struct quant_grid_form grids;
    int i = 0;
    while (export_formats()[i] && strcmp(export_formats()[i], format) != 0) i++;
    NEED(export_formats()[i], ERR_USAGE,
         "format %s: expected dequantized, gptq, awq, compressed-tensors or qtraj", format);
    *out = (struct export_form){.layout = {.format = PACKED_NONE}};
    if (strcmp(format, dequantized) == 0) return OK;
    if (strcmp(format, "qtraj") == 0) {
        NEED(method->describe_blocks, ERR_USAGE,
             "format qtraj cannot hold it: the weights of method %s are no codes of blocks; those "
             "of trellis and e8p are",
             method->name);
        out->layout = (struct packed_layout){.bits = bits,
                                             .group_size = -1,
                                             .wide = true,
                                             .blocks = method->describe_blocks(options, bits),
                                             .mixed = options->incoherence};
        return packed_layout_choose(&out->layout, format, e);
    }
    enum status st = quant_grid_form_of(method, options, &grids, e);
    if (st != OK) err_prefix(e, "format %s cannot hold it", format);
    PASS(st);
    out->folds = grids.folds;
    out->layout = (struct packed_layout){.bits = bits,
                                         .group_size = grids.group_size,
                                         .symmetric = grids.symmetric,
                                         .ordered = grids.ordered,
                                         .wide = !grids.f16};
    return packed_layout_choose(&out->layout, format, e);
}

enum status export_form_check(const struct export_form *form, const json_t *config,
                              const char *file, struct err *e)
{
    struct tensor_description l[DESCRIBE_MAX];
    int n;
    if (form->layout.format == PACKED_NONE) return OK;
    PASS(model_describe(config, file, 0, l, &n, e));
    for (int i = 0; i < n; i++) {
        if (!l[i].linear) continue;
        const enum status st =
            packed_check_size(&form->layout, l[i].name, l[i].shape[0], l[i].shape[1], e);
        if (st != OK) err_prefix(e, "%s", file);
        PASS(st);
    }
    return OK;
}

static bool is_packed(const struct export_folder *f)
{
    return f->form.layout.format != PACKED_NONE;
}

/* --- the plan --- */

static bool is_copied(const struct export_folder *f, const char *name)
{
    for (const struct tensor_description *t = f->list; t < f->list + f->n_list; t++) {
        const bool made = t->linear || (f->form.folds && (t->bias || t->norm_of >= 0));
        if (made && strcmp(t->name, name) == 0) return false; /* with the linears */
    }
    return true;
}

static enum status plan_tensor(struct export_folder *f, const struct tensor_shape *t, struct err *e)
{
    PASS(mem_grow(&f->tensors, f->n, &f->capacity, sizeof *f->tensors, e));
    f->tensors[f->n++] = *t;
    return OK;
}

/* A tensor of the checkpoint that is written in f32. */
static enum status plan_f32(struct export_folder *f, const char *name, struct err *e)
{
    const struct tensor_entry *t = checkpoint_find(f->checkpoint, name);
    NEED(t, ERR_FORMAT, "%s: no tensor %s", checkpoint_dir(f->checkpoint), name);
    struct tensor_shape shape = folder_shape(t);
    shape.dtype = DTYPE_F32;
    return plan_tensor(f, &shape, e);
}

/* Whether linear k of the list is the first of its stage. */
static bool begins_stage(const struct export_folder *f, int64_t k)
{
    int64_t before = k - 1;
    while (before >= 0 && !f->list[before].linear) before--;
    return before < 0 || f->list[before].stage != f->list[k].stage;
}

/* The next tensor after i of the norm before the stage of linear k; n_list: none. */
static int64_t norm_after(const struct export_folder *f, int64_t k, int64_t i)
{
    const struct tensor_description *l = &f->list[k];
    for (i++; i < f->n_list && f->list[i].layer == l->layer; i++)
        if (f->list[i].norm_of == l->stage) return i;
    return f->n_list;
}

static bool has_bias(const struct export_folder *f, int64_t k)
{
    return k + 1 < f->n_list && f->list[k + 1].bias;
}

static enum status plan_linear(struct export_folder *f, int64_t k, struct err *e)
{
    if (!is_packed(f)) return plan_f32(f, f->list[k].name, e);
    if (f->form.folds && begins_stage(f, k))
        for (int64_t i = norm_after(f, k, k); i < f->n_list; i = norm_after(f, k, i))
            PASS(plan_f32(f, f->list[i].name, e));
    struct packed_part parts[PACKED_PARTS];
    const int stem = (int)(strlen(f->list[k].name) - strlen(".weight"));
    PASS(packed_check_size(&f->form.layout, f->list[k].name, f->list[k].shape[0],
                           f->list[k].shape[1], e));
    const int n = packed_parts(&f->form.layout, f->list[k].shape[0], f->list[k].shape[1], parts);
    for (int i = 0; i < n; i++) {
        struct tensor_shape t = {.dtype = parts[i].dtype,
                                 .n_dims = parts[i].n_dims,
                                 .shape = {parts[i].shape[0], parts[i].shape[1]}};
        PASS(mem_grow(&f->names, f->n_names, &f->names_capacity, sizeof *f->names, e));
        PASS(
            mem_format(&f->names[f->n_names], e, "%.*s%s", stem, f->list[k].name, parts[i].ending));
        t.name = f->names[f->n_names++];
        PASS(plan_tensor(f, &t, e));
    }
    if (f->form.folds && has_bias(f, k)) PASS(plan_f32(f, f->list[k + 1].name, e));
    return OK;
}

/* --- config.json --- */

static enum status set_config(struct export_folder *f, struct err *e)
{
    json_auto_t *ignored = NULL, *quantization = NULL;
    f->config = json_deep_copy(checkpoint_config(f->checkpoint));
    NEED(f->config, ERR_NOMEM, "out of memory for config.json");
    if (!is_packed(f)) return OK;
    /* The linear layers outside the blocks: those of matrices, tied or not. */
    ignored = json_pack("[s]", "lm_head");
    for (int64_t i = 0; i < f->n_list; i++) {
        const struct tensor_description *t = &f->list[i];
        const int stem = (int)(strlen(t->name) - strlen(".weight"));
        if (t->linear || t->n_dims != 2 || strcmp(t->name, "lm_head.weight") == 0) continue;
        json_array_append_new(ignored, json_sprintf("%.*s", stem, t->name));
    }
    NEED(ignored, ERR_NOMEM, "out of memory for config.json");
    PASS(packed_config(&f->form.layout, ignored, version_text, &quantization, e));
    NEED(json_object_set(f->config, "quantization_config", quantization) == 0, ERR_NOMEM,
         "out of memory for config.json");
    return OK;
}

static enum status begin(struct export_folder *f, const char *tokenizer, const char *path,
                         struct err *e)
{
    const enum packed_format format = f->form.layout.format;
    const struct checkpoint *c = f->checkpoint;
    PASS(model_parameters(c, &f->list, &f->n_list, e));
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const struct tensor_entry *t = checkpoint_tensor(c, i);
        const struct tensor_shape shape = folder_shape(t);
        if (is_copied(f, t->name)) PASS(plan_tensor(f, &shape, e));
    }
    f->copied = f->n;
    for (int64_t k = 0; k < f->n_list; k++)
        if (f->list[k].linear) PASS(plan_linear(f, k, e));
    PASS(set_config(f, e));
    const bool gptq = format == PACKED_GPTQ || format == PACKED_GPTQ_V2;
    const struct folder_plan plan = {
        .config = f->config,
        .f16 = gptq || format == PACKED_AWQ, /* the programs that load these compute in it */
        .quantize_config = gptq ? json_object_get(f->config, "quantization_config") : NULL,
        .n = f->n,
        .tensors = f->tensors,
        .source = checkpoint_dir(f->checkpoint),
        .tokenizer = tokenizer};
    PASS(folder_create(path, &plan, &f->out, e));
    for (int64_t i = 0; i < f->copied; i++)
        PASS(folder_copy_tensor(f->out, f->checkpoint, f->tensors[i].name, e));
    return OK;
}

enum status export_folder_create(const struct checkpoint *c, const char *tokenizer,
                                 const char *path, const struct export_form *form,
                                 struct export_folder **out, struct err *e)
{
    *out = NULL;
    NEED(packed_bitnet_linears(checkpoint_config(c)) == BITNET_NONE, ERR_USAGE,
         "%s: by quantization_config its linears are ternary, as which no other weights can be "
         "written",
         checkpoint_dir(c));
    PASS(mem_zero(out, 1, sizeof **out, path, e));
    (*out)->checkpoint = c;
    (*out)->form = *form;
    checkpoint_retain(c);
    return begin(*out, tokenizer, path, e);
}

/* --- linears --- */

/* Writes a norm or bias divided by `by` (NULL: as it is). */
static enum status write_divided(struct export_folder *f, const char *name, const float *by,
                                 struct err *e)
{
    const struct tensor_entry *t = checkpoint_find(f->checkpoint, name);
    AUTO_FREE float *data = NULL;
    PASS(mem_alloc(&data, t->n_elements, sizeof *data, name, e));
    PASS(checkpoint_read_range(f->checkpoint, t, 0, t->n_elements, data, e));
    for (int64_t i = 0; by && i < t->n_elements; i++) data[i] /= by[i];
    return folder_append(f->out, name, data, t->n_elements, e);
}

/* The numbers of a packed linear. */
struct packing {
    uint8_t *codes, *zeros;
    double *scales;
};

static void packing_free(struct packing *p)
{
    free(p->codes);
    free(p->zeros);
    free(p->scales);
}

static enum status packing_make(const struct export_folder *f, const struct linear *l,
                                const float *q, const struct quant_grids *g, struct packing *p,
                                struct err *e)
{
    const int64_t n = l->rows * g->groups;
    PASS(mem_alloc(&p->codes, l->rows * l->cols, 1, "codes", e));
    PASS(mem_alloc(&p->zeros, n, 1, "zeros", e));
    PASS(mem_alloc(&p->scales, n, sizeof *p->scales, "scales", e));
    for (int64_t i = 0; i < n; i++) {
        p->scales[i] = g->grid[2 * i];
        p->zeros[i] = (uint8_t)g->grid[2 * i + 1];
    }
    for (int64_t i = 0; i < l->rows; i++)
        PASS(quant_grids_codes(g, i, q + i * l->cols, l->cols, f->form.layout.bits,
                               p->codes + i * l->cols, e));
    return OK;
}

/* The place of the next linear in the list; n_list: none. */
static int64_t next_linear(const struct export_folder *f)
{
    int64_t k = f->linear;
    while (k < f->n_list && !f->list[k].linear) k++;
    return k;
}

enum status export_folder_linear(struct export_folder *f, const struct linear *l, const float *q,
                                 const struct quant_grids *grids, struct err *e)
{
    const int64_t k = next_linear(f);
    NEED(k < f->n_list && strcmp(f->list[k].name, l->name) == 0, ERR_SHAPE, "%s comes out of order",
         l->name);
    f->linear = k + 1;
    if (!is_packed(f)) return folder_append(f->out, l->name, q, l->rows * l->cols, e);
    NEED(grids, ERR_SHAPE, "%s comes without grids", l->name);
    if (f->form.folds && begins_stage(f, k))
        for (int64_t i = norm_after(f, k, k); i < f->n_list; i = norm_after(f, k, i))
            PASS(write_divided(f, f->list[i].name, grids->columns, e));
    struct packed_part parts[PACKED_PARTS];
    AUTO_FREE char *data = NULL, *name = NULL;
    CLEANUP(packing_free) struct packing p = {0};
    const int n = packed_parts(&f->form.layout, l->rows, l->cols, parts);
    if (!grids->codes) PASS(packing_make(f, l, q, grids, &p, e));
    const struct packed_source from = {
        l->rows,      l->cols,     grids->codes ? grids->codes : p.codes,
        p.zeros,      p.scales,    grids->group,
        grids->signs, grids->scale};
    for (int i = 0; i < n; i++) {
        free(data);
        free(name);
        data = name = NULL;
        PASS(mem_format(&name, e, "%.*s%s", (int)(strlen(l->name) - strlen(".weight")), l->name,
                        parts[i].ending));
        PASS(mem_alloc(&data, parts[i].n, dtype_size(parts[i].dtype), "a packed tensor", e));
        packed_fill(&f->form.layout, &parts[i], &from, data);
        PASS(folder_append(f->out, name, data, parts[i].n, e));
    }
    if (f->form.folds && has_bias(f, k))
        PASS(write_divided(f, f->list[k + 1].name, grids->rows, e));
    return OK;
}

/* --- the end --- */

bool export_folder_whole(const struct export_folder *f)
{
    return next_linear(f) == f->n_list;
}

enum status export_folder_commit(struct export_folder *f, const char *card, struct err *e)
{
    return folder_commit(f->out, card, e);
}

void export_folder_close(struct export_folder *f)
{
    if (!f) return;
    folder_close(f->out);
    for (int64_t i = 0; i < f->n_names; i++) free(f->names[i]);
    free(f->names);
    free(f->tensors);
    free(f->list);
    json_decref(f->config);
    checkpoint_close((struct checkpoint *)(uintptr_t)f->checkpoint);
    free(f);
}

/* --- its note --- */

static enum status name_of(const char *folder, char **name, struct err *e)
{
    return mem_format(name, e, "%s/qtraj.json", folder);
}

enum status export_note_write(const char *folder, const char *cell, const char *weights,
                              struct err *e)
{
    AUTO_FREE char *name = NULL;
    json_auto_t *note = NULL;
    CLEANUP(checkpoint_close_at) struct checkpoint *own = NULL;
    PASS(checkpoint_open(folder, &own, e));
    note = json_pack("{s:s, s:s, s:s}", "cell", cell, "weights", weights, "folder",
                     checkpoint_hash(own));
    PASS(name_of(folder, &name, e));
    return json_write_file(name, note, JSON_INDENT(1), e);
}

static bool says(const json_t *note, const char *name, const char *digest)
{
    return strcmp(json_text(note, name, ""), digest) == 0;
}

bool export_note_fits(const char *folder, const char *cell, const char *weights)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *own = NULL;
    json_auto_t *note = NULL;
    AUTO_FREE char *name = NULL;
    return name_of(folder, &name, NULL) == OK && fsx_is_file(name) &&
           json_read_file(name, 0, &note, NULL) == OK && says(note, "cell", cell) &&
           says(note, "weights", weights) && checkpoint_open(folder, &own, NULL) == OK &&
           says(note, "folder", checkpoint_hash(own));
}
