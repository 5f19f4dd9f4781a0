/* Keys of records that follow from those of others. */
#include "records/results.h"
#include <stdio.h>

void results_cell_key(const char *checkpoint_key, const char *variant_key, char out[HASH_HEX])
{
    /* Digests of equal length, so that (ab, c) and (a, bc) give different keys. */
    char text[5 + 2 * HASH_HEX] = "cell ";
    hash_text(checkpoint_key, text + 5);
    hash_text(variant_key, text + 5 + HASH_HEX - 1);
    hash_text(text, out);
}

void results_replicate_key(const char *cell_key, int64_t replicate, char out[HASH_HEX])
{
    char text[64 + HASH_HEX];
    snprintf(text, sizeof text, "replicate %lld of %s", (long long)replicate, cell_key);
    hash_text(text, out);
}

void results_task_key(const char *of, const char *task_key, char out[HASH_HEX])
{
    char text[5 + 2 * HASH_HEX] = "task ";
    hash_text(of, text + 5);
    hash_text(task_key, text + 5 + HASH_HEX - 1);
    hash_text(text, out);
}
