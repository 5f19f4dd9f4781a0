/* plan_internal: functions that the files of plan/ share. */
#pragma once
#include "plan/plan.h"

/* key = digest of a JSON value, whose reference is taken over; NULL: ERR_NOMEM. */
MUST_USE enum status plan_digest(json_t *json, char key[HASH_HEX], struct err *e);
/* *out (a new reference) = the content of a data source for a model (-1: unknown positions),
 * wherever its file is: the options without paths and labels, and the file's digest. */
MUST_USE enum status plan_data_identity(struct plan *p, int64_t model, const struct data_options *d,
                                        json_t **out, struct err *e);
/* *out (owned by the caller) = the text that the model's curvature is measured on. */
MUST_USE enum status plan_curvature_data(const struct plan *p, int64_t model,
                                         struct data_options *out, struct err *e);
/* *out (a new reference) = identity of a model's calibration data; NULL: none. */
MUST_USE enum status plan_calibration_identity(struct plan *p, int64_t model, json_t **out,
                                               struct err *e);
/* Key of a variant. calibration: identity of the calibration data, or NULL. */
MUST_USE enum status plan_variant_key(const struct plan *p, const struct method_entry *m,
                                      int64_t bits, const json_t *calibration, char key[HASH_HEX],
                                      struct err *e);
/* All inputs, tokenizers included; a new reference, NULL: out of memory. */
json_t *plan_inputs(const struct plan *p);
/* Sets v->inputs for visits of the checkpoint. ERR_NOMEM. */
MUST_USE enum status plan_visit_inputs(const struct plan *p, const struct plan_checkpoint *c,
                                       struct visit *v, struct err *e);
/* Whether a record was made with other special tokens. */
bool plan_special_changed(const struct plan_checkpoint *c, const json_t *record);

/* The plan does without a file that is not there yet. */
void plan_without(struct plan *p, const char *why);
/* Whether the record with this key must be computed. */
bool plan_missing(const struct results_view *view, const char *key,
                  const struct plan_choice *choice);
/* Type of the hidden states as a part of keys; NULL for f32, which earlier versions always used. */
const char *plan_activations(const struct sweep *s);
/* The sweep's products in keys; NULL for those of f32's accuracy, whose last bits the fingerprint
 * tells apart. */
const char *plan_products(const struct sweep *s);
/* The same of the type to which results are rounded; NULL for f32. */
const char *plan_rounding(const struct sweep *s);

/* Whether the weights of each variant are measured with. */
bool plan_predicts(const struct sweep *s);

/* --- plan_weights.c --- */
/* Where the weights of a model's row come from; *out is freed with options_free(&weights_table). */
MUST_USE enum status plan_find_weights(const struct sweep *s, int64_t model, int64_t row,
                                       struct weights *out, struct err *e);
/* The checkpoint before c in training, or the average before c of the same entry; NULL: none. */
const struct plan_checkpoint *plan_before(const struct plan *p, const struct plan_checkpoint *c);

/* --- plan_accuracies.c --- */
/* Fills p->accuracies: reads the data of the sweep's tasks and makes every item once. ERR_USAGE: an
 * unknown task; ERR_IO, ERR_FORMAT: the data, with file and line. */
MUST_USE enum status plan_accuracies_make(struct plan *p, struct err *e);
void plan_accuracies_free(struct plan *p);
/* "tasks" of the plan record, a new reference; NULL: none. */
json_t *plan_accuracies_record(const struct plan *p);
/* Sets the tasks of a visit. ERR_NOMEM. */
MUST_USE enum status plan_accuracies_ask(const struct plan *p, struct visit *v, struct err *e);
/* Adds to *lines (accuracies.h) the records for which `missing` is true, of the checkpoint or its
 * cell of the plan's variant i (-1: of the checkpoint). ERR_NOMEM. */
MUST_USE enum status plan_accuracies_find(const struct plan *p, const struct plan_checkpoint *c,
                                          int64_t i,
                                          bool (*missing)(const void *context, const char *key),
                                          const void *context, char **lines, struct err *e);
/* Tokens of task i with a tokenizer of the visit's, estimated from its first items; without one
 * (NULL), from the bytes. */
struct cost_tokens plan_accuracy_tokens(const struct plan *p, int64_t i, const struct visit *v,
                                        struct visit_cache *cache);

/* --- plan_warnings.c --- */
/* Whether the text is read for the sake of a warning: some seconds of tokenizing. */
bool plan_text_is_short(const struct data_options *d);

/* --- plan_common.c --- */
/* Adds the digest of the sweep's common tokenizer to the inputs. ERR_IO: it is missing. */
MUST_USE enum status plan_common_check(struct plan *p, struct err *e);
/* A checkpoint of the model that is there, else its first. */
const struct plan_checkpoint *plan_a_checkpoint(const struct plan *p, int64_t model);
/* *out (a new reference) = {TEXT: its common tokens with the model's tokenizer}; NULL: the sweep
 * does not ask. Reads the texts; one that cannot be read is left out with a warning. ERR_NOMEM. */
MUST_USE enum status plan_common_record(const struct plan *p, int64_t model,
                                        struct visit_cache *cache, json_t **out, struct err *e);

/* --- plan_soups.c --- */
/* Sets the text of a greedy soup and its digest, which is part of the keys. Errors of
 * plan_data_identity. */
MUST_USE enum status plan_find_heldout(struct plan *p, struct plan_checkpoint *c, struct err *e);
/* ERR_USAGE: a greedy soup is chosen by sequences that are evaluated on. Long texts are left to the
 * visits. */
MUST_USE enum status plan_check_heldout(const struct plan *p, struct err *e);
/* What a visit of a checkpoint spends on choosing members; what one of the model does on average.
 */
struct cost plan_choice_cost(const struct plan *p, const struct visit *v);
struct cost plan_mean_choice_cost(const struct plan *p, int64_t model);

/* --- plan_cost.c --- */
/* Sets the costs of the model's visits, of its cells and of each part, from its shape, the tokens
 * of c and what its parts keep (m->kept). */
void plan_cost_model(const struct plan *p, const struct plan_costs *c, struct plan_model *m);

/* --- plan_lengths.c --- */
/* p->lengths: first the positions, which settle all lengths; then, with variants there, keys. */
MUST_USE enum status plan_lengths_make(struct plan *p, struct err *e);
MUST_USE enum status plan_lengths_keys(struct plan *p, struct err *e);
void plan_lengths_free(struct plan *p);
/* The key of variant i for a model. */
const char *plan_variant_key_of(const struct plan *p, int64_t model, int64_t i);

/* --- plan_export.c --- */
/* *folder (the caller frees) = where the cell is to be exported to; NULL: nowhere, or it is there.
 */
MUST_USE enum status plan_export_find(const struct plan *p, const struct plan_checkpoint *c,
                                      const struct plan_variant *v, char **folder, struct err *e);
/* Sets folder and format of a variant of a visit that is exported. */
MUST_USE enum status plan_export_set(const struct plan *p, const struct plan_checkpoint *c,
                                     const struct plan_variant *v, const char *folder,
                                     struct variant *to, struct err *e);
/* ERR_USAGE: an entry of `export` selects no cell, or one that its format cannot hold. */
MUST_USE enum status plan_exports_check(const struct plan *p, struct err *e);

/* --- plan_columns.c --- */
/* ERR_USAGE: a column has the name of a variable of the cube. */
MUST_USE enum status plan_columns_check(const struct sweep *s, struct err *e);
/* The plan record's "columns": name of each, and whether it holds numbers alone; NULL: none. And
 * the values of one row in their order, null where empty; an average has those of its last member.
 * New references. */
json_t *plan_columns_record(const struct sweep *s);
json_t *plan_columns_of(const json_t *columns, const struct sweep *s, int64_t model, int64_t row);

/* --- plan_choice.c --- */
/* Whether that visit of the whole plan is in the part that the choice asks for. */
bool plan_part_has(const struct plan_choice *choice, int64_t visit);
/* Whether the choice takes something of the checkpoint; of each such checkpoint its curvature and
 * its movement, the variant; points of the surface. */
bool plan_checkpoint_chosen(const struct plan *p, const struct plan_checkpoint *c,
                            const struct plan_choice *choice);
bool plan_measures_chosen(const struct plan_choice *choice);
bool plan_variant_chosen(const struct plan_variant *v, const struct plan_choice *choice);
bool plan_surface_chosen(const struct plan_surface *s, const struct plan_choice *choice);

/* --- plan_visits.c --- */
/* Number of all variants and replicates. */
int64_t plan_runs(const struct plan *p);
/* Whether an input file of part i of the visit has changed since the record was made: whether
 * visit_seen differs from that field of its provenance. False if the record lacks the field. */
bool plan_inputs_changed(const json_t *record, const char *field, const struct visit *v, int i);
/* task[part] = the tasks of all parts that the sweep requests, for checkpoint c or (NULL) without
 * the fields that differ between checkpoints. The caller frees them, also after a failure. */
MUST_USE enum status plan_tasks_make(const struct plan *p, const struct plan_checkpoint *c,
                                     void **task, struct err *e);

/* --- plan_surfaces.c --- */
/* Fills p->surfaces from p->checkpoints. ERR_USAGE. */
MUST_USE enum status plan_surfaces_make(struct plan *p, struct err *e);
/* plan_surfaces_record: "surfaces" of the plan record, a new reference. plan_surfaces_points: the
 * number of all points. */
json_t *plan_surfaces_record(const struct plan *p);
int64_t plan_surfaces_points(const struct plan *p);
/* Adds the visits of the missing points to `visits`, whose array is large enough. */
MUST_USE enum status plan_surfaces_visits(const struct plan *p, const struct results_view *view,
                                          const struct plan_choice *choice,
                                          struct plan_visits *visits, struct err *e);

/* --- plan_cost.c --- */
/* Computes the costs; reads one config.json per model, and short texts. ERR_NOMEM. */
MUST_USE enum status plan_costs_make(const struct plan *p, struct plan_costs *out, struct err *e);
void plan_costs_free(struct plan_costs *c);
