/* task_make: for every task, the function that makes an item of a row (struct task). */
#pragma once
#include "task/item.h"
#include "util/json.h"

/* ARC, easy and challenge: a question, three to five answers under labels. */
MUST_USE enum status make_arc(const json_t *row, struct item *out, struct err *e);
/* The beginning of a sentence alone, and its ends under labels. */
MUST_USE enum status make_openbookqa(const json_t *row, struct item *out, struct err *e);
/* A goal and two ways to it. */
MUST_USE enum status make_piqa(const json_t *row, struct item *out, struct err *e);
/* A description and its endings, cleaned up. */
MUST_USE enum status make_hellaswag(const json_t *row, struct item *out, struct err *e);
/* Two beginnings of a sentence, and the one end. */
MUST_USE enum status make_winogrande(const json_t *row, struct item *out, struct err *e);
/* A problem, and the answers that are found in one text; there may be fewer than five. */
MUST_USE enum status make_mathqa(const json_t *row, struct item *out, struct err *e);
/* An abstract and a question; yes, no, maybe. */
MUST_USE enum status make_pubmedqa(const json_t *row, struct item *out, struct err *e);
/* A supporting text and a question; the right answer is the last of four. */
MUST_USE enum status make_sciq(const json_t *row, struct item *out, struct err *e);
/* A situation and a question, three answers. */
MUST_USE enum status make_social_iqa(const json_t *row, struct item *out, struct err *e);
/* A question with five answers; the choices are their letters. */
MUST_USE enum status make_commonsense_qa(const json_t *row, struct item *out, struct err *e);
/* A question with four answers; the choices are their letters. */
MUST_USE enum status make_mmlu(const json_t *row, struct item *out, struct err *e);
