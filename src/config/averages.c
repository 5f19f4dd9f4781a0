/* Entries of `averages`: their keys, and the checkpoints that they add to their models. */
#include "config/preset.h"
#include "options/nearest.h"
#include "quant/quant.h"
#include "util/mem.h"

static bool chooses_nothing(const void *greedy)
{
    const struct greedy_options *g = greedy;
    return !g->text.text && !g->text.ids;
}

static enum status check_judge(void *greedy, const struct option_scope *scope, struct err *e)
{
    struct greedy_options *g = greedy;
    PASS(data_heldout_table.finish(&g->text, scope, e));
    if (!g->judge == !g->bits) return OK;
    return options_fail(scope, "judge", e, "expected `judge` and `bits`, or neither");
}

static const struct option greedy_keys[] = {
    {.type = OPTION_KEYS,
     .table = &data_heldout_table,
     .offset = offsetof(struct greedy_options, text)},
    OPTION(greedy_options, judge, TEXT,
           "the loss is that of the weights quantized by this entry of `methods`, or by a method "
           "that `qtraj methods` lists",
           .otherwise = "in full precision"),
    OPTION(greedy_options, bits, INT, "width of `judge`", .unit = "bits", .fallback = "0",
           .otherwise = "in full precision", .low = QUANT_BITS_LEAST, .high = QUANT_BITS_FULL,
           OPTION_SPECIAL(0, NULL)),
};
static const struct option_table greedy_table = {OPTION_ROWS(greedy_keys, greedy_options),
                                                 .finish = check_judge, .absent = chooses_nothing};

static const char *const dtypes[] = {"members", "f32", NULL};
static const char *const decays[] = {"none", "linear", "1-sqrt", "cosine", NULL};

static const struct option keys[] = {
    OPTION(average_entry, name, TEXT,
           "label, each only once in its model; an average that slides is called NAME@CHECKPOINT "
           "after its last member",
           .required = true),
    OPTION(average_entry, window, INT,
           "LAWA: the mean of so many consecutive checkpoints, for every place in training",
           .unit = "checkpoints", .fallback = "0", .otherwise = "no window", .low = 1,
           .high = INT64_MAX, OPTION_SPECIAL(0, NULL)),
    OPTION(average_entry, decay, REAL,
           "exponential moving average: decay * the average before + (1 - decay) * the checkpoint; "
           "over all checkpoints so far, or with `window` over its checkpoints",
           .fallback = "0", .otherwise = "equal weights", .minimum = 0, .maximum = 0.999999),
    OPTION(average_entry, imitates, CHOICE,
           "window: weights with which checkpoints at a constant rate imitate a decay over them",
           .fallback = "none", .choices = decays),
    OPTION(average_entry, of, TEXTS,
           "soup: the mean of these checkpoints; MODEL/CHECKPOINT is one of another model",
           .otherwise = "none"),
    OPTION(average_entry, weights, REALS, "soup: weights of the checkpoints, relative to their sum",
           .count = offsetof(struct average_entry, n_weights), .capacity = AVERAGE_WEIGHTS_MAX,
           .otherwise = "equal", OPTION_ANY_REAL),
    OPTION(average_entry, phase, TEXT, "average only checkpoints of this phase of the table",
           .otherwise = "all"),
    OPTION(average_entry, stride, INT,
           "checkpoints from one average to the next, counted back from the last; 0: only the "
           "last average",
           .unit = "checkpoints", .fallback = "1", .low = 0, .high = INT64_MAX),
    OPTION(average_entry, dtype, CHOICE,
           "members: rounded to the type of the members' weights; f32: not rounded to 16 bits",
           .fallback = "members", .choices = dtypes),
    OPTION(average_entry, greedy, GROUP,
           "greedy soup of the checkpoints of `of`, or of all (of `phase`): in the order of their "
           "loss on this text, each is kept if the soup's loss does not rise",
           .table = &greedy_table),
    OPTION(average_entry, evaluated, BOOL,
           "greedy: the text may share sequences with `evaluation`, which favours the soup",
           .fallback = "false"),
};

bool average_is_greedy(const struct average_entry *a)
{
    return !chooses_nothing(&a->greedy);
}

/* --- who judges --- */

enum status average_judge(const struct sweep *s, const struct average_entry *a,
                          struct method_entry *out, struct err *e)
{
    enum status st = OK;
    const char *name = a->greedy.judge;
    struct method_entry m = {0};
    *out = m;
    if (!name) return OK;
    for (int64_t i = 0; i < s->n_methods; i++)
        if (strcmp(s->methods[i].name, name) == 0)
            return options_copy(&method_table, &s->methods[i], out, e);
    ENSURE(quant_find(name), ERR_USAGE, "%s: neither an entry of `methods` nor a method", name);
    options_default(&method_table, &m);
    TRY(mem_string(&m.name, name, e));
    TRY(mem_string(&m.method, name, e));
    TRY(quant_options_preset(&m.options, s->preset, name, e));
    *out = m;
    m = (struct method_entry){0};
done:
    options_free(&method_table, &m);
    return st;
}

bool averages_calibrate(const struct sweep *s)
{
    bool any = false;
    for (int64_t i = 0; i < s->n_models; i++)
        for (int64_t k = 0; k < s->models[i].n_averages; k++) {
            struct method_entry judge;
            if (average_judge(s, &s->models[i].averages[k], &judge, NULL) != OK) continue;
            const struct quant_method *m = judge.method ? quant_find(judge.method) : NULL;
            any = any || (m && quant_calibrates(m, &judge.options));
            options_free(&method_table, &judge);
        }
    return any;
}

/* The judge is there, with that width. */
static enum status find_judge(const struct sweep *s, const struct average_entry *a,
                              const struct option_scope *scope, struct err *e)
{
    enum status st;
    const struct option_scope greedy = options_in(scope, "greedy");
    struct method_entry m;
    struct err own = {0};
    if (average_judge(s, a, &m, &own) != OK)
        return options_fail(&greedy, "judge", e, "%s; `qtraj methods` lists these", own.text);
    if (!m.method) return OK;
    st = m.path ? options_fail(&greedy, "judge", e, "%s is stored, which averages are not", m.name)
                : OK;
    if (st == OK && quant_check(m.method, &m.options, &a->greedy.bits, 1, &own) != OK)
        st = options_fail(&greedy, "bits", e, "%s", own.text);
    options_free(&method_table, &m);
    return st;
}

static bool is_given(const struct option_scope *scope, const char *key)
{
    return options_in(scope, key).node != NULL;
}

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    static const char *const sliding[] = {"window", "decay", "imitates", "phase", "stride"},
                             *const equal[] = {"window", "decay", "imitates", "stride", "weights"};
    const struct average_entry *a = entry;
    const bool greedy = average_is_greedy(a);
    double sum = 0;
    if (!a->of && a->window == 0 && a->decay == 0 && !greedy)
        PASS(options_fail(scope, NULL, e,
                          "expected `window` (LAWA), `decay` (moving average), `of` (soup) or "
                          "`greedy` (soup chosen by loss)"));
    for (size_t i = 0; greedy && i < sizeof equal / sizeof *equal; i++)
        if (is_given(scope, equal[i]))
            PASS(options_fail(scope, equal[i], e,
                              "does not go with `greedy`, a mean in equal "
                              "parts of what it chooses"));
    if (a->evaluated && !greedy)
        PASS(options_fail(scope, "evaluated", e, "goes with `greedy`, whose text it concerns"));
    for (size_t i = 0; a->of && i < sizeof sliding / sizeof *sliding; i++)
        if (is_given(scope, sliding[i]))
            PASS(options_fail(scope, sliding[i], e,
                              "does not go with `of`, which names the "
                              "members"));
    if (a->imitates && (a->window < 2 || a->decay > 0))
        PASS(options_fail(scope, "imitates", e,
                          "goes with a `window` of 2 or more, without `decay`"));
    if (a->n_weights > 0 && !a->of)
        PASS(options_fail(scope, "weights", e, "go with `of`, whose checkpoints they weigh"));
    for (int64_t i = 0; i < a->n_weights; i++) sum += a->weights[i];
    if (a->n_weights > 0 && !(sum > 0))
        PASS(options_fail(scope, "weights", e, "they sum to %g, expected more than 0", sum));
    return OK;
}

const struct option_table average_table = {OPTION_ROWS(keys, average_entry), .finish = finish};

/* --- the rows that they add --- */

/* An entry of `averages` that is resolved. */
struct making {
    const struct sweep *s;
    int64_t model, number; /* of the entry, from 1 */
    struct model_entry *m;
    const struct average_entry *a;
    const struct option_scope *scope; /* of the entry */
    int64_t capacity;                 /* of m->rows */
    bool so_far;                      /* members may not be there yet */
};

static int64_t find_row(const struct model_entry *m, const char *name)
{
    for (int64_t i = 0; i < m->n_rows; i++)
        if (strcmp(m->rows[i].checkpoint, name) == 0) return i;
    return -1;
}

/* Appends a row; members (n) are taken over. */
static enum status add_row(struct making *k, const char *name, struct average_member *members,
                           int64_t n, struct err *e)
{
    struct model_entry *m = k->m;
    const struct average_member *last = &members[n - 1];
    const struct trajectory_row *like = &k->s->models[last->model].rows[last->row];
    struct trajectory_row row = {.step = like->step,
                                 .tokens = like->tokens,
                                 .learning_rate = like->learning_rate,
                                 .average = k->number,
                                 .n_members = n,
                                 .members = members};
    enum status st = OK;
    if (find_row(m, name) >= 0)
        TRY(options_fail(k->scope, "name", e,
                         "%s already has a checkpoint %s: give the average "
                         "another name",
                         m->name, name));
    TRY(mem_string(&row.checkpoint, name, e));
    TRY(mem_string(&row.phase, like->phase, e));
    TRY(mem_grow(&m->rows, m->n_rows, &k->capacity, sizeof *m->rows, e));
    m->rows[m->n_rows++] = row;
    return OK;
done:
    free(row.checkpoint);
    free(row.phase);
    free(members);
    return st;
}

/* How far training was at row i of the n rows of a window: in steps, where its first has them, else
 * in tokens. */
static double reached(const struct making *k, const int64_t *rows, int64_t i)
{
    const struct trajectory_row *r = &k->m->rows[rows[i]];
    return k->m->rows[rows[0]].step < 0 ? r->tokens : (double)r->step;
}

/* The same as a place in the window, from 0 to 1; of the nearest row for an i beyond them. */
static double place_of(const struct making *k, const int64_t *rows, int64_t i, int64_t n)
{
    const double first = reached(k, rows, 0), last = reached(k, rows, n - 1);
    return (reached(k, rows, i < 0 ? 0 : i < n ? i : n - 1) - first) / (last - first);
}

static double weight_of(const struct making *k, const int64_t *rows, int64_t i, int64_t n)
{
    if (!k->a->imitates) return average_weight(k->a->decay, i, n);
    return average_imitating(k->a->imitates, place_of(k, rows, i - 1, n), place_of(k, rows, i, n),
                             place_of(k, rows, i + 1, n));
}

/* The average of the n rows. */
static enum status add_average(struct making *k, const char *name, const int64_t *rows, int64_t n,
                               struct err *e)
{
    struct average_member *members = NULL;
    PASS(mem_zero(&members, n, sizeof *members, "members of an average", e));
    for (int64_t i = 0; i < n; i++)
        members[i] = (struct average_member){k->model, rows[i], weight_of(k, rows, i, n)};
    return add_row(k, name, members, n, e);
}

/* The same, called after its last member. */
static enum status add_window(struct making *k, const int64_t *rows, int64_t n, struct err *e)
{
    AUTO_FREE char *name = NULL;
    for (int64_t i = 1; i < n && k->a->imitates; i++)
        if (!(reached(k, rows, i) > reached(k, rows, i - 1)))
            PASS(options_fail(k->scope, "imitates", e,
                              "%s has no more steps or tokens than the checkpoint before it",
                              k->m->rows[rows[i]].checkpoint));
    PASS(mem_format(&name, e, "%s@%s", k->a->name, k->m->rows[rows[n - 1]].checkpoint));
    return add_average(k, name, rows, n, e);
}

/* *rows (the caller frees) = the n stored rows of the phase, at least one. ERR_USAGE says which
 * phases there are. */
static enum status find_phase(const struct making *k, int64_t **rows, int64_t *n, struct err *e)
{
    const char *phase = k->a->phase, *phases[16];
    char advice[300];
    int64_t n_phases = 0;
    *n = 0;
    PASS(mem_zero(rows, k->m->n_stored, sizeof **rows, "rows", e));
    for (int64_t i = 0; i < k->m->n_stored; i++)
        if (!phase || strcmp(k->m->rows[i].phase, phase) == 0) (*rows)[(*n)++] = i;
    if (*n > 0 || k->so_far) return OK;
    for (int64_t i = 0; i < k->m->n_stored && n_phases < 16; i++) {
        const char *own = k->m->rows[i].phase;
        bool known = !own[0];
        for (int64_t j = 0; j < n_phases; j++) known = known || strcmp(phases[j], own) == 0;
        if (!known) phases[n_phases++] = own;
    }
    nearest_advice(phase, phases, n_phases, advice, sizeof advice);
    return options_fail(k->scope, "phase", e, "no checkpoint of %s has the phase %s%s",
                        k->m->trajectory, phase, advice);
}

/* The averages of checkpoints of the phase: one of all, of which a greedy soup chooses, or those
 * that slide. */
static enum status add_of_phase(struct making *k, struct err *e)
{
    const struct average_entry *a = k->a;
    AUTO_FREE int64_t *rows = NULL;
    int64_t n = 0;
    PASS(find_phase(k, &rows, &n, e));
    if (average_is_greedy(a)) return n ? add_average(k, a->name, rows, n, e) : OK;
    if (a->window > n && k->so_far) return OK;
    if (a->window > n)
        PASS(options_fail(k->scope, "window", e, "%lld checkpoints; %s has %lld%s%s",
                          (long long)a->window, k->m->trajectory, (long long)n,
                          a->phase ? " of the phase " : "", a->phase ? a->phase : ""));
    /* A moving average of the first checkpoint alone is that checkpoint. */
    for (int64_t end = a->window ? a->window : 1 + (n > 1); end <= n; end++) {
        const int64_t first = a->window ? end - a->window : 0;
        if (a->stride ? (n - end) % a->stride == 0 : end == n)
            PASS(add_window(k, rows + first, end - first, e));
    }
    return OK;
}

/* --- soups --- */

/* The stored checkpoint of that name: of the model, else MODEL/CHECKPOINT. */
static enum status find_member(const struct making *k, const char *name, struct average_member *out,
                               bool *there, struct err *e)
{
    const struct sweep *s = k->s;
    out->model = k->model;
    out->row = find_row(k->m, name);
    for (int64_t i = 0; i < s->n_models && out->row < 0; i++) {
        const size_t n = strlen(s->models[i].name);
        if (strncmp(name, s->models[i].name, n) != 0 || name[n] != '/') continue;
        out->model = i;
        out->row = find_row(&s->models[i], name + n + 1);
    }
    *there = out->row >= 0;
    if (!*there && k->so_far) return OK;
    if (!*there)
        PASS(options_fail(k->scope, "of", e,
                          "no checkpoint of %s has the name %s; one of another model of the sweep "
                          "is MODEL/CHECKPOINT",
                          k->m->trajectory, name));
    if (s->models[out->model].rows[out->row].average)
        PASS(options_fail(k->scope, "of", e, "%s is an average itself", name));
    return OK;
}

/* Sets out (n) from the lines of `of`. */
static enum status find_members(const struct making *k, char *lines, struct average_member *out,
                                int64_t n, bool *there, struct err *e)
{
    char *at = lines;
    *there = true;
    for (int64_t i = 0; *there && i < n; i++) {
        char *name = strsep(&at, "\n");
        PASS(find_member(k, name, &out[i], there, e));
        out[i].weight = k->a->n_weights ? k->a->weights[i] : 1;
        for (int64_t j = 0; j < i; j++)
            if (out[j].model == out[i].model && out[j].row == out[i].row)
                PASS(options_fail(k->scope, "of", e, "%s is in the list twice", name));
    }
    return OK;
}

static enum status add_soup(struct making *k, struct err *e)
{
    AUTO_FREE struct average_member *members = NULL;
    AUTO_FREE char *lines = NULL;
    int64_t n = 1;
    bool there;
    for (const char *p = k->a->of; (p = strchr(p, '\n')) != NULL; p++) n++;
    if (k->a->n_weights > 0 && k->a->n_weights != n)
        PASS(options_fail(k->scope, "weights", e, "%lld of them, but `of` has %lld checkpoints",
                          (long long)k->a->n_weights, (long long)n));
    PASS(mem_string(&lines, k->a->of, e));
    PASS(mem_zero(&members, n, sizeof *members, "members of an average", e));
    PASS(find_members(k, lines, members, n, &there, e));
    if (!there) return OK;
    enum status st = add_row(k, k->a->name, members, n, e);
    members = NULL;
    return st;
}

/* --- all --- */

static enum status resolve_model(struct sweep *s, int64_t model, const struct option_scope *scope,
                                 struct err *e)
{
    struct model_entry *m = &s->models[model];
    const struct option_scope list = options_in(scope, "averages");
    struct making k = {.s = s,
                       .model = model,
                       .m = m,
                       .capacity = m->n_rows,
                       .so_far = scope->source->context != NULL};
    PASS(sweep_check_names(scope, "averages", m->averages, m->n_averages, sizeof *m->averages, e));
    for (int64_t i = 0; i < m->n_averages; i++) {
        const struct option_scope entry = options_entry(&list, i);
        k.a = &m->averages[i];
        k.number = i + 1;
        k.scope = &entry;
        PASS(find_judge(s, k.a, &entry, e));
        PASS(k.a->of ? add_soup(&k, e) : add_of_phase(&k, e));
    }
    return OK;
}

enum status averages_resolve(struct sweep *s, const struct option_scope *scope, struct err *e)
{
    const struct option_scope list = options_in(scope, "models");
    for (int64_t i = 0; i < s->n_models; i++) {
        const struct option_scope entry = options_entry(&list, i);
        PASS(resolve_model(s, i, &entry, e));
    }
    return OK;
}

int64_t trajectory_table_row(const struct sweep *s, int64_t model, int64_t row)
{
    const struct trajectory_row *r = &s->models[model].rows[row];
    if (!r->average) return row;
    const struct average_member *last = &r->members[r->n_members - 1];
    return last->model == model ? last->row : -1;
}

bool trajectory_follows(const struct model_entry *m, int64_t row)
{
    return row > 0 && m->rows[row].average == m->rows[row - 1].average;
}
