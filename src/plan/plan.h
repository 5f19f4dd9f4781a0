/* plan: the cells that a sweep file requests, their keys, and the visits that compute the missing
 * ones. Nothing here is collective.
 *
 * A cell's key is a digest of its resolved settings and inputs, so that a larger sweep reuses the
 * results of a smaller one: the names of model and checkpoint, the tokenizer; for a variant the
 * method, its bits, the options that concern it and, if it calibrates, the calibration text; for
 * curvature and gradient their options, text and seed; for movement the checkpoint before and the
 * options of the grid; for an accuracy the task, its examples, limit and data. Evaluation texts and
 * how they are cut are in no key: records name those that they were scored on by their digests
 * (records/scores.h). Labels are not included. Weights are not included either, because they may
 * not be on disk yet: a run compares their digest with the recorded one and recomputes a changed
 * checkpoint. A text that has grown behind what is read of it, and a renamed model or average, keep
 * the keys that they had (plan_grown.c, plan_names.c). */
#pragma once
#include "config/sweep.h"
#include "engine/visit.h"
#include "memory/cost.h"
#include "memory/memory.h"
#include "records/rows.h"
#include "util/err.h"
#include "util/faults.h"
#include "util/texts.h"
#include <stdio.h>

struct plan_variant {
    const struct method_entry *method; /* borrowed from the sweep */
    int64_t quantizer;                 /* index of its label */
    int64_t bits;
    bool applicable;    /* the method supports this bit-width and the sweep requests it */
    int64_t replicates; /* with different calibration sequences, itself included */
    char key[HASH_HEX]; /* of models whose positions do not shorten the calibration */
};

/* What differs between the models of a sweep because lengths may depend on their positions
 * (docs/decisions/0019-default-length.md). */
struct plan_lengths {
    char *known;                    /* its name in keys (plan_names.c); NULL: not found yet */
    char **rows;                    // (stored rows) theirs (plan_names.c); NULL: their labels
    int64_t positions;              /* from one config.json as in struct plan_model; 0: unknown */
    char (*variant_keys)[HASH_HEX]; /* (n_variants) where they differ from the plan's; or NULL */
    char (*texts)[HASH_HEX];        /* (evaluations) digests, by which records name the texts */
};

/* What the sweep asks of each cell or checkpoint besides the records of struct measure.key. */
struct plan_record_of {
    int of_cell, of_checkpoint; /* measures that have it; -1: none */
    char *label;                /* as in wanted.h */
    char key[HASH_HEX];         /* digest of what the records' keys hash besides their cells */
};

struct plan_checkpoint {
    int64_t model, row;
    struct weights weights;
    char *recipe; /* of the weights, as keys hash it; "": stored */
    char *known;  /* its name in keys, if that is not its label; else NULL */
    char key[HASH_HEX];
    char keys[MEASURES_N][HASH_HEX]; /* of its records of measures that have one of each checkpoint;
                                        digest of the settings of what completes records; "": not
                                        requested */
    json_t *former; /* {key of an earlier version: {label of a text: its digest}}; NULL: none */
    char
        tokenizer[HASH_HEX]; /* digest in keys; "": it is among checkpoints that do not exist yet */
    char tokenizer_now[HASH_HEX]; /* of the file's bytes (plan_alike.c) */
    char special[HASH_HEX]; /* of the tokens that the files beside it name (eos.h); "": none is
                               asked for */
    bool recalled;          /* the tokenizer is not there; an earlier plan had that one */
};

/* Costs of the visits of one model, whose checkpoints all have the same shape. The shape is read
 * from one config.json in the checkpoints' folders or, if none exists yet, in their parent folder;
 * or the one beside the tokenizer of what is staged; without it all costs are equal. */
struct plan_model {
    bool known; /* a config.json could be read */
    json_t *config;
    char *config_file; /* for messages */
    struct model_sizes sizes;
    double bytes_per_weight;
    int64_t ranks;                /* of a visit; 0: not known (plan_costs_fit) */
    int64_t memory;               /* limit of a rank; 0: none, or not known */
    struct cost shared;           /* work that every batch of a visit repeats */
    struct cost statistics;       /* additional, if a variant uses shared statistics */
    bool kept[MEASURES_N];        /* products of the part retain activations (plan_costs_fit) */
    struct cost once[MEASURES_N]; /* additional work of each part, once per visit */
    struct cost cell[MEASURES_N]; /* and what it adds to each cell */
};

struct plan_costs {
    int64_t n;
    struct plan_model *models;                                   // (models of the sweep)
    struct cost_tokens evaluation, calibration, own[MEASURES_N]; /* own: of measures' texts */
    struct cost_tokens evaluation_texts; /* `evaluation` without what measures add */
    struct cost_tokens *texts;   // (evaluations of the sweep) that are in `evaluation` together
    struct cost_tokens *heldout; // (checkpoints of the plan) that greedy soups are chosen by
    struct cost_rates rates;     /* nominal, until the caller sets them */
    int64_t learned;             /* finished records used for corrections */
};

/* What earlier runs into the same results have planned, and what the plan takes from it. */
struct plan_past {
    json_t *plans;    /* plans_of (records/plans.h) */
    json_t *read;     /* {USE: DIGEST}: as which text each use of a text is taken (plan_grown.c):
                         itself, or one that it has grown from and of which the same is read */
    json_t *starts;   /* {text: grown_starts}, */
    json_t *grown;    /* {text: whether all uses of it are in `read`} */
    json_t *configs;  /* {path: digest} of config.json of folders, "": none */
    json_t *entries;  /* [{MODEL: plan_past_entries}] of each plan, or null: not made yet */
    json_t *meanings; /* {digest of a config.json or tokenizer.json: what it says} (plan_alike.c) */
};

struct plan {
    const struct sweep *sweep; /* borrowed */
    const char *results; /* what a run of it writes: the sweep's results, until the caller sets
                            those of a part; borrowed */
    int64_t known_seed;  /* in keys of variants: that by which the results first knew them, since
                            only replicates are drawn by the sweep's */
    int64_t seed;        /* in keys of replicates: the sweep's, if it is another; else -1 */
    int64_t n_bits;
    int64_t bits[QUANT_BITS_N]; /* labels of the axis, ascending */
    int64_t n_variants;
    struct plan_variant *variants; // (quantizer, bits)
    int64_t n_records;
    struct plan_record_of *records; // (n_records)
    int64_t n_checkpoints;
    struct plan_checkpoint *checkpoints;
    void *own[MEASURES_N];        /* what measures have planned themselves, */
    int64_t more[MEASURES_N];     /* their visits besides those of the checkpoints, */
    json_t *lists;                /* and their entries of the plan record */
    void *setup[MEASURES_N];      /* setups of the parts, of the first checkpoint that has them;
                                    NULL: not requested */
    struct plan_lengths *lengths; // (models of the sweep)
    json_t *former;               /* {key: that of an earlier version} of measures' records */
    int64_t n_then;               /* what earlier plans asked for (plan_take), the newest last */
    struct plan_then *then;       // (n_then) private to plan_reuse.c
    json_t *composed; /* [{"key", "parts"}] of records of which finished ones have all parts
                         (records/measures.h); NULL: none */
    struct plan_past past;
    json_t *back;                  /* {MODEL/CHECKPOINT: digest} of weights that are on disk again
                                      and whose earlier results count; NULL: of none */
    json_t *inputs;                /* {path: digest} but for tokenizers */
    json_t *tokenizers, *specials; /* {path: digest}, {path: struct plan_checkpoint's special} */
    bool look_ahead;               /* argument of plan_make */
    struct texts missing; /* texts and tokenizers, which a run would refuse to do without: a draft,
                             whose keys differ from those of a run */
    struct plan_costs costs;
};

/* sweep_read_so_far of checkpoints that open as a whole; those that are staged count as there. */
MUST_USE enum status plan_read_so_far(const char *path, const char *const *set, int64_t n,
                                      struct sweep *out, struct err *e);
/* Makes the plan; computes the digests of texts and tokenizers and reads the shapes of existing
 * checkpoints. Borrows s; free *out with plan_free. look_ahead: a missing text or tokenizer makes
 * the plan a draft instead of an error. ERR_USAGE (unknown method,
 * options that do not concern it, a method that calibrates without calibration data), ERR_IO
 * (unreadable text or tokenizer). */
MUST_USE enum status plan_make(const struct sweep *s, bool look_ahead, struct plan *out,
                               struct err *e);
void plan_free(struct plan *p);

/* A shallow copy of d with the length that it stands for with this model (-1: unknown positions).
 */
struct data_options plan_data(const struct plan *p, int64_t model, const struct data_options *d);
/* Takes the view's records of earlier versions under the keys of the plan, and of weights that
 * results were left out of and that are on disk again; the plan remembers both for its record. view
 * NULL: nothing. ERR_NOMEM, ERR_FORMAT. */
MUST_USE enum status plan_former(struct plan *p, struct results_view *view, struct err *e);
/* plan_former, and what records of other settings have of the plan's: those with all parts of one
 * are put together in the view and are in p->composed. ERR_NOMEM, ERR_FORMAT. */
MUST_USE enum status plan_take(struct plan *p, struct results_view *view, struct err *e);
/* The state of the record of a checkpoint or cell with all texts: pending if it lacks one. */
enum result_state plan_texts_state(const struct plan *p, const struct plan_checkpoint *c,
                                   const json_t *record);
/* Key of the cell of a checkpoint and variant i of the plan. */
void plan_cell_key(const struct plan *p, const struct plan_checkpoint *c, int64_t i,
                   char key[HASH_HEX]);

/* *out (a new reference) = the plan record of the journal (results.h). command: the command line of
 * the run. ERR_NOMEM. */
MUST_USE enum status plan_record(const struct plan *p, const char *command, json_t **out,
                                 struct err *e);

/* Part k of n (plan_parts.h): the visits first to end - 1 of the whole plan, whose visits are those
 * of the checkpoints, then one per point of a surface, as plan_visits_make lists them while nothing
 * is finished. Zeros: no part, the whole plan. */
struct plan_part {
    int64_t k, n; /* 1 <= k <= n */
    int64_t first, end;
    double cost;   /* the expected cost of its visits, in seconds at nominal rates */
    bool disjoint; /* in no process has another of the n parts had one of these visits */
};

/* Which cells a run computes. */
struct plan_choice {
    struct plan_part part; /* nothing but this part; first and end are set (plan_part_find) */
    bool retry_failed;     /* also cells that failed */
    bool redo;             /* also cells that are done */
    int64_t n_only;
    char **only; /* "model=PATTERN", "checkpoint=…", "bits=…", "quantizer=…", "surface=…" (shell
                    patterns); all must match. "surface" selects only surfaces; checkpoint, bits and
                    quantizer select only cells */
    const json_t *changed; /* {MODEL/CHECKPOINT in keys: labels}: also what was made from them */
};
/* Number of the visits of all measures besides those of the checkpoints. */
int64_t plan_more(const struct plan *p);

/* ERR_USAGE: an unknown key. */
MUST_USE enum status plan_choice_check(const struct plan_choice *c, struct err *e);
/* ERR_USAGE: a pattern that matches nothing of the plan, with what there is, or patterns that
 * together match nothing. ERR_NOMEM. */
MUST_USE enum status plan_choice_match(const struct plan *p, const struct plan_choice *c,
                                       struct err *e);

/* A visit with its expected cost. */
struct plan_visit {
    struct visit visit;
    char *name;         /* for people: "MODEL CHECKPOINT" */
    int64_t model, row; /* of its checkpoint; the number of rows: it is none of a checkpoint */
    int64_t at;         /* its place in the list of all visits, which parts cut */
    double cost;        /* seconds of the work that every batch repeats */
    int64_t n_batches;  /* 0: it is never split */
    double *batches;    // (n_batches) seconds that each batch (visit.h) adds
    double *seconds;    // (1 + n_batches, MEASURES_N) the same, split by part of the visit
    int64_t kind;  /* visits of one kind (such as a model) share the correction of their costs */
    int64_t files; /* number of the set of files that it reads, from 1 */
    int64_t turn;  /* place in the order in which visits are handed out, from 1; 0: none is set */
    double saved;  /* seconds of its work that a saved state holds; 0: there is none */
    json_t *stage; /* what of it is staged (stager_ask); NULL: nothing */
};

/* The visits that compute what is missing: one per checkpoint, in the order of the plan, then those
 * of the measures. view: finished results; NULL: none. Free *out with plan_visits_free.
 * ERR_NOMEM, ERR_FORMAT. */
struct plan_visits {
    int64_t n;
    int64_t
        to_make[MEASURES_N];   /* records of each measure; of checkpoints themselves not counted */
    int64_t n_again;           /* cells of these that have a finished record */
    int64_t n_completions;     /* cells that are scored and lack what completes them */
    int64_t n_read;            /* finished cells whose quantized weights are read, not made */
    int64_t n_texts;           /* scores on a text that finished records lack */
    int64_t asked[MEASURES_N]; /* cells that a measure takes anew (struct measure.of_cell) */
    struct plan_visit *visits; // (n)
    bool of_all;               /* of all checkpoints, not of a part or of --only */
    /* Checkpoints that are computed again because their weights differ from the recorded ones:
     * as plan_choice.changed */
    json_t *changed;
};
MUST_USE enum status plan_visits_make(const struct plan *p, const struct results_view *view,
                                      const struct plan_choice *choice, struct plan_visits *out,
                                      struct err *e);
void plan_visits_free(struct plan_visits *v);
/* The expected seconds of a visit with all its batches. */
double plan_visit_seconds(const struct plan_visit *v);
/* Prints what there is to do, in a few lines, each behind `before`: "2 visits, 6 cells to do". */
void plan_visits_say(const struct plan_visits *v, const char *before, FILE *out);
/* For the way to a worker: as visit_to_json, with its list "seconds" and `stage`. A new reference,
 * NULL when out of memory. */
json_t *plan_visit_json(const struct plan_visit *v);

/* *out (the caller frees) = the folder in which the visits of a run save their states; NULL: none.
 * ERR_NOMEM. */
MUST_USE enum status plan_states_folder(const struct plan *p, char **out, struct err *e);
/* Finds the states there that earlier runs have left of the visits, and sets `saved` of those.
 * ERR_NOMEM. */
MUST_USE enum status plan_visits_begun(const struct plan *p, struct plan_visits *v, struct err *e);

/* --- plan_faults.c --- */

/* What a plan knows that a run of it will not compute. Zero-initialise. */
struct plan_faults {
    struct faults all;     /* what fails, and why; who: a model */
    bool *model;           // (models of the sweep) all its visits fail; NULL: of none
    int64_t failing, left; /* visits that fail, and all that are left to do */
};
void plan_faults_free(struct plan_faults *f);
/* Adds what is wrong, with its place in the sweep file. ERR_NOMEM. */
MUST_USE enum status plan_faults_add(struct plan_faults *f, const struct plan *p, struct err *e,
                                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The same of a model, which the text does not name; visits: all of its will fail. ERR_NOMEM. */
MUST_USE enum status plan_faults_add_model(struct plan_faults *f, const struct plan *p,
                                           int64_t model, bool visits, struct err *e,
                                           const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
/* Adds the files that a draft misses, and the checkpoints of the visits that are not on disk,
 * unless they are staged, or not whole, and other checkpoints whose weights are there and cannot be
 * read; counts the visits. ERR_NOMEM. */
MUST_USE enum status plan_faults_find(struct plan_faults *f, const struct plan *p,
                                      const struct plan_visits *left, struct err *e);
/* Adds, once a model, that visits read texts and their checkpoints, which are there, have no
 * tokenizer; plan_faults_find does it too. ERR_NOMEM. */
MUST_USE enum status plan_faults_tokenizers(struct plan_faults *f, const struct plan *p,
                                            const struct plan_visits *left, struct err *e);
/* Warns of each, and how many visits fail. */
void plan_faults_log(const struct plan_faults *f);

/* Logs warnings about the texts: for each model and text, sequences longer than the model's
 * positions; for each evaluation text, how many of its sequences also calibrate. Texts that are
 * missing, or have millions of tokens, are judged by their options only. And one if this machine is
 * no faster in the sweep's products (products_warn). Adds to *f what will fail for its mixings
 * and, if the plan looks ahead, for texts that give no sequence to a model whose checkpoints are
 * there. ERR_USAGE: a greedy soup is chosen by sequences that are evaluated on; ERR_NOMEM. */
MUST_USE enum status plan_warn(const struct plan *p, struct plan_faults *f, struct err *e);
/* --- plan_reasons.c --- */
/* If something that was finished by the newest plan of the view (NULL: none) is pending, logs a
 * warning for each input file that has changed since; and one for each measure whose finished
 * records are of other settings or another text than the plan's. ERR_NOMEM. */
MUST_USE enum status plan_warn_changed(const struct plan *p, const struct results_view *view,
                                       struct err *e);

/* Enumerates the records that the plan requests, with their state in the view (NULL: nothing is
 * finished). The caller closes *out. ERR_NOMEM. */
MUST_USE enum status plan_inventory(const struct plan *p, const struct results_view *view,
                                    struct inventory *out, struct err *e);

/* --- plan_stage.c --- */

/* Whether a model of the sweep has a `stage`. */
bool plan_stages(const struct sweep *s);
/* *out (the caller frees) = the folder with the config.json of the model's checkpoints, that of its
 * tokenizer; NULL: it is not staged. ERR_NOMEM. */
MUST_USE enum status plan_stage_shape(const struct sweep *s, int64_t model, char **out,
                                      struct err *e);
/* Sets turn and stage of the visits and sorts them by their turns: models whose visits take the
 * most ranks go first, as the master runs them, then the order is that of the sweep and of
 * training, so that few checkpoints are needed at a time. part: as which it enters the ledger;
 * uses: it runs them. *out (a new reference) = the job for these visits. Errors of ledger_path. */
MUST_USE enum status plan_stage_job(const struct plan *p, struct plan_visits *v,
                                    const struct plan_part *part, bool uses, json_t **out,
                                    struct err *e);

/* --- plan_cost.c --- */

/* Corrects the rates from the seconds per phase of the plan's finished records. */
void plan_costs_learn(struct plan *p, const struct results_view *view);

/* Sets the costs of a visit and its batches. variants: indices of its variants in the plan.
 * ERR_NOMEM. */
MUST_USE enum status plan_visit_price(const struct plan *p, const int64_t *variants,
                                      struct plan_visit *v, struct err *e);
/* Mean cost of a visit of the model's checkpoints, averages among them, with n of the plan's
 * variants and all that is measured there. */
struct cost plan_visit_cost(const struct plan *p, int64_t model, const int64_t *variants,
                            int64_t n);

/* Properties of a rank that plans assume. */
struct plan_rank {
    int64_t threads, memory; /* memory 0: no limit */
    int64_t base;            /* bytes of the process before its first visit; 0: unknown */
    bool scratch;            /* hidden states may be stored on scratch */
    int64_t ranks, mates;    /* in its group, and those of it on its node */
};

/* Prices the parts of the model's visits as they will run in a group of rank->ranks such ranks:
 * products with the Hessian cost less where memory suffices to retain activations. Before it, plans
 * assume that it does not. Call it before plan_costs_learn and plan_visits_make. */
void plan_costs_fit(struct plan *p, int64_t model, const struct plan_rank *rank);
/* Whether the record failed for want of memory with a lower limit than plan_costs_fit was given. */
bool plan_memory_raised(const struct plan *p, int64_t model, const json_t *record);

/* The smallest number of ranks, at most largest->ranks, whose memory suffices for visits of the
 * model with these variants and, if any number does, for curvature; largest->ranks if no number
 * suffices; 1 if the model's shape is unknown. */
int64_t plan_model_ranks(const struct plan *p, int64_t model, const int64_t *variants, int64_t n,
                         const struct plan_rank *largest);

/* Plans the memory of such a rank in a group of equal ranks that runs the visit. ERR_NOMEM: its
 * memory is too small; the text says for what. */
MUST_USE enum status plan_visit_memory(const struct plan *p, int64_t model, const int64_t *variants,
                                       int64_t n, const struct plan_rank *rank,
                                       struct memory_plan *out, struct err *e);

/* --- what the hooks of measures (records/measures.h) may ask of a plan --- */

/* *out (the caller frees) = the path of a model's checkpoint: "{checkpoint}" in it is the name.
 * ERR_NOMEM. */
MUST_USE enum status plan_path_of(const char *path, const char *checkpoint, char **out,
                                  struct err *e);
/* Its label on the cube's checkpoint axis. */
const char *plan_name_of(const struct plan *p, const struct plan_checkpoint *c);
/* By which names keys know the model and the checkpoint (plan_names.c). */
const char *plan_known_model(const struct plan *p, int64_t model);
const char *plan_known_name(const struct plan *p, const struct plan_checkpoint *c);
/* The checkpoint before c in training, or the average before c of the same entry; NULL: none. */
const struct plan_checkpoint *plan_before(const struct plan *p, const struct plan_checkpoint *c);
/* Whether its weights are there and differ from those whose digest that field of the record's
 * provenance is. */
bool plan_weights_changed(const struct plan_checkpoint *c, const json_t *record, const char *field);
/* Whether a record was made with other special tokens. */
bool plan_special_changed(const struct plan_checkpoint *c, const json_t *record);

/* key = digest of a JSON value, whose reference is taken over; NULL: ERR_NOMEM. */
MUST_USE enum status plan_digest(json_t *json, char key[HASH_HEX], struct err *e);
/* *out (a new reference) = the content of a data source for a model (-1: unknown positions),
 * wherever its file is: the options without paths and labels, and the file's digest. */
MUST_USE enum status plan_data_identity(struct plan *p, int64_t model, const struct data_options *d,
                                        json_t **out, struct err *e);
/* *out (a new reference) = identity of a model's calibration data; NULL: none. */
MUST_USE enum status plan_calibration_identity(struct plan *p, int64_t model, json_t **out,
                                               struct err *e);
/* Asks for such records; own (taken over): what their keys hash. label: borrowed. ERR_NOMEM. */
MUST_USE enum status plan_add_record(struct plan *p, int of_cell, int of_checkpoint,
                                     const char *label, json_t *own, struct err *e);
/* The plan does without a file that is not there yet. ERR_NOMEM. */
MUST_USE enum status plan_without(struct plan *p, const char *why, struct err *e);
/* Key of a variant. calibration: identity of the calibration data, or NULL. */
MUST_USE enum status plan_variant_key(const struct plan *p, const struct method_entry *m,
                                      int64_t bits, const json_t *calibration, char key[HASH_HEX],
                                      struct err *e);
/* Type of the hidden states as a part of keys; NULL for f32, which earlier versions always used. */
const char *plan_activations(const struct sweep *s);
/* The sweep's products in keys; NULL for those of f32's accuracy, whose last bits the fingerprint
 * tells apart. */
const char *plan_products(const struct sweep *s);
/* The same of the type to which results are rounded; NULL for f32. */
const char *plan_rounding(const struct sweep *s);
/* ERR_USAGE: a method of the sweep quantizes activations too, so that `what`, which looks at the
 * weights alone, would not measure its model. */
MUST_USE enum status plan_check_weights(const struct sweep *s, const char *what, struct err *e);

/* Whether the record with this key must be computed. */
bool plan_missing(const struct results_view *view, const char *key,
                  const struct plan_choice *choice);
/* Whether that visit of the whole plan is in the part that the choice asks for. */
bool plan_part_has(const struct plan_choice *choice, int64_t visit);
/* Whether the choice takes what is called so, of that model. */
bool plan_own_chosen(const struct measure *of, const char *name, const char *model,
                     const struct plan_choice *choice);
/* Whether an input file of part i of the visit has changed since the record was made: whether
 * visit_stamp differs from that field of its provenance. False if the record lacks the field. */
bool plan_inputs_changed(const json_t *record, const char *field, const struct visit *v, int i);
/* Sets the visit's labels, weights, tokenizer, inputs, key and options. ERR_NOMEM. */
MUST_USE enum status plan_visit_begin(const struct plan *p, const struct plan_checkpoint *c,
                                      const char *key, struct visit *v, struct err *e);
/* Sets the costs of a visit that is never split and whose work is that of measure k. ERR_NOMEM. */
MUST_USE enum status plan_visit_price_own(const struct plan *p, int k, const struct cost *c,
                                          struct plan_visit *v, struct err *e);
