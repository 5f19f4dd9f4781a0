#include "cli/completion.h"
#include "cli/flags.h"
#include "util/mem.h"
#include <stdlib.h>

/* Flags of all commands, in the order of cli_command_at. */
struct all_flags {
    int64_t n, capacity;
    struct flag_list *of; // (n)
};

static void all_free(struct all_flags *all)
{
    for (int64_t i = 0; i < all->n; i++) flags_free(&all->of[i]);
    free(all->of);
}

static enum status all_list(struct all_flags *all, struct err *e)
{
    const struct command *command;
    for (; (command = cli_command_at((int)all->n)) != NULL; all->n++) {
        PASS(mem_grow(&all->of, all->n, &all->capacity, sizeof *all->of, e));
        all->of[all->n] = (struct flag_list){0};
        PASS(cli_command_flags(command, &all->of[all->n], e));
    }
    return OK;
}

static void put_words(const char *const *words, FILE *out)
{
    for (int i = 0; words[i]; i++) fprintf(out, "%s%s", i ? " " : "", words[i]);
}

static void put_commands(FILE *out)
{
    for (int i = 0; cli_command_at(i); i++)
        fprintf(out, "%s%s", i ? " " : "", cli_command_at(i)->name);
}

/* --- bash --- */

/* What stands behind COMMAND and a flag of it, if it is one of some words. */
static void put_bash_choices(const struct all_flags *all, FILE *out)
{
    for (int i = 0; i < all->n; i++)
        for (int64_t k = 0; k < all->of[i].n; k++) {
            const struct flag *f = &all->of[i].flags[k];
            if (!f->choices) continue;
            fprintf(out, "        %s:%s) words='", cli_command_at(i)->name, f->name);
            put_words(f->choices, out);
            fprintf(out, "' ;;\n");
        }
}

/* Flags whose value is not one of some words: files are offered. */
static void put_bash_values(const struct all_flags *all, FILE *out)
{
    for (int i = 0; i < all->n; i++)
        for (int64_t k = 0; k < all->of[i].n; k++) {
            const struct flag *f = &all->of[i].flags[k];
            if (f->value && !f->choices)
                fprintf(out, "        %s:%s) return ;;\n", cli_command_at(i)->name, f->name);
        }
}

static void put_bash_flags(const struct all_flags *all, FILE *out)
{
    for (int i = 0; i < all->n; i++) {
        fprintf(out, "        %s) words='", cli_command_at(i)->name);
        for (int64_t k = 0; k < all->of[i].n; k++) {
            const struct flag *f = &all->of[i].flags[k];
            fprintf(out, "%s%s%s%s", k ? " " : "", f->name, f->opposite ? " " : "",
                    f->opposite ? f->opposite : "");
        }
        fprintf(out, "' ;;\n");
    }
}

enum status completion_bash(FILE *out, struct err *e)
{
    enum status st = OK;
    struct all_flags all = {0};
    TRY(all_list(&all, e));
    fprintf(out, "# Completion of qtraj for bash, written by qtraj manuals.\n"
                 "_qtraj() {\n"
                 "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "    local command=${COMP_WORDS[1]} words=\n"
                 "    COMPREPLY=()\n"
                 "    # --flag=value is three words here\n"
                 "    if [[ $current == = ]]; then\n"
                 "        current=\n"
                 "    elif [[ $before == = ]]; then\n"
                 "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
                 "    fi\n"
                 "    if ((COMP_CWORD == 1)) || [[ $before == help ]]; then\n"
                 "        COMPREPLY=($(compgen -W '");
    put_commands(out);
    fprintf(out, "' -- \"$current\"))\n"
                 "        return\n"
                 "    fi\n"
                 "    case $command:$before in\n");
    put_bash_choices(&all, out);
    put_bash_values(&all, out);
    fprintf(out, "    esac\n"
                 "    [[ $words || $current == -* ]] || return\n"
                 "    [[ $words ]] || case $command in\n");
    put_bash_flags(&all, out);
    fprintf(out, "    esac\n"
                 "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                 "}\n"
                 "complete -o default -F _qtraj qtraj\n");
done:
    all_free(&all);
    return st;
}

/* --- zsh --- */

/* A text inside single quotes and square brackets. */
static void put_zsh_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            putc(*text, out);
    }
}

static void put_zsh_flag(const struct flag *f, FILE *out)
{
    /* a flag may stand there several times: --set and --only do */
    fprintf(out, " \\\n                '*%s%s[", f->name, f->value ? "=" : "");
    put_zsh_text(f->doc, out);
    fputs("]", out);
    if (f->value) fprintf(out, ":%s:", f->value);
    if (f->choices) {
        putc('(', out);
        put_words(f->choices, out);
        putc(')', out);
    } else if (f->value) {
        fputs("_files", out);
    }
    putc('\'', out);
    if (f->opposite) fprintf(out, " \\\n                '*%s'", f->opposite);
}

enum status completion_zsh(FILE *out, struct err *e)
{
    enum status st = OK;
    struct all_flags all = {0};
    TRY(all_list(&all, e));
    fprintf(out, "#compdef qtraj\n"
                 "# Completion of qtraj for zsh, written by qtraj manuals.\n"
                 "_qtraj() {\n"
                 "    local -a commands=(");
    for (int i = 0; i < all.n; i++) {
        fprintf(out, "\n        '%s:", cli_command_at(i)->name);
        put_zsh_text(cli_command_at(i)->doc, out);
        putc('\'', out);
    }
    fprintf(out, "\n    )\n"
                 "    if ((CURRENT == 2)) || [[ $words[2] == help ]]; then\n"
                 "        _describe command commands\n"
                 "        return\n"
                 "    fi\n"
                 "    shift words\n"
                 "    ((CURRENT--))\n"
                 "    case $words[1] in\n");
    for (int i = 0; i < all.n; i++) {
        fprintf(out, "        %s)\n            _arguments", cli_command_at(i)->name);
        for (int64_t k = 0; k < all.of[i].n; k++) put_zsh_flag(&all.of[i].flags[k], out);
        fprintf(out, " \\\n                '*:file:_files'\n            ;;\n");
    }
    fprintf(out, "    esac\n}\n_qtraj \"$@\"\n");
done:
    all_free(&all);
    return st;
}
