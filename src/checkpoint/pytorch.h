/* pytorch: one pytorch_model*.bin, as torch.save writes it since PyTorch 1.6: a zip archive of a
 * pickle (pickle.h) and uncompressed storages. Once open it is read like a safetensors file. */
#pragma once
#include "checkpoint/tensor_file.h"

/* Opens and checks the file, but reads no weights. *out is for safetensors_find and the reads, and
 * is closed with safetensors_close. Tensors may share a storage. The digest covers the archive's
 * directory, which has the checksums of all members. ERR_IO; ERR_FORMAT names file and member or
 * tensor: another format, compressed members, entries that are not part of a state dict, tensors
 * that are not contiguous; ERR_NOMEM. */
MUST_USE enum status pytorch_open(const char *path, struct safetensors *out, struct err *e);
