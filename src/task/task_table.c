#include "task/task_table.h"
#include "options/nearest.h"
#include "task/task_make.h"
#include <stdio.h>
#include <string.h>

static const struct task tasks[] = {
    {.name = "arc_challenge",
     .data = "allenai/ai2_arc ARC-Challenge, test; examples: train",
     .doc = "school science questions that simple methods get wrong",
     .norm = true,
     .make = make_arc},
    {.name = "arc_easy",
     .data = "allenai/ai2_arc ARC-Easy, test; examples: train",
     .doc = "school science questions",
     .norm = true,
     .make = make_arc},
    {.name = "openbookqa",
     .data = "allenai/openbookqa main, test; examples: train",
     .doc = "elementary science facts and common sense",
     .norm = true,
     .make = make_openbookqa},
    {.name = "piqa",
     .data = "baber/piqa, validation; examples: train",
     .doc = "which of two ways reaches an everyday goal",
     .norm = true,
     .examples = EXAMPLES_APART,
     .make = make_piqa},
    {.name = "hellaswag",
     .data = "Rowan/hellaswag, validation; examples: train",
     .doc = "which ending follows a description",
     .norm = true,
     .examples = EXAMPLES_APART,
     .make = make_hellaswag},
    {.name = "winogrande",
     .data = "allenai/winogrande winogrande_xl, validation; examples: train",
     .doc = "which of two nouns fills a gap; the text behind the gap is scored",
     .examples = EXAMPLES_APART,
     .make = make_winogrande},
    {.name = "mathqa",
     .data = "regisss/math_qa, test; examples: train",
     .doc = "arithmetic word problems",
     .norm = true,
     .make = make_mathqa},
    {.name = "pubmedqa",
     .data = "bigbio/pubmed_qa pubmed_qa_labeled_fold0_source, test; examples: train",
     .doc = "yes, no or maybe, by the abstract of a biomedical paper",
     .make = make_pubmedqa},
    {.name = "sciq",
     .data = "allenai/sciq, test; examples: train",
     .doc = "science questions with a supporting text",
     .norm = true,
     .make = make_sciq},
    {.name = "social_iqa",
     .data = "lighteval/siqa, validation; examples: train",
     .doc = "what people in a situation want or do",
     .examples = EXAMPLES_APART,
     .make = make_social_iqa},
    {.name = "commonsense_qa",
     .data = "tau/commonsense_qa, validation; examples: train",
     .doc = "common sense, five choices named by letters",
     .examples = EXAMPLES_APART,
     .make = make_commonsense_qa},
    {.name = "mmlu",
     .data = "cais/mmlu, a configuration for each subject, test; examples: dev",
     .doc =
         "exam questions of 57 subjects, four choices named by letters; one subject: mmlu_SUBJECT",
     .subjects = true,
     .examples = EXAMPLES_FIRST,
     .make = make_mmlu},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

const struct task *task_at(int64_t i)
{
    return i < TASKS ? &tasks[i] : NULL;
}

static bool is_subject(const char *name)
{
    return name[0] && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name);
}

static enum status fail_unknown(const char *name, struct err *e)
{
    const char *names[TASKS], *near;
    char known[256] = "";
    for (int i = 0; i < TASKS; i++) names[i] = tasks[i].name;
    near = nearest_name(name, names, TASKS);
    NEED(!near, ERR_USAGE, "%s: unknown task, did you mean %s?", name, near);
    for (int i = 0; i < TASKS; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    RAISE(ERR_USAGE, "%s: unknown task, expected %s or mmlu_SUBJECT", name, known);
}

enum status task_find(const char *name, const struct task **out, const char **subject,
                      struct err *e)
{
    for (int i = 0; i < TASKS; i++) {
        const size_t n = strlen(tasks[i].name);
        *out = &tasks[i];
        *subject = NULL;
        if (strcmp(name, tasks[i].name) == 0) return OK;
        *subject = name + n + 1;
        if (tasks[i].subjects && strncmp(name, tasks[i].name, n) == 0 && name[n] == '_' &&
            is_subject(*subject))
            return OK;
    }
    return fail_unknown(name, e);
}
