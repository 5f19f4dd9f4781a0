/* sweep: the sweep file (YAML) as plain structs.
 *
 * Every key is a line of an options table (options.h), from which come parsing, checks, defaults,
 * copies, help, `qtraj options`, command line flags and the JSON form: options_free(&data_table, d)
 * frees what struct data_options *d owns. Paths in the structs are resolved (relative to the sweep
 * file, ${VAR} expanded).
 */
#pragma once
#include "activation/activation.h"
#include "quant/quant_options.h"
#include "records/measures.h"

/* Published protocols (preset.h): X(ID, name, what it is). */
#define PRESETS(X)                                                                                 \
    X(NONE, "none", "nothing is fixed")                                                            \
    X(GPTQ_REFERENCE, "gptq-reference", "the reference implementation with its own defaults")      \
    X(GPTQMODEL_4, "gptqmodel-4",                                                                  \
      "GPTQModel 4.0 to 4.2.5 as arXiv 2510.06213 runs it: padding counts")                        \
    X(GPTQMODEL_5, "gptqmodel-5",                                                                  \
      "GPTQModel 5 run the same way: padding masked, group-aware order")                           \
    X(TRANSFORMERS_GPTQ, "transformers-gptq",                                                      \
      "GPTQ of transformers in 2024, as the names of arXiv 2411.17691's checkpoints say")          \
    X(LLM_COMPRESSOR_AWQ, "llm-compressor-awq",                                                    \
      "llm-compressor's example of AWQ: 256 documents, 512 tokens of each")                        \
    X(W4A8, "W4A8", "weights at 4 bits, inputs of linears at 8, a range for each token")           \
    X(W4A4, "W4A4", "weights and inputs at 4 bits, these with QuaRot's clipping")                  \
    X(W8A8, "W8A8", "weights and inputs at 8 bits")                                                \
    X(W16A16KV4, "W16A16KV4",                                                                      \
      "keys and values at 4 bits as in QuaRot; with method none weights stay")
#define PRESET_ID(id, name, doc) PRESET_##id,
enum preset { PRESETS(PRESET_ID) PRESET_N };

struct method_entry {
    char *name;   /* label on the cube's quantizer axis; by default the method's own */
    char *method; /* name in the table of methods, or "stored" */
    char *path;   /* stored: the quantized checkpoint, with {model}, {checkpoint} and {step}; else
                     NULL */
    int preset;   /* enum preset that its options started from */
    int64_t n_bits;
    int64_t bits[QUANT_BITS_N]; /* those of the entry, or the sweep's */
    int64_t replicates; /* runs with different calibration sequences, the usual ones included */
    struct quant_options options;
    struct activation_grids grids; /* of what the model computes */
    char *rotation; /* places of a rotated model, one a line, in the order of their names; NULL:
                       none */
    int64_t rotation_seed;
    int64_t rotation_steps, rotation_sequences; /* of learning R1 and R2 */
    double rotation_rate;
};
enum { REPLICATES_MAX = 32 };

/* How documents become sequences. */
enum text_layout {
    LAYOUT_PACKED, /* all documents' ids concatenated, cut into blocks of length, last partial block
                      dropped */
    LAYOUT_DOCUMENT /* one sequence per document, cut at `length` if that is set */
};

/* How calibration sequences of unequal length are padded. */
enum text_padding {
    PADDING_NONE,    /* no padding */
    PADDING_COUNTED, /* padded to the longest of the batch; padding counts in Hessians and in
                        numbers of tokens */
    PADDING_MASKED   /* padded, but padding does not count; the same results as none, because real
                        tokens never attend to later ones */
};
enum text_sort { SORT_NONE, SORT_LENGTH };

/* Values of `length` beside a number of tokens. */
enum {
    LENGTH_WHOLE = 0, /* sequences are not cut (documents, ids) */
    LENGTH_AUTO = -1  /* LENGTH_USUAL, or the model's positions if it has fewer */
};
enum { LENGTH_USUAL = 2048 };

/* A source of token sequences: calibration, or one evaluation dataset. */
struct data_options {
    char *name;  /* label on the cube's dataset axis (evaluation) */
    char *text;  /* files or patterns such as part-*.jsonl, one per line: plain text (one document
                    per file) or JSONL; NULL if ids is set */
    char *field; /* JSONL field that holds the text; NULL: plain text */
    char
        *ids; /* FILE.safetensors:KEY, an integer tensor (sequences, length); NULL if text is set */
    int layout;          /* enum text_layout */
    int64_t length;      /* tokens of a sequence, or LENGTH_WHOLE, LENGTH_AUTO */
    bool special_tokens; /* add the tokens of the tokenizer's post-processor to each document */
    char *separator;     /* packed: token after each document, by its text, or "eos"; NULL: none */
    int64_t documents;   /* maximum number of documents read; 0: all */
    int64_t bytes;       /* the same of bytes, where the last document is cut; 0: all */
    int64_t draw;        /* seed of a random order of the documents; 0: the text's */
    int64_t min_length;  /* documents with fewer tokens, added ones included, are skipped */
    int64_t skip;        /* sequences skipped at the start */
    int64_t samples;     /* sequences at most; 0: all */
    int64_t tokens;      /* maximum number of tokens (whole sequences); 0: all */
    int64_t cut;         /* tokens used of each sequence, the first ones; 0: all */
    bool within_positions; /* cut at the model's max_position_embeddings too */
    int64_t follow;        /* packed: tokens that must follow a block; otherwise it is dropped */
    int sort;              /* enum text_sort */
    int64_t batch;         /* sequences that are padded together */
    int padding;           /* enum text_padding */
    int64_t pad_id;        /* padding token; -1: the tokenizer's */
    int preset;            /* enum preset whose defaults were used */
};

/* A stored checkpoint of the sweep in an average. */
struct average_member {
    int64_t model, row; /* in sweep.models and its rows */
    double weight;
};

/* One row of a trajectory table, or an average of such rows (averages_resolve). */
struct trajectory_row {
    char *checkpoint;
    int64_t step;         /* -1: not given */
    double tokens;        /* NaN: not given */
    double learning_rate; /* NaN: not given */
    char *phase;          /* "" if not given */
    int64_t line;         /* of the table, from 1; 0: an average */
    int64_t average;      /* number of the entry of `averages` that it is of, from 1; 0: stored */
    int64_t n_members;
    struct average_member *members; // (n_members) of an average, the last one last
};

/* A column of a trajectory table that the program does not know: it becomes a variable of the cube.
 */
struct trajectory_column {
    char *name;
    int64_t line, field; /* of the header, from 1 */
    int64_t n;
    char **values; // (n), one a row; "" where empty
};

enum { AVERAGE_WEIGHTS_MAX = 64 };
enum average_dtype { AVERAGE_MEMBERS, AVERAGE_F32 };
enum average_imitates { IMITATES_NONE, IMITATES_LINEAR, IMITATES_ONE_MINUS_SQRT, IMITATES_COSINE };

/* How the members of a greedy soup are chosen. */
struct greedy_options {
    struct data_options text; /* by the loss on it; neither text nor ids: all are kept */
    char *judge;              /* of weights quantized so: a name among `methods`, else a method;
                                 NULL: in full precision */
    int64_t bits;             /* to which `judge` quantizes */
};

/* An entry of `averages`: averages of a model's checkpoints, which exist nowhere on disk. One of
 * window, decay (with or without a window), of and greedy (with or without `of`) says which kind it
 * is. */
struct average_entry {
    char *name;
    int64_t window; /* checkpoints in each average; 0: not given */
    double decay;   /* of the weights, from one checkpoint to the one before; 0: none */
    int imitates;   /* enum average_imitates: the decay over the window that its weights imitate */
    char *of;       /* names of members, one a line; NULL: not given */
    int64_t n_weights;
    double weights[AVERAGE_WEIGHTS_MAX]; // (n_weights) of the names
    char *phase;                         /* only checkpoints of this phase; NULL: all */
    int64_t stride; /* checkpoints from one average to the next; 0: only the last average */
    int dtype;      /* enum average_dtype */
    struct greedy_options greedy; /* soup: keeps only members that do not make a loss larger */
    bool evaluated; /* its text may share sequences with those that are evaluated on */
};

struct model_entry {
    char *name;
    char *branch_of;  /* the model that it branches from; NULL: none */
    char *trajectory; /* CSV: checkpoint, step, tokens, learning_rate, phase and others */
    char *path;       /* a Hugging Face folder, with {checkpoint} */
    char *tokenizer;  /* NULL: tokenizer.json of each checkpoint folder */
    char *stage;      /* the command that fetches a checkpoint, one argument a line; NULL: none */
    char *hub;        /* the repository that {hub} in it stands for; NULL: none */
    bool keep;        /* what it has fetched stays */
    int64_t n_averages;
    struct average_entry *averages;
    int64_t n_rows, n_stored; /* all; those of the table, which come first */
    struct trajectory_row *rows;
    int64_t n_columns;
    struct trajectory_column *columns;
};

/* The type of hidden states between blocks. */
enum activations { ACTIVATIONS_F32, ACTIVATIONS_BF16 };

/* The type to which forward passes round the result of every operation (model_set_rounding). */
enum rounding { ROUNDING_F32, ROUNDING_BF16 };
/* "f32", "bf16"; NULL after the last. */
extern const char *const rounding_words[];

struct run_options {
    int64_t ranks_per_group; /* 0: auto */
    int64_t threads;         /* OpenMP threads per rank; 0: auto */
    char *memory_per_rank;   /* "24G"; NULL: auto */
    int64_t memory;          /* the same in bytes; 0: auto */
    char *scratch;           /* a folder, or "off"; NULL: auto */
    char *checkpoints; /* folder of the saved states of visits, or "off"; NULL: next to the results.
                          In a visit: its folder, NULL: none */
    int activations;   /* enum activations */
    int products;      /* enum products */
    int rounding;      /* enum rounding */
    int64_t scalapack_from; /* minimum channels of a distributed Hessian */
    bool reproducible;      /* the same bits for any group size */
    char *stage_space;      /* "400G", disk space of what `stage` fetches; NULL: no limit */
    int64_t stage_bytes;    /* the same in bytes; 0: no limit */
    int64_t stage_tries;    /* of a checkpoint's command */
    double stage_pause;     /* seconds before the second try; doubles with each further one */
    bool stage_commands;    /* false: a run waits for what `qtraj stage` fetches */
};

enum { SWEEP_ENTRIES_MAX = 10000 }; /* of a list */

struct sweep {
    char *name;
    char *results; /* the cube; the journal is next to it */
    int preset;    /* enum preset of entries that name none */
    int64_t seed;
    char *stage; /* of every model that has none of its own (spread over them); NULL: none */
    int64_t n_models;
    struct model_entry *models;
    int64_t n_bits;
    int64_t bits[QUANT_BITS_N];
    int64_t n_methods;
    struct method_entry *methods;
    struct data_options calibration;
    int64_t n_evaluations;
    struct data_options *evaluations;
    char *count_tokens; /* tokenizer.json, or a folder with one, by which the evaluation texts'
                           tokens are counted too; NULL: none */
    void *sections[MEASURES_N]; /* the keys of measures */
    struct run_options run;
    json_t *paths; /* where the file names them: option_source; NULL: not read from a file */
    char *lacks;   /* the folder of results that --set has named and nobody makes; NULL: none */
};

/* Reads and checks a sweep file, its trajectories included. overrides: n strings "key=value" or
 * "a.b[0].c=value". ERR_USAGE / ERR_IO with file, line, column, the key's full name, what was
 * expected and the nearest known key. */
MUST_USE enum status sweep_read(const char *path, const char *const *overrides, int64_t n,
                                struct sweep *out, struct err *e);
/* The same of a sweep whose checkpoints are still being made: of each trajectory the rows before
 * the first that is not whole, which may be none of a table that does not exist yet. Models without
 * rows, their branches, and averages whose members are not there are left out. Without any model
 * *out has no more than its other keys. whole: whether a row's checkpoint is there, with a
 * tokenizer.json of its own if the model has none and texts are tokenized. */
struct sweep_so_far {
    bool (*whole)(const struct model_entry *m, int64_t row, bool texts);
    bool texts; /* set while reading */
};
MUST_USE enum status sweep_read_so_far(const char *path, const char *const *overrides, int64_t n,
                                       struct sweep_so_far *how, struct sweep *out, struct err *e);
void sweep_free(struct sweep *s);

/* Sets s->lacks: a folder that is not there, and would be made neither in `folder`, that of the
 * sweep file, nor in the current one. ERR_NOMEM. */
MUST_USE enum status sweep_find_lacks(struct sweep *s, const char *folder,
                                      const char *const *overrides, int64_t n, struct err *e);
/* ERR_USAGE: s->lacks one. */
MUST_USE enum status sweep_check_results(const struct sweep *s, struct err *e);

/* Adds " (FILE:LINE:COLUMN: KEY)" and the remedy to a message of so many bytes, cut at `most`, that
 * names a path of the sweep file, or its beginning. */
void sweep_add_place(const struct sweep *s, char *message, size_t size, size_t most,
                     const char *remedy);

/* The resolved sweep without rows of trajectories, as stored in the cube (a new reference or NULL).
 */
json_t *sweep_to_json(const struct sweep *s);

/* The tables of the structs above. */
extern const struct option_table sweep_table, model_table, average_table, method_table, data_table,
    run_table;
/* The keys of data_table that concern a text that one command scores: no label, no padding. */
extern const struct option_table data_scored_table;
/* Those of a text that one command calibrates on: no label. */
extern const struct option_table data_calibration_table;
/* The same with checks between the keys: a section for a text that is scored and has no label. */
extern const struct option_table data_heldout_table;
extern const struct option_table row_table; /* columns of a trajectory */

/* The JSON form of entries that are sent to workers and are part of cell keys: as options_to_json
 * and options_from_json, but without the options of other methods; data without text and ids (no
 * calibration) is a JSON null. */
json_t *method_entry_to_json(const struct method_entry *m);
/* Of that what is quantized of what the model computes, and in which basis. A new reference; NULL:
 * nothing. */
json_t *method_grids_to_json(const struct method_entry *m);
/* Where the model is rotated: a set of ROTATE_* (activation/activation.h), those of its activations
 * included. */
unsigned method_entry_places(const struct method_entry *m);
/* As quant_check_weights; ERR_USAGE too if the entry quantizes what the model computes or rotates
 * it. */
MUST_USE enum status method_entry_check_weights(const struct method_entry *m, const char *what,
                                                struct err *e);
json_t *data_options_to_json(const struct data_options *d);
/* Whether members of the average are chosen by the loss on a text. */
bool average_is_greedy(const struct average_entry *a);
/* *out (options_free(&method_table)) = the method that judges them: the entry of `methods` of that
 * name, else the method with the sweep's preset; zero in full precision. ERR_USAGE: neither is
 * there; ERR_NOMEM. */
MUST_USE enum status average_judge(const struct sweep *s, const struct average_entry *a,
                                   struct method_entry *out, struct err *e);
/* Whether the judge of an average calibrates. */
bool averages_calibrate(const struct sweep *s);
/* Appends the averages that `averages` ask for to the rows of their models: names ENTRY@CHECKPOINT
 * for those that slide, ENTRY for a soup, whose members are all candidates if it is greedy; step,
 * tokens, learning rate and phase of the last member. scope: of the sweep. ERR_USAGE: a name that
 * is unknown or there twice, too few checkpoints. */
MUST_USE enum status averages_resolve(struct sweep *s, const struct option_scope *scope,
                                      struct err *e);
/* The weight of member i of n, the oldest being 0: 1 if decay is 0, else that in the moving average
 * that starts with the oldest, w = decay w + (1 - decay) next. */
double average_weight(double decay, int64_t i, int64_t n);
/* The weight of the checkpoint at `at` in an average that imitates a decay from 0 to 1, where the
 * checkpoints at 0 <= before <= at <= after <= 1 follow each other (docs/math/training.md); all sum
 * to 1. shape: an enum average_imitates that is not NONE. Pure. */
double average_imitating(int shape, double before, double at, double after);
/* The row of m's table whose columns a row of m has: that of an average's last member; -1: it is
 * another model's. */
int64_t trajectory_table_row(const struct sweep *s, int64_t model, int64_t row);
/* Whether the row before is what a row comes after in training: the checkpoint before a stored one,
 * the average before of the same entry. */
bool trajectory_follows(const struct model_entry *m, int64_t row);
/* *out (a new reference) = the command that fetches a stored row of m into a folder, a list of
 * texts. ERR_NOMEM. */
MUST_USE enum status stage_command(const struct model_entry *m, int64_t row, const char *folder,
                                   json_t **out, struct err *e);
/* Resolves the program of `stage` against the sweep file, and checks `stage` and `keep` of a model.
 * ERR_USAGE: a placeholder is unknown or missing, a key that `stage` needs. ERR_NOMEM. */
MUST_USE enum status stage_resolve(struct model_entry *m, const struct option_scope *scope,
                                   struct err *e);
/* ERR_USAGE: two entries of the list have one name. entries: n structs of `size` bytes that begin
 * with their name. scope: of the sweep. */
MUST_USE enum status sweep_check_names(const struct option_scope *scope, const char *list,
                                       const void *entries, int64_t n, size_t size, struct err *e);

/* Whether packed text is cut into blocks of equal length, so that no token is left out. */
bool data_options_even(const struct data_options *d);
/* The length in tokens for a model with this many positions (0: unknown): never LENGTH_AUTO. */
int64_t data_options_length(const struct data_options *d, int64_t positions);

/* Call after all flags ("--PREFIXtext FILE", ...; prefix: "calibration-" or ""): checks that
 * exactly one of text and ids is set; sets the name. ERR_USAGE. */
MUST_USE enum status data_options_finish(struct data_options *d, const char *prefix, struct err *e);

/* Prints what `qtraj options` says: every key, its type, default, range and meaning. */
void sweep_print_options(FILE *out);
/* The same as JSON, a list with an object for each key; columns of a trajectory are named
 * "models[].trajectory[].step". A new reference; see options_describe_keys. */
json_t *sweep_options_json(void);
