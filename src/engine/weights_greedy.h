/* weights_greedy: greedy soups (Wortsman et al. 2022, arXiv 2203.05482, Recipe 1): the mean, in
 * equal parts, of those candidates that a held-out text chooses.
 *
 * The candidates are sorted by their loss on the text, equal ones in the order of the sweep. The
 * soup begins with the first. Each other one is kept if the soup with it has no larger loss than
 * the soup without it. Losses are those of the weights as they would be stored, rounded to the
 * members' type, and of these quantized where the soup is judged so. Candidates whose loss is not
 * finite are never kept. */
#pragma once
#include "engine/weights.h"

struct saved;
struct part_context;

/* What was chosen for a visit's own weights. Zero-initialise; owned by the visit. */
struct greedy_choice {
    json_t *record;      /* fields of the checkpoint's record; NULL: nothing had to be chosen */
    struct saved *saved; /* losses so far; a visit that begins again needs them until its end */
};

/* Frees what the context's choice owns when its visit has ended with st (part_saved_end). Local. */
void greedy_choice_end(const struct part_context *context, enum status st);

/* Opens the soup; parts: the open candidates. Without w->chosen it evaluates every candidate and
 * up to w->n - 1 soups, and fills context->choice if these are the weights of the visit. Collective
 * on the context's group, every rank chooses the same. ERR_NUMERIC: no candidate has a finite loss;
 * ERR_USAGE: the text is also evaluated on (w->evaluated allows it); errors of texts and
 * checkpoints. */
MUST_USE enum status weights_open_greedy(const struct weights *w,
                                         const struct part_context *context,
                                         struct checkpoint *const *parts, struct checkpoint **out,
                                         struct err *e);

/* Sets w->chosen and the coefficients of its parts by the record of the checkpoint (NULL: none), if
 * that says what was chosen among them. */
void weights_recall_choice(struct weights *w, const json_t *record);

struct visit;
struct visit_cache;
/* Fails with ERR_USAGE if the text shares sequences with one of those that the visit evaluates.
 * Does nothing if w is not greedy or w->evaluated allows it. Local. Errors of loading the texts. */
MUST_USE enum status weights_check_heldout(const struct weights *w, const struct visit *v,
                                           struct visit_cache *cache, struct err *e);
