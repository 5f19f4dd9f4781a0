#include "util/shell_words.h"
#include <stdarg.h>
#include <stdbool.h>

void shell_put_word(FILE *out, const char *word)
{
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

void shell_put(FILE *out, ...)
{
    va_list all;
    const char *text;
    va_start(all, out);
    for (bool word = false; (text = va_arg(all, const char *)) != NULL; word = !word)
        if (word)
            shell_put_word(out, text);
        else
            fputs(text, out);
    va_end(all);
}
