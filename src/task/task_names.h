/* task_names: from the names that users give to the tasks that have files. */
#pragma once
#include "util/texts.h"

/* Adds the tasks of a list of names, with commas, blanks or line ends between: a task with subjects
 * as all those whose files are in the folder. ERR_USAGE: an unknown task, or none; ERR_IO: a task
 * without subjects there; ERR_NOMEM. */
MUST_USE enum status task_names(const char *names, const char *folder, struct texts *out,
                                struct err *e);
