#include "config/tables.h"
#include "config/preset.h"
#include <math.h>

/* In the order of their enums. */
static const char *const orders[] = {"none", "activation", "group", NULL};
static const char *const scale_dtypes[] = {"f32", "f16", "f16-packed", NULL};
static const char *const last_resorts[] = {"none", "round", "floor", NULL};
static const char *const hessians[] = {"own", "shared", NULL};
static const char *const paddings[] = {"none", "counted", "masked", NULL};
static const char *const sorts[] = {"none", "length", NULL};
static const char *const activations[] = {"f32", "bf16", NULL};
static const char *const layouts[] = {"packed", "document", NULL};

#define TABLE(rows, type)                                                                          \
    .options = (rows), .n = sizeof(rows) / sizeof *(rows), .size = sizeof(struct type)

/* The same keys stand in an entry of `methods` and, for command line flags, alone. */
#define QUANT_KEYS(AT)                                                                             \
    {.name = "group_size",                                                                         \
     .doc = "columns that share one scale; -1: the whole row",                                     \
     .type = OPTION_INT,                                                                           \
     .offset = AT(group_size),                                                                     \
     .fallback = "128",                                                                            \
     .low = 1,                                                                                     \
     .high = INT64_MAX,                                                                            \
     .has_special = true,                                                                          \
     .special = -1},                                                                               \
        {.name = "symmetric",                                                                      \
         .doc = "range of a group centred on zero; false: from its least to its greatest weight",  \
         .type = OPTION_BOOL,                                                                      \
         .offset = AT(symmetric),                                                                  \
         .fallback = "true",                                                                       \
         .unset = "asymmetric"},                                                                   \
        {.name = "order",                                                                          \
         .doc = "columns are quantized as they stand (none), by falling diagonal of the Hessian "  \
                "(activation), or so inside each group and group by group (group)",                \
         .type = OPTION_CHOICE,                                                                    \
         .offset = AT(order),                                                                      \
         .fallback = "none",                                                                       \
         .choices = orders},                                                                       \
        {.name = "damping",                                                                        \
         .doc = "share of the mean of the Hessian's diagonal that is added to it",                 \
         .type = OPTION_REAL,                                                                      \
         .offset = AT(damping),                                                                    \
         .fallback = "0.01",                                                                       \
         .least = 0,                                                                               \
         .most = 1},                                                                               \
        {.name = "block_size",                                                                     \
         .doc = "columns quantized before the rest of the matrix is updated",                      \
         .type = OPTION_INT,                                                                       \
         .offset = AT(block_size),                                                                 \
         .fallback = "128",                                                                        \
         .low = 1,                                                                                 \
         .high = INT64_MAX},                                                                       \
        {.name = "true_sequential",                                                                \
         .doc = "each stage of a block sees the block's earlier stages quantized",                 \
         .type = OPTION_BOOL,                                                                      \
         .offset = AT(true_sequential),                                                            \
         .fallback = "true"},                                                                      \
        {.name = "static_groups",                                                                  \
         .doc = "scales of all groups from the original weights, before the sweep",                \
         .type = OPTION_BOOL,                                                                      \
         .offset = AT(static_groups),                                                              \
         .fallback = "false"},                                                                     \
        {.name = "damping_increment",                                                              \
         .doc = "step by which damping is raised where the Hessian cannot be factored; 0: ten "    \
                "times, at most thrice",                                                           \
         .type = OPTION_REAL,                                                                      \
         .offset = AT(damping_increment),                                                          \
         .fallback = "0",                                                                          \
         .least = 0,                                                                               \
         .most = 1},                                                                               \
        {.name = "range_search",                                                                   \
         .doc = "exponent of the error that the search of a smaller range makes least (GPTQ's "    \
                "mse: 2.4); 0: no search",                                                         \
         .type = OPTION_REAL,                                                                      \
         .offset = AT(range_search),                                                               \
         .fallback = "0",                                                                          \
         .least = 0,                                                                               \
         .most = 16},                                                                              \
        {.name = "hessian_per_token",                                                              \
         .doc = "the Hessian is a mean over tokens instead of sequences; tells only where input "  \
                "channels are dead",                                                               \
         .type = OPTION_BOOL,                                                                      \
         .offset = AT(hessian_per_token),                                                          \
         .fallback = "false"},                                                                     \
        {.name = "scale_dtype",                                                                    \
         .doc = "what the scales are stored as: the weights are code times stored scale, the "     \
                "codes come from the scale in f32; f16-packed: later layers are calibrated on "    \
                "weights whose scales are not rounded yet, as GPTQModel rounds when it packs",     \
         .type = OPTION_CHOICE,                                                                    \
         .offset = AT(scale_dtype),                                                                \
         .fallback = "f32",                                                                        \
         .choices = scale_dtypes},                                                                 \
        {.name = "last_resort",                                                                    \
         .doc = "where no damping lets the Hessian be factored: the cell fails (none), the layer " \
                "is rounded to nearest (round), or first a floor of 1e-6 to 0.1 of its greatest "  \
                "entry is put under the diagonal (floor)",                                         \
         .type = OPTION_CHOICE,                                                                    \
         .offset = AT(last_resort),                                                                \
         .fallback = "none",                                                                       \
         .choices = last_resorts},                                                                 \
    {                                                                                              \
        .name = "hessian",                                                                         \
        .doc = "of the inputs that the variant's own quantized layers give (own), or of the "      \
               "full-precision model's, one for all variants of a checkpoint (shared)",            \
        .type = OPTION_CHOICE, .offset = AT(hessian), .fallback = "own", .choices = hessians       \
    }

#define IN_QUANT(key)  offsetof(struct quant_options, key)
#define IN_METHOD(key) offsetof(struct method_entry, options.key)

static const struct option quant_keys[] = {QUANT_KEYS(IN_QUANT)};
const struct option_table quant_table = {TABLE(quant_keys, quant_options)};

static const struct option method_keys[] = {
    {.name = "name",
     .doc = "label on the cube's quantizer axis, each only once",
     .type = OPTION_TEXT,
     .offset = offsetof(struct method_entry, name),
     .otherwise = "the method"},
    {.name = "method",
     .doc = "a name that `qtraj methods` lists",
     .type = OPTION_TEXT,
     .offset = offsetof(struct method_entry, method),
     .required = true},
    {.name = "preset",
     .doc = "defaults of this method's options by a published protocol (listed below)",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct method_entry, preset),
     .fallback = "none",
     .otherwise = "the sweep's",
     .choices = preset_names,
     .file_only = true},
    {.name = "bits",
     .doc = "widths of this method alone",
     .type = OPTION_INTS,
     .offset = offsetof(struct method_entry, bits),
     .count = offsetof(struct method_entry, n_bits),
     .capacity = QUANT_BITS_N,
     .otherwise = "the sweep's",
     .low = QUANT_BITS_MIN,
     .high = QUANT_BITS_MAX},
    QUANT_KEYS(IN_METHOD),
};
const struct option_table method_table = {TABLE(method_keys, method_entry), .begin = method_begin,
                                          .finish = method_finish};

static const struct option data_keys[] = {
    {.name = "name",
     .doc = "label on the cube's dataset axis, each only once",
     .type = OPTION_TEXT,
     .offset = offsetof(struct data_options, name),
     .otherwise = "the file's name without its extension"},
    {.name = "text",
     .doc = "text to tokenize: plain (one document a file) or JSON lines, gzip or zstd of either; "
            "several files in a list, or by patterns such as part-*.jsonl",
     .type = OPTION_PATHS,
     .offset = offsetof(struct data_options, text),
     .otherwise = "none, ids are given instead"},
    {.name = "field",
     .doc = "field of a JSON line that holds the text",
     .type = OPTION_TEXT,
     .offset = offsetof(struct data_options, field),
     .otherwise = "the file is plain text"},
    {.name = "ids",
     .doc = "FILE.safetensors:KEY, an integer tensor (sequences, length) of token ids",
     .type = OPTION_PATH,
     .offset = offsetof(struct data_options, ids),
     .otherwise = "none, text is given instead"},
    {.name = "layout",
     .doc = "all documents in a row, cut into blocks of `length` (packed), or a sequence each, cut "
            "at `length` (document)",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct data_options, layout),
     .fallback = "packed",
     .choices = layouts},
    {.name = "length",
     .doc = "tokens of a sequence; none: documents are not cut",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, length),
     .fallback = "2048",
     .low = 2,
     .high = 1 << 24,
     .has_special = true,
     .special = 0,
     .word = "none"},
    {.name = "special_tokens",
     .doc = "each document gets the tokens that the tokenizer's post-processor adds (BOS)",
     .type = OPTION_BOOL,
     .offset = offsetof(struct data_options, special_tokens),
     .fallback = "false"},
    {.name = "separator",
     .doc = "token put behind each packed document: its text, or eos for the model's own",
     .type = OPTION_TEXT,
     .offset = offsetof(struct data_options, separator),
     .otherwise = "none"},
    {.name = "documents",
     .doc = "documents read at most; 0: all",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, documents),
     .fallback = "0",
     .low = 0,
     .high = INT64_MAX},
    {.name = "min_length",
     .doc = "documents of fewer tokens, added ones included, and rows of ids, are left out",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, min_length),
     .fallback = "0",
     .low = 0,
     .high = INT64_MAX},
    {.name = "skip",
     .doc = "sequences left out at the start",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, skip),
     .fallback = "0",
     .low = 0,
     .high = INT64_MAX},
    {.name = "samples",
     .doc = "sequences at most; 0: all",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, samples),
     .fallback = "0",
     .low = 0,
     .high = INT64_MAX},
    {.name = "tokens",
     .doc = "tokens at most, in whole sequences; 0: all",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, tokens),
     .fallback = "0",
     .low = 0,
     .high = INT64_MAX},
    {.name = "cut",
     .doc = "tokens that are used of each sequence, its first ones, when all that is above has "
            "chosen the sequences; none: all",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, cut),
     .fallback = "none",
     .low = 2,
     .high = 1 << 24,
     .has_special = true,
     .special = 0,
     .word = "none"},
    {.name = "within_positions",
     .doc = "sequences are cut at the model's max_position_embeddings too",
     .type = OPTION_BOOL,
     .offset = offsetof(struct data_options, within_positions),
     .fallback = "false"},
    {.name = "follow",
     .doc = "tokens that must come behind a packed block, or it is dropped",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, follow),
     .fallback = "0",
     .low = 0,
     .high = 1 << 24},
    {.name = "sort",
     .doc = "order of the sequences that are kept: as they come (none), longest first (length)",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct data_options, sort),
     .fallback = "none",
     .choices = sorts},
    {.name = "batch",
     .doc = "calibration sequences that are padded together",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, batch),
     .fallback = "1",
     .low = 1,
     .high = INT64_MAX},
    {.name = "padding",
     .doc = "calibration sequences shorter than the longest of their batch are filled up on the "
            "right, and that counts in the Hessian (counted) or not (masked, the same as none)",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct data_options, padding),
     .fallback = "none",
     .choices = paddings},
    {.name = "pad_id",
     .doc = "token that they are filled with; auto: as config.json and the tokenizer's files say",
     .type = OPTION_INT,
     .offset = offsetof(struct data_options, pad_id),
     .fallback = "auto",
     .low = 0,
     .high = INT32_MAX,
     .has_special = true,
     .special = -1,
     .word = "auto"},
    {.name = "preset",
     .doc = "defaults of these keys by a published protocol (listed below)",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct data_options, preset),
     .fallback = "none",
     .otherwise = "the sweep's",
     .choices = preset_names,
     .file_only = true},
};
const struct option_table data_table = {TABLE(data_keys, data_options), .begin = data_begin,
                                        .finish = data_finish};

static const struct option model_keys[] = {
    {.name = "name",
     .doc = "label on the cube's model axis, each only once",
     .type = OPTION_TEXT,
     .offset = offsetof(struct model_entry, name),
     .required = true},
    {.name = "trajectory",
     .doc = "CSV table of the checkpoints in training order",
     .type = OPTION_PATH,
     .offset = offsetof(struct model_entry, trajectory),
     .required = true},
    {.name = "path",
     .doc = "Hugging Face folder of a checkpoint; {checkpoint} stands for its name in the table",
     .type = OPTION_PATH,
     .offset = offsetof(struct model_entry, path),
     .required = true},
    {.name = "tokenizer",
     .doc = "tokenizer.json of all checkpoints",
     .type = OPTION_PATH,
     .offset = offsetof(struct model_entry, tokenizer),
     .otherwise = "tokenizer.json of each checkpoint's folder"},
};
const struct option_table model_table = {TABLE(model_keys, model_entry), .finish = model_finish,
                                         .release = model_release};

static const struct option row_columns[] = {
    {.name = "checkpoint",
     .doc = "name of the checkpoint, each only once",
     .type = OPTION_TEXT,
     .offset = offsetof(struct trajectory_row, checkpoint),
     .required = true},
    {.name = "step",
     .doc = "optimizer steps done",
     .type = OPTION_INT,
     .offset = offsetof(struct trajectory_row, step),
     .fallback = "-1",
     .otherwise = "unknown",
     .low = 0,
     .high = INT64_MAX},
    {.name = "tokens",
     .doc = "training tokens seen",
     .type = OPTION_REAL,
     .offset = offsetof(struct trajectory_row, tokens),
     .fallback = "nan",
     .otherwise = "unknown",
     .least = 0,
     .most = INFINITY},
    {.name = "learning_rate",
     .doc = "learning rate at that step",
     .type = OPTION_REAL,
     .offset = offsetof(struct trajectory_row, learning_rate),
     .fallback = "nan",
     .otherwise = "unknown",
     .least = 0,
     .most = INFINITY},
    {.name = "phase",
     .doc = "part of the schedule: warmup, stable, decay, ...",
     .type = OPTION_TEXT,
     .offset = offsetof(struct trajectory_row, phase),
     .otherwise = "unknown"},
};
const struct option_table row_table = {TABLE(row_columns, trajectory_row)};

static const struct option run_keys[] = {
    {.name = "ranks_per_group",
     .doc = "MPI ranks that work on one checkpoint together; auto: as few as its memory allows",
     .type = OPTION_INT,
     .offset = offsetof(struct run_options, ranks_per_group),
     .fallback = "auto",
     .low = 1,
     .high = 1 << 20,
     .has_special = true,
     .special = 0,
     .word = "auto"},
    {.name = "threads",
     .doc = "OpenMP threads of a rank",
     .type = OPTION_INT,
     .offset = offsetof(struct run_options, threads),
     .fallback = "auto",
     .low = 1,
     .high = 512,
     .has_special = true,
     .special = 0,
     .word = "auto"},
    {.name = "memory_per_rank",
     .doc = "bytes that a rank may take at its peak, with K, M, G or T for powers of 1024: what "
            "does not fit is computed twice, goes to scratch, or waits for another wave",
     .type = OPTION_TEXT,
     .offset = offsetof(struct run_options, memory_per_rank),
     .otherwise = "auto: nine tenths of the rank's part of its node"},
    {.name = "scratch",
     .doc = "folder on the node's own disk for hidden states that memory_per_rank has no room for, "
            "or off",
     .type = OPTION_TEXT,
     .offset = offsetof(struct run_options, scratch),
     .otherwise = "auto: SLURM_TMPDIR, TMPDIR, /tmp or /var/tmp, the first that is a disk"},
    {.name = "activations",
     .doc = "what hidden states are held as between blocks; bf16 halves them and changes results",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct run_options, activations),
     .fallback = "f32",
     .choices = activations},
    {.name = "scalapack_from",
     .doc =
         "Hessians of so many input channels on are spread over the ranks of a group and factored "
         "together; smaller ones by one rank each",
     .type = OPTION_INT,
     .offset = offsetof(struct run_options, scalapack_from),
     .fallback = "4096",
     .low = 1,
     .high = INT64_MAX},
    {.name = "reproducible",
     .doc = "the same results bit for bit for any number of ranks_per_group: sums are made exact, "
            "and one rank factors a Hessian whatever its size",
     .type = OPTION_BOOL,
     .offset = offsetof(struct run_options, reproducible),
     .fallback = "false"},
};
const struct option_table run_table = {TABLE(run_keys, run_options), .finish = run_finish};

enum { ENTRIES_MAX = 10000 };

static const struct option sweep_keys[] = {
    {.name = "name",
     .doc = "name of the sweep",
     .type = OPTION_TEXT,
     .offset = offsetof(struct sweep, name),
     .required = true},
    {.name = "results",
     .doc = "the results cube (HDF5); its journal lies beside it",
     .type = OPTION_PATH,
     .offset = offsetof(struct sweep, results),
     .required = true},
    {.name = "preset",
     .doc = "a published protocol: defaults of methods, calibration and evaluation (listed below)",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct sweep, preset),
     .fallback = "none",
     .choices = preset_names},
    {.name = "seed",
     .doc = "seed of everything random",
     .type = OPTION_INT,
     .offset = offsetof(struct sweep, seed),
     .fallback = "0",
     .low = 0,
     .high = INT64_MAX},
    {.name = "models",
     .doc = "the training runs",
     .type = OPTION_LIST,
     .offset = offsetof(struct sweep, models),
     .count = offsetof(struct sweep, n_models),
     .required = true,
     .low = 1,
     .high = ENTRIES_MAX,
     .table = &model_table},
    {.name = "bits",
     .doc = "bit-widths that every method without its own is run at",
     .type = OPTION_INTS,
     .offset = offsetof(struct sweep, bits),
     .count = offsetof(struct sweep, n_bits),
     .capacity = QUANT_BITS_N,
     .otherwise = "each method has its own",
     .low = QUANT_BITS_MIN,
     .high = QUANT_BITS_MAX},
    {.name = "methods",
     .doc = "the quantizers",
     .type = OPTION_LIST,
     .offset = offsetof(struct sweep, methods),
     .count = offsetof(struct sweep, n_methods),
     .required = true,
     .low = 1,
     .high = ENTRIES_MAX,
     .table = &method_table},
    {.name = "calibration",
     .doc = "text that methods with a Hessian are calibrated on",
     .type = OPTION_GROUP,
     .offset = offsetof(struct sweep, calibration),
     .otherwise = "none, if no method needs it",
     .table = &data_table},
    {.name = "evaluation",
     .doc = "texts that losses are measured on",
     .type = OPTION_LIST,
     .offset = offsetof(struct sweep, evaluations),
     .count = offsetof(struct sweep, n_evaluations),
     .required = true,
     .low = 1,
     .high = ENTRIES_MAX,
     .table = &data_table},
    {.name = "curvature",
     .doc =
         "sharpness, trace and spectrum of the full-precision loss's Hessian, at each checkpoint",
     .type = OPTION_GROUP,
     .offset = offsetof(struct sweep, curvature),
     .otherwise = "none",
     .table = &curvature_section_table},
    {.name = "surfaces",
     .doc = "planes through weight space on which the loss is measured",
     .type = OPTION_LIST,
     .offset = offsetof(struct sweep, surfaces),
     .count = offsetof(struct sweep, n_surfaces),
     .otherwise = "none",
     .high = ENTRIES_MAX,
     .table = &surface_table},
    {.name = "run",
     .doc = "how the work is spread",
     .type = OPTION_GROUP,
     .offset = offsetof(struct sweep, run),
     .table = &run_table},
};
const struct option_table sweep_table = {TABLE(sweep_keys, sweep), .finish = sweep_finish};
