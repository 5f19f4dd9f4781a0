#include "records/state.h"
#include <string.h>

const char *const result_state_words[STATE_N] = {
    [STATE_PENDING] = "pending",
    [STATE_DONE] = "done",
    [STATE_FAILED] = "failed",
    [STATE_NOT_APPLICABLE] = "not_applicable",
};

enum result_state result_state_of(const json_t *record)
{
    const char *word = json_text(record, "status", "");
    if (!record) return STATE_PENDING;
    for (int i = 0; i < STATE_N; i++)
        if (strcmp(word, result_state_words[i]) == 0) return (enum result_state)i;
    return STATE_FAILED;
}
