/* model_card: the README.md of a folder with a quantized model: what it was made from and how,
 * its loss, and how to load it. The same bytes for the same model and scores. */
#pragma once
#include "engine/visit_types.h"

struct model_card {
    const char *name;   /* of the checkpoint */
    const char *digest; /* of the checkpoint (checkpoint_hash), the weights_hash of a cube */
    const struct variant *variant;
    const char *format;                     /* as export_form_choose */
    const struct data_options *calibration; /* NULL: none */
    int64_t sequences;                      /* that it gave; 0: as many as it asks for */
    const json_t *inputs;                   /* digests of texts, as of a visit; NULL: not known */
    const json_t *cell; /* the record of the cell, with its losses; NULL: not known yet */
    const char *label;  /* of the text that it was scored on; NULL: the record names its texts */
};

/* *text (the caller frees) = the card. ERR_NOMEM. */
MUST_USE enum status model_card_text(const struct model_card *c, char **text, struct err *e);
/* Gives the card in `folder` the losses of a cell's record, in place of those that it has. texts:
 * {digest: label} of those to list. Does nothing if there is no card, or if it is not the card of
 * this cell. ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status model_card_complete(const char *folder, const json_t *cell,
                                         const json_t *texts, struct err *e);
