#include "model/positions.h"
#include "util/num.h"
#include <string.h>

const char *const positions_keys[] = {"max_position_embeddings",
                                      "max_sequence_length",
                                      "max_seq_len",
                                      "n_positions",
                                      "seq_length",
                                      NULL};

int64_t positions_written(const json_t *config)
{
    for (const char *const *key = positions_keys; *key; key++) {
        int64_t n = json_integer_value(json_object_get(config, *key));
        if (n > 0) return n;
    }
    return 0;
}

int64_t positions_usable(const json_t *config)
{
    const json_t *rope = json_object_get(config, "rope_parameters");
    if (!json_is_object(rope)) rope = json_object_get(config, "rope_scaling");
    const json_t *full = json_object_get(rope, "full_attention"); /* by type of layer */
    if (json_is_object(full)) rope = full;
    const char *type = json_text(rope, "rope_type", json_text(rope, "type", ""));
    const double factor = json_number_value(json_object_get(rope, "factor"));
    int64_t written = positions_written(config), before = written;
    if (strcmp(type, "yarn") == 0)
        before = json_int(rope, "original_max_position_embeddings");
    else if (strcmp(type, "linear") != 0)
        return written;
    const double scaled = (double)before * factor;
    return scaled > 0 && scaled < 1e15 ? max64(written, (int64_t)scaled) : written;
}
