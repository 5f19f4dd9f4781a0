/* plans: what earlier runs into the same results have planned. */
#pragma once
#include "util/err.h"
#include "util/json.h"

/* *out (a new reference) = the plan records of the journals of the results and of their parts in
 * the order of their times, without those that repeat the one before, and of each only {"utc",
 * "inputs", "read", "meanings", "blocks" (as in results.h), "seed" (in keys), ["settings":
 * {SECTION: .., "methods"} of the measures whose records have parts,]
 * "models": [{"name", ["known",] ["positions",] "path", ["hub",] "checkpoints": [{"name",
 * ["known",] "kind", "recipe", ["known_recipe",] "key", ["config",] ["tokenizer"]}]}]}. A journal
 * that cannot be read is left out: who opens it says why. ERR_NOMEM. */
MUST_USE enum status plans_of(const char *results, json_t **out, struct err *e);
/* "known", else "name": as what keys name a model or checkpoint of it. Borrowed. */
const char *plans_known(const json_t *entry);
/* The entry of a list that keys name so; NULL: none. Borrowed. */
const json_t *plans_entry(const json_t *list, const char *known);
/* The same of a checkpoint's recipe. */
const char *plans_recipe(const json_t *checkpoint);
