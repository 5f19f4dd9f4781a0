/* shell_words: commands for a shell, whose words are quoted. Local. */
#pragma once
#include <stdio.h>

/* A word in single quotes. */
void shell_put_word(FILE *out, const char *word);
/* Text as it is and words in turn, NULL after the last. */
void shell_put(FILE *out, ...);
