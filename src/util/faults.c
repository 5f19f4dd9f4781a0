#include "util/faults.h"
#include "util/mem.h"
#include "util/quantity.h"

void faults_free(struct faults *f)
{
    for (int64_t i = 0; i < f->n; i++) {
        free(f->all[i].who);
        free(f->all[i].text);
        free(f->all[i].last);
    }
    free(f->all);
    *f = (struct faults){0};
}

enum status faults_add(struct faults *f, const char *noun, const char *who, const char *text,
                       struct err *e)
{
    for (int64_t i = 0; i < f->n; i++) {
        struct fault *one = &f->all[i];
        if (strcmp(one->text, text) != 0) continue;
        if (strcmp(one->last, who) == 0) return OK;
        one->more++;
        mem_drop(&one->last);
        return mem_string(&one->last, who, e);
    }
    PASS(mem_grow(&f->all, f->n, &f->capacity, sizeof *f->all, e));
    struct fault *one = &f->all[f->n];
    *one = (struct fault){.noun = noun};
    f->n++; /* faults_free frees what there is of it */
    PASS(mem_string(&one->who, who, e));
    PASS(mem_string(&one->last, who, e));
    return mem_string(&one->text, text, e);
}

enum status faults_line(const struct faults *f, int64_t i, char **line, struct err *e)
{
    const struct fault *one = &f->all[i];
    PASS(mem_format(line, e, "%s%s%s", one->who, one->who[0] ? ": " : "", one->text));
    if (!one->more) return OK;
    return mem_append(line, e, " (%lld more %s%s likewise)", (long long)one->more, one->noun,
                      quantity_plural(one->more));
}

enum status faults_say(const struct faults *f, void (*say)(const char *fmt, ...), struct err *e)
{
    char *line;
    for (int64_t i = 0; i < f->n; i++) {
        PASS(faults_line(f, i, &line, e));
        say("%s", line);
        free(line);
    }
    return OK;
}
