/* plan_internal: functions that the files of plan/ share. */
#pragma once
#include "plan/plan.h"

/* All inputs, tokenizers included; a new reference, NULL: out of memory. */
json_t *plan_inputs(const struct plan *p);
/* Sets v->inputs for visits of the checkpoint. ERR_NOMEM. */
MUST_USE enum status plan_visit_inputs(const struct plan *p, const struct plan_checkpoint *c,
                                       struct visit *v, struct err *e);

/* --- plan_weights.c --- */
/* Where the weights of a model's row come from; *out is freed with options_free(&weights_table). */
MUST_USE enum status plan_find_weights(const struct plan *p, int64_t model, int64_t row,
                                       struct weights *out, struct err *e);
/* *out (the caller frees) = the recipe of c by the labels of now. ERR_NOMEM. */
MUST_USE enum status plan_shown_recipe(const struct plan *p, const struct plan_checkpoint *c,
                                       char **out, struct err *e);
/* *out (the caller frees) = the path of an entry `stored` for checkpoint c. ERR_NOMEM. */
MUST_USE enum status plan_stored_path(const struct plan *p, const struct plan_checkpoint *c,
                                      const struct method_entry *m, char **out, struct err *e);
/* ERR_USAGE: checkpoints of two models have one such path. ERR_NOMEM. */
MUST_USE enum status plan_stored_check(const struct plan *p, const struct method_entry *m,
                                       struct err *e);
/* Has results of weights count that the view leaves out, where a folder has these weights again.
 * ERR_NOMEM. */
MUST_USE enum status plan_weights_back(struct plan *p, struct results_view *view, struct err *e);
/* Whether the checkpoint at the path is another than the one that a record is of. */
bool plan_stored_changed(const struct plan *p, const char *path, const json_t *record);

/* --- plan_tokenizer.c --- */
/* Sets what c has of its tokenizer, and c->special. ERR_IO: it cannot be read. ERR_NOMEM. */
MUST_USE enum status plan_find_tokenizer(struct plan *p, struct plan_checkpoint *c, struct err *e);

/* *path (the caller frees) = the file of a checkpoint's tokenizer; NULL: it is not there.
 * ERR_NOMEM.
 */
MUST_USE enum status plan_tokenizer_path(const struct plan *p, const struct plan_checkpoint *c,
                                         char **path, struct err *e);

/* --- plan_past.c --- */
void plan_past_free(struct plan_past *p);
/* Reads what earlier runs of the results have planned. ERR_NOMEM. */
MUST_USE enum status plan_past_open(const char *results, struct plan_past *out, struct err *e);
/* The lists of models of earlier plans, newest first, each once; NULL after the oldest. *k: the
 * number of plans at first; last: what it gave before. Borrowed. */
const json_t *plan_past_models(const struct plan *p, size_t *k, const json_t *last);
/* {NAME in keys: entry} of the checkpoints of that model, by its name in keys, in earlier plan k;
 * NULL: it had none. Borrowed. */
const json_t *plan_past_entries(const struct plan *p, size_t k, const char *model);
/* Sets known_seed and seed of p (plan.h). After plan_past_open. */
void plan_past_seed(struct plan *p);
/* Digest of the input file in the newest plan that had it; "": none had. Borrowed. */
const char *plan_past_input(const struct plan *p, const char *path);
/* Positions of the model of that label in the newest plan that says them; 0: none does. */
int64_t plan_past_positions(const struct plan *p, const char *model);

/* --- plan_alike.c --- */
/* Files of a checkpoint, by the names of their digests in its entry of the plan record. */
enum plan_file { PLAN_CONFIG, PLAN_TOKENIZER };
extern const char *const plan_files[];
/* known = the digest of the row's file in the newest plan that had one that says the same as that
 * at the path, with the digest `now`; else that. ERR_NOMEM. */
MUST_USE enum status plan_known_digest(const struct plan *p, enum plan_file what, int64_t model,
                                       int64_t row, const char *path, const char *now,
                                       char known[HASH_HEX], struct err *e);
/* The same of the config.json of a folder, with its digest; both "": there is none. ERR_NOMEM. */
MUST_USE enum status plan_config(const struct plan *p, int64_t model, int64_t row,
                                 const char *folder, char now[HASH_HEX], char known[HASH_HEX],
                                 struct err *e);
/* Whether c, a folder, has that digest with another config.json that says the same. */
bool plan_hash_alike(const struct plan *p, struct checkpoint *c, const char *was);
/* Adds both to the checkpoint's entry of the plan record, and what they say to plan_meanings.
 * ERR_NOMEM. */
MUST_USE enum status plan_note_files(const struct plan *p, const struct plan_checkpoint *c,
                                     json_t *entry, struct err *e);
/* The plan record's "meanings": a new reference. */
json_t *plan_meanings(const struct plan *p);

/* --- plan_grown.c --- */
/* *out (a new reference) = plan_identity of a text with that digest (d: with its options for this
 * model, -1: for all), or with that of an earlier plan, if that knew a start of its files from
 * which the same is read. ERR_IO, ERR_FORMAT (tokenizers), ERR_NOMEM. */
MUST_USE enum status plan_grown(struct plan *p, int64_t model, const struct data_options *d,
                                const char *hash, json_t **out, struct err *e);

/* --- plan_names.c --- */
/* Finds by which names keys know the models. Errors of parts_view. */
MUST_USE enum status plan_names_make(struct plan *p, struct err *e);
/* The same of their stored checkpoints. Errors of parts_view. */
MUST_USE enum status plan_rows_make(struct plan *p, struct err *e);
/* Name in keys of a model's stored checkpoint. */
const char *plan_known_row(const struct plan *p, int64_t model, int64_t row);
/* The same of checkpoint c, if it is an average: of the same recipe. ERR_NOMEM. */
MUST_USE enum status plan_name_average(const struct plan *p, struct plan_checkpoint *c,
                                       struct err *e);

/* --- plan_warnings.c --- */
/* Whether the text is read for the sake of a warning: some seconds of tokenizing. */
bool plan_text_is_short(const struct data_options *d);
/* *v = a visit of all texts of the model, shallow: only *evaluations is owned, by the caller.
 * ERR_NOMEM. Whether all of its texts are so short. */
MUST_USE enum status plan_texts_of(const struct plan *p, int64_t model, struct visit *v,
                                   struct data_options **evaluations, struct err *e);
bool plan_texts_are_short(const struct visit *v);
/* Whether a text can be read for a judgement now: it is not what a draft does without. */
bool plan_text_is_judged(const struct plan *p, const struct data_options *d);

/* --- plan_reasons.c --- */
/* Says in one line whose weights have changed (plan_choice.changed). ERR_NOMEM. */
MUST_USE enum status plan_tell_changed(const json_t *changed, struct err *e);

/* --- plan_soups.c --- */
/* Sets the text of a greedy soup and who judges, with the digest of both, which is part of the
 * keys. ERR_USAGE: no calibration text for the judge; errors of plan_data_identity. */
MUST_USE enum status plan_find_heldout(struct plan *p, struct plan_checkpoint *c, struct err *e);
/* ERR_USAGE: a greedy soup is chosen by sequences that are evaluated on. Long texts are left to the
 * visits. Ahead of a run adds soups whose text cannot be read to f. ERR_NOMEM. */
MUST_USE enum status plan_check_heldout(const struct plan *p, struct plan_faults *f, struct err *e);
/* What a visit of a checkpoint spends on choosing members; what one of the model does on average.
 */
struct cost plan_choice_cost(const struct plan *p, const struct visit *v);
struct cost plan_mean_choice_cost(const struct plan *p, int64_t model);

/* --- plan_cost.c --- */
/* Whether the sweep asks for the work of measure k. */
bool plan_asks(const struct plan *p, int k);
/* Sets the costs of the model's visits and of each part, from its shape, the tokens of c and what
 * its parts keep (m->kept). */
void plan_cost_model(const struct plan *p, const struct plan_costs *c, struct plan_model *m);

/* --- plan.c --- */
/* key = digest of the checkpoint and what forward passes of it depend on, in earlier versions with
 * the evaluation texts (a new reference, taken over; NULL: without). The key of a stored one
 * contains only its name. */
MUST_USE enum status plan_key(const struct plan *p, const struct plan_checkpoint *c,
                              json_t *evaluations, char key[HASH_HEX], struct err *e);

/* *own (a new reference) = what the key of the record that measure k makes of c hashes; NULL: the
 * sweep asks for none. Errors of the measure's key. */
MUST_USE enum status plan_record_own(struct plan *p, const struct plan_checkpoint *c, int k,
                                     json_t **own, struct err *e);

/* --- plan_reuse.c --- */
/* Leaves the setup of measure k for checkpoint c what no finished record of other settings has.
 * view NULL: nothing is finished. ERR_NOMEM. */
MUST_USE enum status plan_reuse(const struct plan *p, const struct plan_checkpoint *c, int k,
                                const struct results_view *view, void *setup, struct err *e);
/* *any = whether a finished record of other settings has a part of it. ERR_NOMEM. */
MUST_USE enum status plan_reuse_any(const struct plan *p, const struct plan_checkpoint *c, int k,
                                    const struct results_view *view, bool *any, struct err *e);
/* What measure k does once in the visit, which may be to compute some of a record's parts. */
struct cost plan_reuse_cost(const struct plan *p, const struct plan_model *m, const struct visit *v,
                            int k);
void plan_reuse_free(struct plan *p);
/* What a record has that measure k has completed with settings of that digest (""; it has not), of
 * what is asked for: all; nothing or less; another text's. */
enum plan_had { HAD_ALL, HAD_LESS, HAD_OTHER };
enum plan_had plan_completed_as(const struct plan *p, const struct plan_checkpoint *c, int k,
                                const char *had);

/* --- plan_texts.c --- */
/* What keys hash of a text with that digest and its settings; a new reference. */
json_t *plan_identity(const struct data_options *resolved, const char *hash);
/* Sets the digests of the model's evaluation texts. Errors of plan_data_identity. */
MUST_USE enum status plan_texts_make(struct plan *p, int64_t model, struct err *e);
/* Adds to *lines (wanted.h) the texts that the record lacks, if it is done, with their digests as
 * keys; one that could not be scored if its files have changed. v: a visit of the checkpoint with
 * all texts. ERR_NOMEM. */
MUST_USE enum status plan_texts_lacking(const struct plan *p, const struct plan_checkpoint *c,
                                        const json_t *record, const struct plan_choice *choice,
                                        const struct visit *v, char **lines, struct err *e);
/* Makes the visit calibrate its replicates as that of the record, if it lacks a text; *again: it
 * cannot, since a text that the calibration avoids is not in the plan, or for another one's sake.
 * ERR_NOMEM. */
MUST_USE enum status plan_texts_drawn(const struct plan *p, const struct plan_checkpoint *c,
                                      const json_t *record, struct visit *v, bool *again,
                                      struct err *e);
/* *path (the caller frees) = where the quantized weights of a finished cell are, if scores are all
 * that the lines (wanted.h) ask for; NULL: they are to be made. ERR_NOMEM. */
MUST_USE enum status plan_texts_stored(const struct plan *p, const struct plan_checkpoint *c,
                                       int64_t variant, const char *lines, char **path,
                                       struct err *e);
/* Makes the variant one that is read at the path (taken over; NULL: it stays). ERR_NOMEM. */
MUST_USE enum status plan_texts_read(struct variant *to, char **path, struct err *e);
/* Counts what the lines (wanted.h) ask for; those of texts are of finished records. */
void plan_count_records(const char *records, struct plan_visits *out);
/* The plan's costs (shallow) with the tokens that the visit evaluates. */
struct plan_costs plan_texts_costs(const struct plan *p, int64_t model, const struct visit *v);
/* Leaves the visit only the texts that a record lacks, unless others are made on all of them. */
void plan_texts_keep(struct visit *v);

/* --- plan_record.c --- */
/* Adds the digest of the sweep's common tokenizer to the inputs. ERR_IO: it is missing. */
MUST_USE enum status plan_common_check(struct plan *p, struct err *e);
/* A checkpoint of the model that is there, else its first. */
const struct plan_checkpoint *plan_a_checkpoint(const struct plan *p, int64_t model);
/* ERR_USAGE: a column has the name of a variable of the cube. */
MUST_USE enum status plan_columns_check(const struct sweep *s, struct err *e);

/* --- plan_choice.c --- */
/* Whether the choice takes something of the checkpoint; of each such checkpoint the records that
 * measures have of it, the variant. */
bool plan_checkpoint_chosen(const struct plan *p, const struct plan_checkpoint *c,
                            const struct plan_choice *choice);
bool plan_measures_chosen(const struct plan_choice *choice);
bool plan_variant_chosen(const struct plan_variant *v, const struct plan_choice *choice);

/* --- plan_visits.c --- */
/* Number of all variants and replicates. */
int64_t plan_runs(const struct plan *p);
/* Makes the setup of measure k for checkpoint c, which has its key. The caller frees it. */
MUST_USE enum status plan_setup_make(const struct plan *p, const struct plan_checkpoint *c, int k,
                                     void **setup, struct err *e);

/* --- plan_cost.c --- */
/* Finds the shapes of p->costs.models, and the positions of p->lengths; reads one config.json per
 * model. ERR_NOMEM. */
MUST_USE enum status plan_shapes_find(struct plan *p, struct err *e);
/* Computes the costs of the models, whose shapes have been found; reads short texts. ERR_NOMEM. */
MUST_USE enum status plan_costs_make(struct plan *p, struct err *e);
void plan_costs_free(struct plan_costs *c);
