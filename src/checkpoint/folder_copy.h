/* folder_copy: tensors of an open checkpoint, stored or averaged, on their way into a folder
 * (folder_write.h). */
#pragma once
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder_write.h"

/* The tensor for a folder's plan, with the checkpoint's name (borrowed), type and shape. */
struct tensor_shape folder_shape(const struct tensor_entry *t);
/* Appends the checkpoint's tensor of that name as checkpoint_read_stored gives it, a piece of 4 MiB
 * at a time. Errors of both. */
MUST_USE enum status folder_copy_tensor(struct folder_out *o, const struct checkpoint *c,
                                        const char *name, struct err *e);
