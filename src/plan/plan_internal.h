/* plan_internal: what the files that make a plan share. */
#pragma once
#include "plan/plan.h"

/* Digest of a JSON value; takes the reference. */
MUST_USE enum status plan_digest(json_t *json, char key[HASH_HEX], struct err *e);
/* What a data source gives, wherever its file lies: options without paths and labels, and the
 * file's digest. */
MUST_USE enum status plan_data_identity(struct plan *p, const struct data_options *d, json_t **out,
                                        struct err *e);
/* Key of a variant; calibration: its identity, or NULL. */
MUST_USE enum status plan_variant_key(const struct plan *p, const struct method_entry *m,
                                      int64_t bits, const json_t *calibration, char key[HASH_HEX],
                                      struct err *e);
/* The tokenizer's digest; "" when it comes with checkpoints that are not there. */
MUST_USE enum status plan_tokenizer_identity(struct plan *p, const struct model_entry *m,
                                             const char *checkpoint, char hash[HASH_HEX],
                                             struct err *e);

/* Whether the choice takes that value of the key; whether it says anything about the key. */
bool plan_chosen(const struct plan_choice *choice, const char *key, const char *value);
bool plan_choice_names(const struct plan_choice *choice, const char *key);
/* Whether the record of that key is to be made. */
bool plan_missing(const struct results_view *view, const char *key,
                  const struct plan_choice *choice);
/* What hidden states are held as, for keys: NULL for f32, which was there first. */
const char *plan_activations(const struct sweep *s);

/* --- plan_visits.c --- */
/* task[part] of the parts that the sweep asks for of every checkpoint: of c, or (NULL) but for what
 * differs between them. The caller frees, whatever is returned. */
MUST_USE enum status plan_tasks_make(const struct plan *p, const struct plan_checkpoint *c,
                                     void **task, struct err *e);

/* --- plan_surfaces.c --- */
/* Fills p->surfaces; the checkpoints are there. calibration: its identity, or NULL. ERR_USAGE. */
MUST_USE enum status plan_surfaces_make(struct plan *p, const json_t *calibration, struct err *e);
/* The plan record's "surfaces", a new reference. */
json_t *plan_surfaces_record(const struct plan *p);
int64_t plan_surfaces_points(const struct plan *p);
/* Adds the visits of the points that are missing; there is room for all. */
MUST_USE enum status plan_surfaces_visits(const struct plan *p, const struct results_view *view,
                                          const struct plan_choice *choice,
                                          struct plan_visits *visits, struct err *e);

/* --- plan_cost.c --- */
/* Reads one config.json a model, and short texts. ERR_NOMEM. */
MUST_USE enum status plan_costs_make(const struct plan *p, struct plan_costs *out, struct err *e);
void plan_costs_free(struct plan_costs *c);
