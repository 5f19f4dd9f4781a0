/* part_saved: the saved state (saved.h) of a part of a visit. */
#pragma once
#include "engine/part.h"
#include "records/saved.h"

/* Looks for a state of a part's work; *out as saved_open. name: which of the visit's pieces of work
 * this is, the same in a later run that continues it: keys of its records; settings: what its
 * numbers depend on besides the name, the inputs of the part (visit_stamp), the weights and the
 * fingerprint. Collective on the context's group. Errors of saved_open. */
MUST_USE enum status part_saved_open(const struct part_context *c, int part, const char *name,
                                     const char *settings, struct saved **out, struct err *e);
/* Closes it when the work has ended with st. If a later run can continue, the files stay: after a
 * stop, a full disk, a failure of MPI, or if a record could not be given away. Otherwise they go
 * when the records are in the journal: at the next visit (visit_states_remove). Local. */
void part_saved_end(const struct part_context *c, struct saved *s, enum status st);
