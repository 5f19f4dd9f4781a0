/* weights_card: the README.md of a folder with a quantized model: what it was made from and how,
 * its loss, and how to load it. The same bytes for the same model and scores. */
#pragma once
#include "engine/task.h"

struct weights_card {
    const char *path;   /* of the checkpoint */
    const char *digest; /* of the checkpoint (checkpoint_hash) */
    const struct variant *variant;
    const char *format;                     /* as weights_form_choose */
    const struct data_options *calibration; /* NULL: none */
    const json_t *inputs;                   /* digests of texts, as of a visit; NULL: not known */
    const json_t *cell; /* the record of the cell, with its losses; NULL: not known */
};

/* *text (the caller frees) = the card. ERR_NOMEM. */
MUST_USE enum status weights_card_text(const struct weights_card *c, char **text, struct err *e);
