#include "run/progress.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void failure_free(struct progress_failure *f)
{
    free(f->of);
    free(f->which);
    free(f->message);
}

void progress_free(struct progress *p)
{
    for (int64_t i = 0; i < p->n_failures; i++) failure_free(&p->failures[i]);
    free(p->failures);
}

void progress_start(struct progress *p, const int64_t *total)
{
    const double now = clock_seconds();
    *p = (struct progress){.start = now, .terminal = isatty(STDERR_FILENO)};
    for (int i = 0; i < MEASURES_N; i++) p->counts[i].total = total[i];
}

void progress_add(struct progress *p, int measure, int64_t done, int64_t failed)
{
    p->counts[measure].done += done;
    p->counts[measure].failed += failed;
}

/* --- failures --- */

/* Of a checkpoint's records which one this is: "gptq 3", "curvature"; NULL: the checkpoint itself.
 */
static enum status which_of(const json_t *record, char **out, struct err *e)
{
    const char *quantizer = json_text(record, "quantizer", NULL);
    const char *type = json_text(record, "type", "");
    const json_t *replicate = json_object_get(record, "replicate");
    const char *task = json_text(record, "task", NULL);
    const long long bits = json_int(record, "bits");
    if (quantizer && replicate)
        return mem_format(out, e, "%s %lld replicate %lld", quantizer, bits,
                          (long long)json_integer_value(replicate));
    if (quantizer && task) return mem_format(out, e, "%s %lld %s", quantizer, bits, task);
    if (quantizer) return mem_format(out, e, "%s %lld", quantizer, bits);
    if (task) return mem_string(out, task, e);
    const struct measure *m = measure_find(type);
    return m && m->prefix && m->prefix[0] ? mem_string(out, type, e) : OK;
}

/* What it is a record of: "MODEL CHECKPOINT", "surface NAME" and the label of its point. */
static enum status name_of(const json_t *record, char **out, struct err *e)
{
    const char *surface = json_text(record, "surface", NULL);
    const char *point = json_text(record, "point", "");
    if (surface) return mem_format(out, e, "surface %s%s%s", surface, *point ? " " : "", point);
    return mem_format(out, e, "%s %s", json_text(record, "model", ""),
                      json_text(record, "checkpoint", ""));
}

/* Adds to one that waits and says the same; false: there is none. */
static enum status join(struct progress *p, const struct progress_failure *f, bool *joined,
                        struct err *e)
{
    for (int64_t i = 0; i < p->n_failures && !*joined; i++) {
        struct progress_failure *to = &p->failures[i];
        if (strcmp(to->of, f->of) != 0 || strcmp(to->message, f->message) != 0) continue;
        *joined = true;
        if (!f->which) return OK;
        char *both;
        PASS(mem_format(&both, e, "%s%s%s", to->which ? to->which : "", to->which ? ", " : "",
                        f->which));
        free(to->which);
        to->which = both;
    }
    return OK;
}

enum status progress_fail(struct progress *p, const json_t *record, struct err *e)
{
    bool joined = false;
    CLEANUP(failure_free) struct progress_failure f = {.since = clock_seconds()};
    PASS(name_of(record, &f.of, e));
    PASS(which_of(record, &f.which, e));
    PASS(mem_string(&f.message, json_text(record, "message", ""), e));
    for (char *c = f.message; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    PASS(join(p, &f, &joined, e));
    if (joined) return OK;
    PASS(mem_grow(&p->failures, p->n_failures, &p->capacity, sizeof *p->failures, e));
    p->failures[p->n_failures++] = f;
    f = (struct progress_failure){0};
    return OK;
}

static void print_failures(struct progress *p, double waited)
{
    const double now = clock_seconds();
    int64_t kept = 0;
    for (int64_t i = 0; i < p->n_failures; i++) {
        struct progress_failure *f = &p->failures[i];
        if (now - f->since < waited) {
            p->failures[kept++] = *f;
            continue;
        }
        log_clear_line();
        fprintf(stderr, "failed: %s%s%s%s: %s\n", f->of, f->which ? " (" : "",
                f->which ? f->which : "", f->which ? ")" : "", f->message);
        failure_free(f);
    }
    p->n_failures = kept;
}

void progress_tell_failures(struct progress *p)
{
    const double others_may_follow = 0.5;
    print_failures(p, others_may_follow);
}

/* --- the line --- */

/* "12s", "3m 02s", "5h 06m", "7d 08h" */
static void put_seconds(FILE *l, double seconds, const char *before, const char *after)
{
    const long s = (long)(seconds + 0.5);
    fprintf(l, "%s", before);
    if (s >= 86400)
        fprintf(l, "%ldd %02ldh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        fprintf(l, "%ldh %02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        fprintf(l, "%ldm %02lds", s / 60, s % 60);
    else
        fprintf(l, "%lds", s);
    fprintf(l, "%s", after);
}

static void put_counts(FILE *l, const struct progress *p)
{
    int64_t failed = 0;
    for (int i = 0; i < MEASURES_N; i++) {
        const struct progress_count *c = &p->counts[i];
        if (!c->total) continue;
        const struct measure *m = measures[i];
        fprintf(l, "%lld/%lld %s, ", (long long)c->done, (long long)c->total,
                m->prefix[0] ? m->name : m->noun);
        failed += c->failed;
    }
    fprintf(l, "%lld failed", (long long)failed);
    put_seconds(l, clock_seconds() - p->start, ", ", " spent");
}

enum { LINE = 512 };

/* Characters that a line may have. */
static size_t room(const struct progress *p)
{
    struct winsize size = {0};
    const size_t most = LINE - 1;
    if (!p->terminal || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return most;
    return size.ws_col - 1u < most ? size.ws_col - 1u : most;
}

static bool anything(const struct progress *p)
{
    for (int i = 0; i < MEASURES_N; i++)
        if (p->counts[i].total) return true;
    return false;
}

/* With the batches that have run for longest; now = NULL: at the end. What has no room is cut. */
static void print_line(const struct progress *p, const struct sched_progress *now)
{
    enum { NAMED = 3 };
    char text[LINE];
    FILE *l = fmemopen(text, room(p) + 1, "w");
    if (!l) return;
    put_counts(l, p);
    if (now) put_seconds(l, now->left, ", ", " left");
    for (int64_t i = 0; now && i < now->n && i < NAMED; i++) {
        const struct sched_running *h = &now->running[i];
        fprintf(l, "%s%s (%s%s", i ? ", " : "; running: ", h->name ? h->name : "?", h->what,
                *h->what ? ", " : "");
        put_seconds(l, h->seconds, "", ")");
    }
    if (now && now->n > NAMED) fprintf(l, ", +%lld more", (long long)(now->n - NAMED));
    fclose(l);
    log_progress(text, now && p->terminal);
}

double progress_print(struct progress *p, const struct sched_progress *now)
{
    enum { FIRST = 1, TERMINAL = 1, LOG = 10, LOG_MOST = 60 };
    const double spent = clock_seconds() - p->start;
    if (!anything(p) && now->n == 0) return LOG_MOST;
    if (spent < FIRST) return FIRST - spent;
    print_failures(p, 0);
    print_line(p, now);
    if (p->terminal) return TERMINAL;
    return spent < LOG * 60 ? LOG : spent < LOG_MOST * 60 ? spent / 60 : LOG_MOST;
}

void progress_end(struct progress *p)
{
    print_failures(p, 0);
    if (anything(p)) print_line(p, NULL);
}

/* --- a measurement of curvature --- */

enum { TERMINAL_SECONDS = 1, LOG_SECONDS = 10 };

void curvature_progress_start(struct curvature_progress *p, double most, double expected)
{
    double now = clock_seconds();
    *p = (struct curvature_progress){.most = most,
                                     .expected = expected,
                                     .start = now,
                                     .printed = now,
                                     .terminal = isatty(STDERR_FILENO)};
}

void curvature_progress_text(const struct curvature_progress *p, double seconds,
                             char text[CURVATURE_PROGRESS])
{
    char spent[QUANTITY], left[QUANTITY];
    /* What is expected, until a product has shown how long one takes. */
    double each = p->done >= 2 ? seconds / p->done : p->expected / p->most;
    double rest = each * (p->most - p->done);
    quantity_time(seconds, spent);
    quantity_time(rest, left);
    int n = p->done < 1 ? snprintf(text, CURVATURE_PROGRESS, "curvature: gradient, %s", spent)
                        : snprintf(text, CURVATURE_PROGRESS,
                                   "curvature: %.0f of at most %.0f products with the Hessian, %s",
                                   p->done - 1, p->most - 1, spent);
    if (rest > 0) snprintf(text + n, CURVATURE_PROGRESS - (size_t)n, ", at most %s left", left);
}

void curvature_progress_add(void *context, double products)
{
    struct curvature_progress *p = context;
    char text[CURVATURE_PROGRESS];
    double now = clock_seconds();
    p->done += products;
    if (now - p->printed < (p->terminal ? TERMINAL_SECONDS : LOG_SECONDS)) return;
    p->printed = now;
    curvature_progress_text(p, now - p->start, text);
    log_progress(text, p->terminal);
}
