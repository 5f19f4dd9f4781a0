/* pytorch: one pytorch_model*.bin, as torch.save writes it since PyTorch 1.6: a zip archive of a
 * pickle (pickle.h) and of the storages as they lie in memory. Once open it is read as a
 * safetensors file is: the tensors' bytes stand in the file as they are. */
#pragma once
#include "checkpoint/safetensors.h"

/* Opens and checks the file; reads no weights. *out is closed with safetensors_close and serves
 * safetensors_find and the reads. Tensors may share a storage. The digest covers the archive's
 * directory, with the checksums of all members. ERR_IO; ERR_FORMAT names file and member or tensor:
 * not such a file, compressed members, what a state dict does not hold, tensors that are not
 * contiguous. */
MUST_USE enum status pytorch_open(const char *path, struct safetensors *out, struct err *e);
