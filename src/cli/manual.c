#include "cli/manual.h"
#include "cli/completion.h"
#include "cli/flags.h"
#include "config/preset.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/version.h"
#include <stdlib.h>
#include <string.h>

/* --- roff --- */

/* Text as roff, blanks that make no difference left alone. */
static void put_text(const char *text, FILE *out)
{
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            putc(*text, out);
        if (*text == '\n' && (text[1] == '.' || text[1] == '\'')) fputs("\\&", out);
    }
}

static void put_line(const char *before, const char *text, const char *behind, FILE *out)
{
    fputs(before, out);
    put_text(text, out);
    fprintf(out, "%s\n", behind);
}

static void put_head(const char *name, int section, FILE *out)
{
    char upper[64];
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof upper; i++)
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    upper[i] = '\0';
    fprintf(out, ".\\\" Written by qtraj manuals.\n");
    fprintf(out, ".TH \"%s\" %d \"\" \"qtraj %s\" \"qtraj\"\n", upper, section, version_release);
}

static void put_exit_codes(FILE *out)
{
    static const char *const codes[] = {
        [EXIT_DONE] = "Done.",
        [EXIT_CELLS_FAILED] =
            "Done, but cells failed (qtraj status says why); of doctor: there are warnings.",
        [EXIT_BAD_INPUT] = "Bad arguments, sweep file, text or checkpoint, or results that are "
                           "locked by another run.",
        [EXIT_STOPPED] = "Stopped by a signal or a full disk; start it again to continue.",
        [EXIT_INTERNAL] = "Internal error, or out of memory.",
    };
    fprintf(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        fprintf(out, ".TP\n.B %zu\n", i);
        put_line("", codes[i], "", out);
    }
}

/* A word in a font, which `font` begins. */
static void put_word(const char *font, const char *word, FILE *out)
{
    fputs(font, out);
    put_text(word, out);
    fputs("\\fR", out);
}

/* --- pages --- */

static void put_flags(const struct flag_list *l, FILE *out)
{
    fprintf(out, ".SH OPTIONS\n");
    for (int64_t i = 0; i < l->n; i++) {
        const struct flag *f = &l->flags[i];
        if (f->heading) put_line(".SS \"", f->heading, "\"", out);
        fprintf(out, ".TP\n");
        put_word("\\fB", f->name, out);
        if (f->value) put_word(" \\fI", f->value, out);
        if (f->opposite) put_word(", \\fB", f->opposite, out);
        put_line("\n", f->doc, "", out);
    }
}

static void put_see_also(FILE *out)
{
    fprintf(out, ".SH SEE ALSO\n.BR qtraj (1),\n.BR qtraj\\-sweep (5)\n");
}

static enum status put_command(const struct command *command, FILE *out, struct err *e)
{
    struct flag_list flags = {0};
    char name[80];
    PASS(cli_command_flags(command, &flags, e));
    snprintf(name, sizeof name, "qtraj-%s", command->name);
    put_head(name, 1, out);
    put_line(".SH NAME\n", name, " \\-", out);
    put_line("", command->doc, "", out);
    put_line(".SH SYNOPSIS\n.B qtraj ", command->name, "", out);
    put_line("", command->arguments, "", out);
    put_flags(&flags, out);
    put_exit_codes(out);
    put_see_also(out);
    flags_free(&flags);
    return OK;
}

static enum status put_overview(const struct command *unused, FILE *out, struct err *e)
{
    const struct command *command;
    (void)unused;
    (void)e;
    put_head("qtraj", 1, out);
    put_line(".SH NAME\nqtraj \\- ",
             "measure what quantization costs a language model along its training run", "", out);
    fprintf(out, ".SH SYNOPSIS\n.B qtraj\n.I COMMAND\n\\&...\n.SH DESCRIPTION\n");
    put_line("",
             "qtraj quantizes each checkpoint of a training run with several methods and "
             "bit-widths and stores the resulting losses in one HDF5 file. What it does is said "
             "in a sweep file. An interrupted run resumes where it stopped.",
             "", out);
    fprintf(out, ".SH COMMANDS\n");
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        put_line(".TP\n.BR qtraj\\-", command->name, " (1)", out);
        put_line("", command->doc, "", out);
    }
    put_exit_codes(out);
    put_see_also(out);
    return OK;
}

static void put_key(const struct option *o, FILE *out)
{
    char expected[OPTION_EXPECTED];
    const char *fallback = o->otherwise ? o->otherwise : o->fallback;
    option_expected(o, expected);
    put_line(".TP\n.B ", o->name, "", out);
    put_line("", o->doc, "", out);
    fputs(".br\n", out);
    put_text(expected, out);
    if (o->unit) fprintf(out, " (%s)", o->unit);
    if (o->required)
        fputs("; required\n", out);
    else if (fallback)
        put_line("; default: ", fallback, "", out);
    else
        putc('\n', out);
}

static void put_keys(const struct option_table *t, FILE *out)
{
    for (int64_t i = 0; i < t->n; i++)
        if (option_is_keys(&t->options[i]))
            put_keys(t->options[i].table, out);
        else
            put_key(&t->options[i], out);
}

static void put_sections(const struct option_table *t, FILE *out)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (o->type == OPTION_BOXED) put_sections(o->table, out);
        if (!o->table || o->type == OPTION_BOXED) continue;
        put_line(".SH \"KEYS OF ", o->name, "\"", out);
        put_keys(o->table, out);
    }
}

static enum status put_presets(FILE *out, struct err *e)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    NEED(memory, ERR_NOMEM, "out of memory for a page");
    preset_print(memory);
    const bool whole = fflush(memory) == 0 && !ferror(memory);
    fclose(memory);
    if (!whole) free(text);
    NEED(whole, ERR_NOMEM, "out of memory for a page");
    fprintf(out, ".SH PRESETS\n.nf\n");
    put_line("", text, ".fi", out);
    free(text);
    return OK;
}

static enum status put_sweep(const struct command *unused, FILE *out, struct err *e)
{
    (void)unused;
    put_head("qtraj-sweep", 5, out);
    put_line(".SH NAME\nqtraj\\-sweep \\- ", "sweep file of qtraj: what is quantized and measured",
             "", out);
    fprintf(out, ".SH DESCRIPTION\n");
    put_line("",
             "A sweep file is YAML. Relative paths are relative to the file; ${VAR} in a path is "
             "the environment's. --set KEY=VALUE overrides a key from the command line.",
             "", out);
    fprintf(out, ".SH KEYS\n");
    put_keys(&sweep_table, out);
    put_sections(&sweep_table, out);
    fprintf(out, ".SH \"COLUMNS OF A TRAJECTORY\"\n");
    put_keys(&row_table, out);
    PASS(put_presets(out, e));
    put_see_also(out);
    return OK;
}

/* --- files --- */

/* Writes FOLDER/NAME with what `put` prints. */
static enum status write_file(const char *folder, const char *name,
                              enum status (*put)(const struct command *command, FILE *out,
                                                 struct err *e),
                              const struct command *command, struct err *e)
{
    enum status st = OK;
    char *path = NULL, *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    ENSURE(out, ERR_NOMEM, "out of memory for %s", name);
    TRY(put(command, out, e));
    ENSURE(fflush(out) == 0 && !ferror(out), ERR_NOMEM, "out of memory for %s", name);
    TRY(mem_format(&path, e, "%s/%s", folder, name));
    TRY(fsx_make_parent(path, e));
    TRY(fsx_write_atomic(path, text, n, e));
done:
    if (out) fclose(out);
    free(text);
    free(path);
    return st;
}

static enum status put_bash(const struct command *unused, FILE *out, struct err *e)
{
    (void)unused;
    return completion_bash(out, e);
}

static enum status put_zsh(const struct command *unused, FILE *out, struct err *e)
{
    (void)unused;
    return completion_zsh(out, e);
}

enum status manual_write(const char *folder, struct err *e)
{
    const struct command *command;
    char name[80];
    PASS(write_file(folder, "man/man1/qtraj.1", put_overview, NULL, e));
    PASS(write_file(folder, "man/man5/qtraj-sweep.5", put_sweep, NULL, e));
    PASS(write_file(folder, "bash-completion/completions/qtraj", put_bash, NULL, e));
    PASS(write_file(folder, "zsh/site-functions/_qtraj", put_zsh, NULL, e));
    for (int i = 0; (command = cli_command_at(i)) != NULL; i++) {
        snprintf(name, sizeof name, "man/man1/qtraj-%s.1", command->name);
        PASS(write_file(folder, name, put_command, command, e));
    }
    return OK;
}
