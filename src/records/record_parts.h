/* record_parts: what measures whose records have parts share (struct measure_parts). */
#pragma once
#include "util/err.h"
#include "util/json.h"

/* *text (the caller frees) = the list of parts, as a setup keeps it. ERR_NOMEM. */
MUST_USE enum status parts_keep(const json_t *parts, char **text, struct err *e);
/* Sets provenance.parts of a record from that text; NULL: nothing. */
void parts_note(json_t *record, const char *text);

/* list and compose (struct measure_parts) of records of curvature and of movement. */
MUST_USE enum status parts_of_curvature(const json_t *own, json_t **list, struct err *e);
MUST_USE enum status parts_of_movement(const json_t *own, json_t **list, struct err *e);
MUST_USE enum status compose_curvature(json_t *record, const json_t *parts, const json_t *sources,
                                       struct err *e);
MUST_USE enum status compose_movement(json_t *record, const json_t *parts, const json_t *sources,
                                      struct err *e);
