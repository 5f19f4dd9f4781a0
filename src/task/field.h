/* field: the fields of a task's row, under the names that its data set has on the hub. A name may
 * be a path: "choices.text". Texts are borrowed from the row. ERR_FORMAT names the field, without
 * file and line, which the caller knows (line_blame). */
#pragma once
#include "task/pytext.h"
#include "util/json.h"

/* *out = a string. */
MUST_USE enum status field_text(const json_t *row, const char *name, struct text *out,
                                struct err *e);
/* *out = an integer, or a string of its digits alone: no blanks, no zeros before them. */
MUST_USE enum status field_integer(const json_t *row, const char *name, int64_t *out,
                                   struct err *e);
/* *out = a list of strings. */
MUST_USE enum status field_list(const json_t *row, const char *name, const json_t **out,
                                struct err *e);
/* Item i of such a list. */
struct text field_item(const json_t *list, int64_t i);

/* Appends the template with every {NAME} replaced by that field: {NAME:strip} and {NAME:lstrip}
 * without white space on both sides, or at the start. ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status field_format(const json_t *row, const char *template, struct buf *out,
                                  struct err *e);
