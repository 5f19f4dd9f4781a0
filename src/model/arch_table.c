#include "model/arch_table.h"
#include <stdio.h>
#include <string.h>

#define ARCH_LINE(name) &arch_##name,
static const struct arch *const table[] = {ARCHS(ARCH_LINE)};
enum { TABLE_N = sizeof table / sizeof *table };

const struct arch *arch_at(int i)
{
    return i >= 0 && i < TABLE_N ? table[i] : NULL;
}

const struct arch *arch_find(const char *model_type)
{
    for (int i = 0; i < TABLE_N; i++) {
        const struct arch *a = table[i];
        if (strcmp(a->name, model_type) == 0) return a;
        if (a->alias && strcmp(a->alias, model_type) == 0) return a;
    }
    return NULL;
}

const char *arch_name(const struct arch *a)
{
    return a->name;
}

const char *arch_doc(const struct arch *a)
{
    return a->doc;
}

void arch_list(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < TABLE_N && used < size; i++) {
        int n = snprintf(text + used, size - used, "%s%s", i ? ", " : "", table[i]->name);
        used += n > 0 ? (size_t)n : 0;
    }
}
