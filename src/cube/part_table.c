#include "cube/part_table.h"
#include "cube/results_report.h"
#include "cube/text_table.h"
#include "util/quantity.h"
#include <math.h>
#include <string.h>
#include <time.h>

/* What a line says of a part. */
struct line {
    const char *state, *node;
    struct result_counts counts;
    double rate, left; /* results a second, seconds; NaN: unknown */
};

/* The state of a part that had done all that was planned when it ran, of a sweep that asks for more
 * now. */
static const char *const before = "done before";

bool part_table_runs(const struct part_table *t)
{
    for (int64_t i = 0; i < t->parts->n; i++)
        if (t->looks[i].holder.held) return true;
    return false;
}

static struct line line_of(const struct part_table *t, const struct inventory *all, int64_t i)
{
    const struct part_look *l = &t->looks[i];
    struct line out = {.rate = NAN, .left = NAN};
    out.counts = inventory_count(all, l->first, l->end);
    const int64_t pending = out.counts.by_state[STATE_PENDING];
    out.state = l->holder.held ? "running"
                : !l->plan     ? "starting"
                : pending == 0 ? "done"
                : l->stopped   ? "stopped"
                : l->ended     ? before
                               : "killed";
    out.node = l->holder.held ? l->holder.host : json_text(l->plan, "host", "");
    struct tm since = {0};
    if (l->holder.held && l->recent > 0 && strptime(l->holder.utc, "%Y-%m-%dT%H:%M:%SZ", &since))
        out.rate = (double)l->recent / fmax(difftime(time(NULL), timegm(&since)), 1);
    if (out.rate > 0) out.left = (double)pending / out.rate;
    return out;
}

/* Whether the part is of the cut that was planned last. */
static bool is_latest(const struct part_table *t, int64_t i)
{
    const char *utc = "", *own;
    int64_t n = 0;
    for (int64_t k = 0; k < t->parts->n; k++) {
        if (strcmp(own = json_text(t->looks[k].plan, "utc", ""), utc) < 0) continue;
        utc = own;
        n = t->parts->part[k].n;
    }
    return t->parts->part[i].n == n;
}

/* Parts of a cut that was given up for another have a line for results that are not merged. */
static bool is_shown(const struct part_table *t, int64_t i)
{
    return is_latest(t, i) || t->looks[i].holder.held || t->looks[i].alone;
}

/* --- for people --- */

enum { PART, NODE, STATE, DONE, FAILED, PENDING, RATE, LEFT, COLUMNS };

static void put_line(struct table *t, const char *name, const struct line *l)
{
    char left[QUANTITY], text[QUANTITY];
    table_add_row(t);
    table_set(t, PART, "%s", name);
    table_set(t, NODE, "%s", l->node);
    table_set(t, STATE, "%s", l->state);
    table_set(t, DONE, "%lld", (long long)l->counts.by_state[STATE_DONE]);
    table_set(t, FAILED, "%lld", (long long)l->counts.by_state[STATE_FAILED]);
    table_set(t, PENDING, "%lld", (long long)l->counts.by_state[STATE_PENDING]);
    if (isnan(l->rate)) return;
    quantity_plain(3600 * l->rate, 3, text);
    table_set(t, RATE, "%s", text);
    if (isnan(l->left)) return;
    quantity_time(l->left, left);
    table_set(t, LEFT, "%s", left);
}

enum status part_table_print(const struct part_table *t, const struct inventory *all, FILE *out,
                             struct err *e)
{
    CLEANUP(table_free) struct table table = {.columns = COLUMNS, .left = 1};
    static const char *const heads[COLUMNS] = {"part",   "node",    "state",  "done",
                                               "failed", "pending", "rate/h", "time left"};
    struct line whole = {.state = "", .node = "", .rate = NAN, .left = NAN};
    whole.counts = inventory_count(all, 0, INT64_MAX);
    table.align_left[PART] = table.align_left[NODE] = table.align_left[STATE] = true;
    table_add_texts(&table, heads);
    for (int64_t i = 0; i < t->parts->n; i++) {
        char name[64];
        const struct line l = line_of(t, all, i);
        if (!is_shown(t, i)) continue;
        snprintf(name, sizeof name, "%lld of %lld", (long long)t->parts->part[i].k,
                 (long long)t->parts->part[i].n);
        put_line(&table, name, &l);
        if (isnan(l.rate)) continue;
        whole.rate = isnan(whole.rate) ? l.rate : whole.rate + l.rate;
        whole.left = fmax(whole.left, l.left); /* parts run side by side */
    }
    if (whole.rate > 0) /* longer if parts wait */
        whole.left = fmax(whole.left, (double)whole.counts.by_state[STATE_PENDING] / whole.rate);
    put_line(&table, "sweep", &whole);
    PASS(table_print(&table, table_page_width(out), out, e));
    const struct part_places *p = t->parts;
    for (int64_t i = 0, end; i < p->n; i = end) { /* parts of a cut that have no journal */
        for (end = i; end < p->n && p->part[end].n == p->part[i].n;) end++;
        const int64_t missing = p->part[i].n - (end - i);
        if (missing > 0 && is_latest(t, i))
            fprintf(out, "%lld of %lld parts not started\n", (long long)missing,
                    (long long)p->part[i].n);
    }
    for (int64_t i = 0; i < p->n; i++) {
        if (!is_shown(t, i) || line_of(t, all, i).state != before) continue;
        fprintf(out, "%s: of the sweep as it was; what is pending there is not started\n", before);
        break;
    }
    return OK;
}

/* --- for machines --- */

json_t *part_table_json(const struct part_table *t, const struct inventory *all)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < t->parts->n; i++) {
        const struct part_place *p = &t->parts->part[i];
        if (!is_shown(t, i)) continue;
        const struct line l = line_of(t, all, i);
        json_t *one = json_pack("{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I}", "k", (json_int_t)p->k,
                                "n", (json_int_t)p->n, "journal", p->journal, "node", l.node,
                                "state", l.state, "done", (json_int_t)l.counts.by_state[STATE_DONE],
                                "failed", (json_int_t)l.counts.by_state[STATE_FAILED], "pending",
                                (json_int_t)l.counts.by_state[STATE_PENDING]);
        if (!isnan(l.rate)) json_object_set_new(one, "rate_per_second", json_real(l.rate));
        if (!isnan(l.left)) json_object_set_new(one, "seconds_left", json_real(l.left));
        json_array_append_new(list, one);
    }
    return list;
}

/* --- running visits --- */

/* Adds the visits; part: NULL, of no part. */
static void add_running(json_t *list, const json_t *visits, const struct part_place *part)
{
    size_t i;
    json_t *one;
    json_array_foreach(visits, i, one) {
        char name[48];
        json_t *copy = json_copy(one);
        if (part) {
            snprintf(name, sizeof name, "%lld/%lld", (long long)part->k, (long long)part->n);
            json_object_set_new(copy, "part", json_string(name));
        }
        json_array_append_new(list, copy);
    }
}

json_t *status_running_json(const struct report_about *about)
{
    json_t *list = json_array();
    const struct part_table *t = about->parts;
    add_running(list, about->running, NULL);
    for (int64_t i = 0; t && i < t->parts->n; i++)
        add_running(list, t->looks[i].running, &t->parts->part[i]);
    return list;
}

void status_running_print(const struct report_about *about, FILE *out)
{
    json_t *list = status_running_json(about), *one;
    size_t i;
    if (json_array_size(list) > 0) fprintf(out, "running:\n");
    json_array_foreach(list, i, one) {
        const char *part = json_text(one, "part", NULL), *what = json_text(one, "what", "");
        fprintf(out, "  %s, ", json_text(one, "name", ""));
        if (part) fprintf(out, "part %s, ", part);
        fprintf(out, "rank %lld, since %s%s%s\n", (long long)json_int(one, "rank"),
                json_text(one, "since", ""), what[0] ? ": " : "", what);
    }
    json_decref(list);
}
