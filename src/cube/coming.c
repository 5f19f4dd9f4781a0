/* What a law says of runs that are still trained. */
#include "cube/coming.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>

#define FORMAT "qtraj coming 1"
enum { MOST_BYTES = 1 << 24 };

static enum status read_file(const char *path, json_t **out, struct err *e)
{
    PASS(json_read_file(path, MOST_BYTES, out, e));
    NEED(strcmp(json_text(*out, "format", ""), FORMAT) == 0, ERR_FORMAT,
         "%s: not what predict.py --ahead writes", path);
    return OK;
}

json_t *coming_read(const char *results)
{
    struct err why = {0};
    json_t *found = NULL;
    AUTO_FREE char *path = NULL;
    enum status st = mem_format(&path, &why, "%s.coming.json", results);
    if (st == OK && fsx_is_file(path)) st = read_file(path, &found, &why);
    if (st != OK) {
        log_warn("%s", why.text);
        json_drop(&found);
    }
    return found;
}

static double number(const json_t *row, const char *name)
{
    return json_number_get(json_object_get(row, name));
}

void coming_print(const json_t *coming, FILE *out)
{
    const json_t *row;
    size_t i;
    if (!coming) return;
    fprintf(out, "coming, nats a token at %.4g tokens, as %s says, written %s:\n",
            number(coming, "end"), json_text(coming, "law", "?"), json_text(coming, "utc", "?"));
    json_array_foreach(json_object_get(coming, "rows"), i, row) {
        const char *outside = json_text(row, "outside", "");
        fprintf(out, "  %s, %s at %g bits: %.4g", json_text(row, "model", "?"),
                json_text(row, "quantizer", "?"), number(row, "bits"), number(row, "delta"));
        if (!isnan(number(row, "low")))
            fprintf(out, " (95 %%: %.4g to %.4g)", number(row, "low"), number(row, "high"));
        fprintf(out, "; %.4g at %s", number(row, "delta_now"), json_text(row, "checkpoint", "?"));
        if (outside[0]) fprintf(out, "; outside of the law's points: %s", outside);
        putc('\n', out);
    }
}
