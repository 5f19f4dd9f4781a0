/* Plans: what a key depends on, and which visits remain when some results are finished. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "records/scores.h"
#include "records/view.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/qtraj-plan-XXXXXX";

static const char sweep_text[] =
    "name: plan\n"
    "results: results.h5\n"
    "models:\n"
    "  - {name: small, trajectory: " CONFIGS "/quickstart/trajectory.csv,\n"
    "     path: '" CONFIGS "/quickstart/trajectory/{checkpoint}',\n"
    "     tokenizer: " CONFIGS "/quickstart/trajectory/tokenizer.json}\n"
    "bits: [3, 4]\n"
    "methods:\n"
    "  - {method: rtn, group_size: 64}\n"
    "  - {method: gptq, group_size: 64}\n"
    "calibration: {text: text.txt, length: 64, samples: 4}\n"
    "evaluation:\n"
    "  - {name: text, text: text.txt, length: 64, skip: 4}\n";

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

struct made {
    struct sweep sweep;
    struct plan plan;
};

/* The plan of the sweep above with overrides (at most two, NULL for none). */
static void make(struct made *m, const char *first, const char *second)
{
    const char *const overrides[] = {first, second};
    char path[256];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/sweep.yaml", folder);
    memset(m, 0, sizeof *m);
    if (sweep_read(path, overrides, (first != NULL) + (second != NULL), &m->sweep, &e) != OK)
        fail_msg("%s", e.text);
    if (plan_make(&m->sweep, false, &m->plan, &e) != OK) fail_msg("%s", e.text);
}

static void drop(struct made *m)
{
    plan_free(&m->plan);
    sweep_free(&m->sweep);
}

/* Key of the cell of the first checkpoint, by quantizer index and bits. */
static void cell_key(const struct made *m, int64_t quantizer, int64_t bits, char key[HASH_HEX])
{
    for (int64_t i = 0; i < m->plan.n_variants; i++) {
        const struct plan_variant *v = &m->plan.variants[i];
        if (v->quantizer == quantizer && v->bits == bits) {
            plan_cell_key(&m->plan, &m->plan.checkpoints[0], i, key);
            return;
        }
    }
    fail_msg("no variant %lld of %lld bits", (long long)quantizer, (long long)bits);
}

enum { RTN, GPTQ, TEXT };

static bool same_key(const char *first, const char *second, int64_t quantizer)
{
    struct made plain, other;
    char a[HASH_HEX], b[HASH_HEX];
    make(&plain, NULL, NULL);
    make(&other, first, second);
    cell_key(&plain, quantizer, 4, a);
    cell_key(&other, quantizer, 4, b);
    drop(&plain);
    drop(&other);
    return strcmp(a, b) == 0;
}

/* The digest by which records name the first text. */
static void text_key(const struct made *m, char key[HASH_HEX])
{
    memcpy(key, m->plan.lengths[0].texts[0], HASH_HEX);
}

static bool same_text(const char *first)
{
    struct made plain, other;
    char a[HASH_HEX], b[HASH_HEX];
    make(&plain, NULL, NULL);
    make(&other, first, NULL);
    text_key(&plain, a);
    text_key(&other, b);
    drop(&plain);
    drop(&other);
    return strcmp(a, b) == 0;
}

/* Settings that do not change results do not change keys. */
static void keys_survive_a_larger_sweep(void **state)
{
    (void)state;
    assert_true(same_key("bits=[2, 3, 4, 8]", NULL, GPTQ));
    assert_true(same_key("methods[1].name=other", NULL, GPTQ));
    assert_true(same_key("results=elsewhere.h5", "run.threads=3", GPTQ));
    assert_true(same_key("methods[1].damping=0.05", NULL, RTN));
    assert_true(same_key("calibration.samples=3", NULL, RTN));
    assert_true(same_key("run.memory_per_rank=1.5G", "run.scratch=off", GPTQ));
    assert_true(same_key("methods[1].hessian=shared", NULL, RTN));
    assert_true(same_key("run.products=f32", NULL, RTN));
    assert_true(same_key("run.rounding=f32", NULL, RTN));
    assert_true(same_key("run.products=bf16x3", "run.products=auto", RTN));
    assert_true(same_key("run.products=bf16x3", NULL, GPTQ));
    assert_true(same_key("models[0].averages=[{name: lawa, window: 2}]", NULL, GPTQ));
}

/* Curvature's key, and the settings of the second order, which complete a cell. */
static void check_derivatives_keys(const char *products, bool same)
{
    static const char *const asked = "curvature={sharpness: lanczos, second_order: total}";
    struct made plain, other;
    make(&plain, asked, NULL);
    make(&other, asked, products);
    assert_int_equal(strlen(plain.plan.checkpoints[0].keys[MEASURE_curvature]), HASH_HEX - 1);
    assert_true(same == (strcmp(plain.plan.checkpoints[0].keys[MEASURE_curvature],
                                other.plan.checkpoints[0].keys[MEASURE_curvature]) == 0));
    assert_true(same == (strcmp(plain.plan.checkpoints[0].keys[MEASURE_second_order],
                                other.plan.checkpoints[0].keys[MEASURE_second_order]) == 0));
    drop(&plain);
    drop(&other);
}

static void keys_of_derivatives_follow_their_products(void **state)
{
    (void)state;
    check_derivatives_keys("run.products=f32", true);
    check_derivatives_keys("run.products=bf16x3", true);
    check_derivatives_keys("run.products=auto", true);
    check_derivatives_keys("run.products=bf16x2", false);
    check_derivatives_keys("run.products=bf16", false);
}

static void keys_follow_what_a_number_depends_on(void **state)
{
    (void)state;
    assert_false(same_key("methods[1].damping=0.05", NULL, GPTQ));
    assert_false(same_key("methods[0].group_size=32", NULL, RTN));
    assert_false(same_key("methods[1].hessian=shared", NULL, GPTQ));
    assert_false(same_key("run.activations=bf16", NULL, RTN));
    assert_false(same_key("run.products=bf16", NULL, RTN));
    assert_false(same_key("run.rounding=bf16", NULL, RTN));
    assert_false(same_key("run.products=bf16x2", "run.products=bf16", RTN));
    assert_false(same_key("calibration.samples=3", NULL, GPTQ));
    assert_true(same_key("evaluation[0].skip=5", NULL, RTN));
    assert_false(same_text("evaluation[0].skip=5"));
    assert_true(same_text("evaluation[0].name=other"));
    assert_false(same_key("seed=1", NULL, GPTQ));
    assert_false(same_key("models[0].name=another", NULL, RTN));
    struct made m;
    char a[HASH_HEX], b[HASH_HEX];
    make(&m, NULL, NULL);
    cell_key(&m, RTN, 3, a);
    cell_key(&m, RTN, 4, b);
    assert_string_not_equal(a, b);
    cell_key(&m, GPTQ, 4, a);
    assert_string_not_equal(a, b);
    drop(&m);
}

/* Whether the last checkpoint's curvature has the same key in both sweeps. */
static bool same_curvature(const char *first, const char *second, const char *changed)
{
    struct made plain, other;
    make(&plain, first, second);
    make(&other, first, changed);
    int64_t last = plain.plan.n_checkpoints - 1;
    assert_true(plain.plan.checkpoints[last].keys[MEASURE_curvature][0]);
    bool same = strcmp(plain.plan.checkpoints[last].keys[MEASURE_curvature],
                       other.plan.checkpoints[last].keys[MEASURE_curvature]) == 0;
    drop(&plain);
    drop(&other);
    return same;
}

/* Whether the last checkpoint's movement has the same key in both sweeps. */
static bool same_movement(const char *changed)
{
    struct made plain, other;
    make(&plain, "movement=rtn", NULL);
    make(&other, "movement=rtn", changed);
    const int64_t last = plain.sweep.models[0].n_stored - 1;
    assert_true(plain.plan.checkpoints[last].keys[MEASURE_movement][0]);
    bool same = strcmp(plain.plan.checkpoints[last].keys[MEASURE_movement],
                       other.plan.checkpoints[last].keys[MEASURE_movement]) == 0;
    drop(&plain);
    drop(&other);
    return same;
}

/* Movement depends on two checkpoints and a grid, whose steps it is compared with. The first
 * checkpoint and a soup have none before them. */
static void keys_of_movement(void **state)
{
    (void)state;
    struct made m;
    assert_true(same_key("movement=rtn", NULL, RTN));
    assert_true(same_movement("evaluation[0].skip=5"));
    assert_true(same_movement("seed=1"));
    assert_true(same_movement("methods[1].group_size=32"));
    assert_true(same_movement("models[0].averages=[{name: soup, of: [step000100, step000300]}]"));
    assert_false(same_movement("methods[0].group_size=32"));
    assert_false(same_movement("methods[0].symmetric=false"));
    assert_false(same_movement("methods[0].bits=[3]"));
    assert_true(same_movement("movement_weights=0"));
    assert_false(same_movement("movement_weights=9"));
    assert_false(same_movement("models[0].name=another"));
    make(&m, "movement=rtn",
         "models[0].averages=[{name: s, window: 2, stride: 0}, {name: w, window: 7}]");
    const struct model_entry *model = &m.sweep.models[0];
    for (int64_t i = 0; i < m.plan.n_checkpoints; i++)
        assert_int_equal(m.plan.checkpoints[i].keys[MEASURE_movement][0] != '\0',
                         i > 0 && (i < model->n_stored || i == model->n_rows - 1));
    drop(&m);
    make(&m, NULL, NULL);
    assert_true(m.plan.checkpoints[1].keys[MEASURE_movement][0] == '\0');
    drop(&m);
}

/* Curvature has separate keys, which depend on its options and text; cells do not depend on them.
 */
static void keys_of_curvature(void **state)
{
    (void)state;
    static const char asked[] = "curvature={sharpness: lanczos, trace: 8, length: 64}";
    struct made m;
    make(&m, NULL, NULL);
    assert_true(m.plan.checkpoints[0].keys[MEASURE_curvature][0] == '\0');
    drop(&m);
    assert_true(same_key(asked, NULL, RTN));
    assert_true(same_curvature(asked, NULL, "bits=[2]"));
    assert_true(same_curvature(asked, NULL, "methods[0].group_size=32"));
    assert_true(same_curvature(asked, NULL, "calibration.samples=3"));
    assert_true(same_curvature(asked, NULL, "evaluation[0].name=other"));
    assert_true(same_curvature(asked, NULL, "evaluation[0].samples=3"));
    assert_true(same_curvature(asked, "curvature.sequences=4", NULL));
    assert_false(same_curvature(asked, NULL, "evaluation[0].skip=5"));
    assert_false(same_curvature(asked, NULL, "curvature.sequences=5"));
    assert_false(same_curvature(asked, NULL, "curvature.length=32"));
    assert_false(same_curvature(asked, NULL, "curvature.trace=9"));
    assert_false(same_curvature(asked, NULL, "curvature.subset=mat2d"));
    assert_false(same_curvature(asked, NULL, "curvature.seed=1"));
    assert_false(same_curvature(asked, NULL, "curvature.warm_start=true"));
    assert_false(same_curvature(asked, NULL, "curvature.data={text: sweep.yaml, length: 64}"));
}

/* The text's content matters, not its name. */
static void keys_follow_the_text(void **state)
{
    (void)state;
    char a[HASH_HEX], b[HASH_HEX];
    struct made m;
    write_file("copy.txt", "A text that calibrates and is scored.\n");
    assert_true(same_key("evaluation[0].text=copy.txt", "calibration.text=copy.txt", GPTQ));
    assert_true(same_text("evaluation[0].text=copy.txt"));
    make(&m, NULL, NULL);
    text_key(&m, a);
    drop(&m);
    write_file("text.txt", "Another text that calibrates and is scored.\n");
    make(&m, NULL, NULL);
    text_key(&m, b);
    drop(&m);
    write_file("text.txt", "A text that calibrates and is scored.\n");
    assert_string_not_equal(a, b);
}

/* A method with its own bits has no cells at other widths. */
static void visits_hold_the_applicable_cells(void **state)
{
    (void)state;
    struct made m;
    struct plan_visits visits;
    struct inventory all;
    struct plan_choice choice = {0};
    make(&m, "methods[1].bits=[4]", NULL);
    assert_int_equal(plan_visits_make(&m.plan, NULL, &choice, &visits, NULL), OK);
    assert_int_equal(visits.n, 8);
    assert_int_equal(visits.to_make[MEASURE_cell], 8 * 3);
    assert_int_equal(plan_inventory(&m.plan, NULL, &all, NULL), OK);
    const struct result_counts cells = rows_count(&all.rows[measure_place_of(&measure_cell)], -1);
    assert_int_equal(cells.records + cells.by_state[STATE_NOT_APPLICABLE], 8 * 4);
    assert_int_equal(cells.by_state[STATE_NOT_APPLICABLE], 8);
    assert_int_equal(cells.by_state[STATE_PENDING], 8 * 3);
    inventory_close(&all);
    plan_visits_free(&visits);

    char *only[] = {(char[]){"checkpoint=step000[39]00"}, (char[]){"bits=4"}};
    choice = (struct plan_choice){.n_only = 2, .only = only};
    assert_int_equal(plan_visits_make(&m.plan, NULL, &choice, &visits, NULL), OK);
    assert_int_equal(visits.n, 2);
    assert_int_equal(visits.to_make[MEASURE_cell], 4);
    plan_visits_free(&visits);
    drop(&m);
}

/* Prices a visit of model 0 in *out; returns what its batches share. */
static double price(const struct plan *p, const int64_t *which, const struct visit *v,
                    struct plan_visit *out)
{
    *out = (struct plan_visit){.visit = *v};
    assert_int_equal(plan_visit_price(p, which, out, NULL), OK);
    double sum = 0, shared = 0;
    for (int64_t i = 0; i < (1 + out->n_batches) * MEASURES_N; i++) sum += out->seconds[i];
    for (int k = 0; k < MEASURES_N; k++) shared += out->seconds[k];
    for (int64_t i = 0; i < out->n_batches; i++) sum -= out->batches[i];
    assert_float_equal(sum / out->cost, 1, 1e-9); /* by parts and by batches it is the same */
    assert_float_equal(shared / out->cost, 1, 1e-9);
    return out->cost;
}

static void price_free(struct plan_visit *v)
{
    free(v->batches);
    free(v->seconds);
}

/* Cost that second order adds: to each cell, and once to visits that have cells. */
static void visits_cost_their_second_order(void **state)
{
    (void)state;
    struct made plain, account;
    const int64_t which[] = {0, 2};
    struct variant variants[2] = {{.bits = 0}};
    const struct visit none = {0}, two = {.n_variants = 2, .variants = variants};
    struct plan_visit visits[4];
    double cell = 0;
    make(&plain, NULL, NULL);
    make(&account, "curvature={second_order: total, data: {text: text.txt, length: 64}}", NULL);
    assert_true(plain.plan.costs.models[0].known && account.plan.costs.models[0].known);
    const struct plan_model *m = &account.plan.costs.models[0];
    double without = price(&plain.plan, which, &two, &visits[0]);
    double with = price(&account.plan, which, &two, &visits[1]);
    double once = cost_seconds(&m->once[MEASURE_second_order], &account.plan.costs.rates, NULL);
    /* Computing overlaps with reading, so the sum may be less. */
    assert_true(once > 0 && with > without && with <= (without + once) * (1 + 1e-9));
    for (int i = 1; i < 3; i++) {
        double more = visits[1].batches[i] - visits[0].batches[i];
        assert_true(i == 1 || fabs(more - cell) <= 1e-9 * more);
        cell = more;
        assert_true(more > 2 * once); /* a loss and a product more */
    }
    assert_true(price(&account.plan, NULL, &none, &visits[2]) ==
                price(&plain.plan, NULL, &none, &visits[3]));
    for (int i = 0; i < 4; i++) price_free(&visits[i]);
    struct cost whole = plan_visit_cost(&account.plan, 0, which, 2);
    double second = cost_flop(&m->once[MEASURE_second_order]);
    second += 2 * m->cell[MEASURE_second_order].flop[COST_SECOND_ORDER];
    assert_float_equal(whole.flop[COST_SECOND_ORDER] / second, 1, 1e-9);
    assert_true(whole.flop[COST_CURVATURE] == 0);
    drop(&plain);
    drop(&account);
}

/* Whether a cell has one key under two overrides each. */
static bool one_key(const char *const a[2], const char *const b[2], int64_t quantizer)
{
    struct made first, second;
    char key[2][HASH_HEX];
    make(&first, a[0], a[1]);
    make(&second, b[0], b[1]);
    if (quantizer == TEXT) {
        text_key(&first, key[0]);
        text_key(&second, key[1]);
    } else {
        cell_key(&first, quantizer, 4, key[0]);
        cell_key(&second, quantizer, 4, key[1]);
    }
    drop(&first);
    drop(&second);
    return strcmp(key[0], key[1]) == 0;
}

/* length: auto is 2048, or the model's positions (1024 here) if it has fewer; keys hash what it
 * stands for, so that writing that number changes nothing. */
static void keys_hash_the_length_that_auto_stands_for(void **state)
{
    (void)state;
    static const char *const of[] = {"calibration.length", "evaluation[0].length"};
    /* Of the calibration the key of a cell that calibrates, of the evaluation the text's digest. */
    for (int i = 0; i < 2; i++) {
        const int64_t what = i == 0 ? GPTQ : TEXT;
        char open[64], fewer[64], usual[64];
        snprintf(open, sizeof open, "%s=auto", of[i]);
        snprintf(fewer, sizeof fewer, "%s=1024", of[i]);
        snprintf(usual, sizeof usual, "%s=2048", of[i]);
        static const char unknown[] = "models[0].path=/nowhere/{checkpoint}";
        const char *const here[][2] = {{open, NULL}, {fewer, NULL}, {usual, NULL}};
        const char *const there[][2] = {{open, unknown}, {fewer, unknown}, {usual, unknown}};
        assert_true(one_key(here[0], here[1], what));
        assert_false(one_key(here[0], here[2], what));
        assert_true(one_key(there[0], there[2], what));
        assert_false(one_key(there[0], there[1], what));
        assert_true(one_key(here[1], there[1], what)); /* paths are no part of keys */
        assert_true(one_key(here[0], here[2], RTN));
    }
}

/* Visits get numbers, and every record that the plan enumerates is one of its visits'. */
static void visits_have_settled_lengths(void **state)
{
    (void)state;
    struct made m;
    struct plan_visits visits;
    struct inventory all;
    const struct plan_choice choice = {0};
    make(&m, "calibration.length=auto", "evaluation[0].length=auto");
    assert_int_equal(plan_visits_make(&m.plan, NULL, &choice, &visits, NULL), OK);
    assert_int_equal(visits.visits[0].visit.calibration.length, 1024);
    assert_int_equal(visits.visits[0].visit.evaluations[0].length, 1024);
    assert_int_equal(plan_inventory(&m.plan, NULL, &all, NULL), OK);
    const struct rows *cells = &all.rows[measure_place_of(&measure_cell)];
    for (int64_t i = 0, at = 0; i < visits.n; i++)
        for (int64_t k = 0; k < visits.visits[i].visit.n_variants; k++, at = rows_next(cells, at))
            assert_string_equal(visits.visits[i].visit.variants[k].key, cells->rows[at].key);
    inventory_close(&all);
    plan_visits_free(&visits);
    drop(&m);
}

/* --only: each pattern must match something, and all of them together too. */
static void patterns_that_match_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *only[2], *expected; /* NULL: they match */
    } cases[] = {
        {{"bits=4", "quantizer=g*"}, NULL},
        {{"bits=9"}, "--only bits=9: matches none of the sweep's bits; there are: 3, 4"},
        {{"bits=4", "checkpoint=step00100"},
         "--only checkpoint=step00100: matches none of the sweep's checkpoints, did you mean "
         "step000100?"},
        {{"model=large"},
         "--only model=large: matches none of the sweep's models; there are: small"},
        {{"surface=a"}, "--only surface=a: the sweep has no surfaces"},
        {{"bits=3", "quantizer=gptq"}, "nothing matches all of them together"},
    };
    struct made m;
    make(&m, "methods[1].bits=[4]", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2][64], *only[2] = {text[0], text[1]};
        struct plan_choice choice = {.only = only};
        struct err e = {0};
        for (; choice.n_only < 2 && cases[i].only[choice.n_only]; choice.n_only++)
            snprintf(text[choice.n_only], 64, "%s", cases[i].only[choice.n_only]);
        enum status st = plan_choice_match(&m.plan, &choice, &e);
        assert_int_equal(st, cases[i].expected ? ERR_USAGE : OK);
        if (cases[i].expected && !strstr(e.text, cases[i].expected)) fail_msg("%s", e.text);
        err_clear(&e);
    }
    drop(&m);
}

/* JSON round trip of a visit. */
static void visits_survive_the_way(void **state)
{
    (void)state;
    struct made m;
    struct plan_visits visits;
    struct plan_choice choice = {0};
    struct visit back;
    make(&m, NULL, NULL);
    assert_int_equal(plan_visits_make(&m.plan, NULL, &choice, &visits, NULL), OK);
    json_t *sent = visit_to_json(&visits.visits[0].visit);
    assert_int_equal(visit_from_json(sent, &back, NULL), OK);
    json_t *again = visit_to_json(&back);
    assert_true(json_equal(sent, again));
    json_decref(sent);
    json_decref(again);
    visit_free(&back);
    plan_visits_free(&visits);
    drop(&m);
}

/* A record of that key, which is done. */
static void add_done(struct results_view *view, const char *type, const char *key, const char *text)
{
    json_t *r = json_pack("{s:s, s:s, s:s, s:s, s:{}}", "type", type, "key", key, "status", "done",
                          "soup_members", "step000300", "provenance");
    scores_note(json_object_get(r, "provenance"), text, "m", false, NULL, NULL);
    assert_int_equal(view_add(view, r, NULL), OK);
    json_decref(r);
}

/* Cells of a soup that is chosen anew are made anew; those of a finished one are not. */
static void soups_are_of_one_choice(void **state)
{
    (void)state;
    struct made m;
    char key[HASH_HEX];
    write_file("heldout.txt", "some other text that is long enough for a sequence of tokens");
    make(&m,
         "models[0].averages=[{name: soup, of: [step000100, step000300], greedy: {text: "
         "heldout.txt, length: 8}}]",
         NULL);
    const struct plan_checkpoint *soup = &m.plan.checkpoints[m.plan.n_checkpoints - 1];
    assert_int_equal(soup->weights.kind, WEIGHTS_GREEDY);
    plan_cell_key(&m.plan, soup, 0, key);
    for (int finished = 0; finished < 2; finished++) {
        struct plan_visits visits = {0};
        struct plan_choice choice = {0};
        struct results_view *view;
        assert_int_equal(view_new(&view, NULL), OK);
        add_done(view, "cell", key, m.plan.lengths[0].texts[0]);
        if (finished) add_done(view, "checkpoint", soup->key, m.plan.lengths[0].texts[0]);
        assert_int_equal(plan_visits_make(&m.plan, view, &choice, &visits, NULL), OK);
        int64_t cells = 0;
        for (int64_t i = 0; i < visits.n; i++) {
            const struct visit *v = &visits.visits[i].visit;
            if (strcmp(v->checkpoint, "soup") == 0) cells += v->n_variants;
        }
        assert_int_equal(cells, m.plan.n_variants - finished);
        plan_visits_free(&visits);
        results_view_close(view);
    }
    drop(&m);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    write_file("sweep.yaml", sweep_text);
    write_file("text.txt", "A text that calibrates and is scored.\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"sweep.yaml", "text.txt", "copy.txt", "heldout.txt"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

/* More ranks change the last digits; scratch and waves do not, so they come first. */
static void more_ranks_come_last(void **state)
{
    (void)state;
    struct made m;
    struct memory_plan all, tight = {0};
    struct err e = {0};
    int64_t which[4] = {0, 1, 2, 3}, low = 1 << 20;
    make(&m, NULL, NULL);
    assert_int_equal(m.plan.n_variants, 4);
    struct plan_rank rank = {.threads = 1, .scratch = true};
    assert_int_equal(plan_visit_memory(&m.plan, 0, which, 4, &rank, &all, &e), OK);
    assert_true(all.waves == 1 && !all.place.scratch);
    int64_t high = memory_bound(all.peak);
    while (high - low > 1 << 12) {
        rank.memory = low + (high - low) / 2;
        if (plan_visit_memory(&m.plan, 0, which, 4, &rank, &tight, NULL) == OK)
            high = rank.memory;
        else
            low = rank.memory;
    }
    rank.memory = high;
    assert_int_equal(plan_visit_memory(&m.plan, 0, which, 4, &rank, &tight, &e), OK);
    assert_true(tight.place.scratch || tight.waves > 1);
    rank.ranks = rank.mates = 4;
    assert_int_equal(plan_model_ranks(&m.plan, 0, which, 4, &rank), 1);
    rank.memory = low;
    assert_true(plan_model_ranks(&m.plan, 0, which, 4, &rank) > 1);
    /* The measured memory of a process before its first visit is counted. */
    rank.base = memory_base(1) - (8 << 20);
    assert_int_equal(plan_model_ranks(&m.plan, 0, which, 4, &rank), 1);
    drop(&m);
}

/* Where a rank's memory retains activations, a product costs six passes of the linears instead of
 * eleven, of attention and the head less clearly fewer (memory.test_cost). */
static void memory_decides_what_products_cost(void **state)
{
    (void)state;
    struct made m;
    struct memory_plan plan;
    int64_t which[4] = {0, 1, 2, 3};
    make(&m, "curvature={sharpness: lanczos, products: 20, second_order: total, length: 64}", NULL);
    const struct plan_model *model = &m.plan.costs.models[0];
    const double again = cost_flop(&model->once[MEASURE_curvature]);
    const double cell = model->cell[MEASURE_second_order].flop[COST_SECOND_ORDER];
    struct plan_rank rank = {.threads = 1, .ranks = 1, .mates = 1, .memory = (int64_t)1 << 40};
    plan_costs_fit(&m.plan, 0, &rank);
    assert_true(model->kept[MEASURE_curvature] && model->kept[MEASURE_second_order]);
    const double curvature = cost_flop(&model->once[MEASURE_curvature]) / again;
    const double second_order = model->cell[MEASURE_second_order].flop[COST_SECOND_ORDER] / cell;
    assert_true(curvature > 123. / 224 && curvature < 0.75);
    assert_true(second_order > 7. / 12 && second_order < 0.75);
    /* As much as is enough without retaining, which is also what plans show. */
    assert_int_equal(plan_visit_memory(&m.plan, 0, which, 4, &rank, &plan, NULL), OK);
    int64_t low = 1 << 20, high = memory_bound(plan.peak);
    while (high - low > 1 << 12) {
        rank.memory = low + (high - low) / 2;
        struct err none = {0};
        if (plan_visit_memory(&m.plan, 0, which, 4, &rank, &plan, &none) == OK)
            high = rank.memory;
        else
            low = rank.memory;
        err_clear(&none);
    }
    rank.memory = high;
    plan_costs_fit(&m.plan, 0, &rank);
    assert_false(model->kept[MEASURE_curvature]);
    assert_float_equal(cost_flop(&model->once[MEASURE_curvature]) / again, 1, 1e-9);
    drop(&m);
}

/* Visits of what is staged run in training order, an average after its last member; their job has
 * each stored checkpoint once. */
static void staged_visits_are_in_training_order(void **state)
{
    const struct plan_part part = {0};
    const struct plan_choice choice = {0};
    struct plan_visits v;
    struct made m;
    struct err e = {0};
    json_t *job;
    (void)state;
    make(&m, "models[0].stage=[fetch, '{path}']",
         "models[0].averages=[{name: pair, window: 2}, {name: last, window: 3, stride: 0}]");
    if (plan_visits_make(&m.plan, NULL, &choice, &v, &e) != OK) fail_msg("%s", e.text);
    if (plan_stage_job(&m.plan, &v, &part, true, &job, &e) != OK) fail_msg("%s", e.text);
    const int64_t n = m.sweep.models[0].n_stored;
    assert_int_equal(v.n, 2 * n);
    for (int64_t i = 0; i < v.n; i++) {
        const char *name = v.visits[i].visit.checkpoint, *of = strchr(name, '@');
        const size_t reads = json_object_size(json_object_get(v.visits[i].stage, "reads"));
        assert_int_equal(v.visits[i].turn, 1 + i);
        assert_int_equal(reads, !of ? 1 : name[0] == 'p' ? 2 : 3);
        if (of && name[0] == 'p') assert_string_equal(of + 1, v.visits[i - 1].visit.checkpoint);
    }
    assert_true(strncmp(v.visits[v.n - 1].visit.checkpoint, "last@", 5) == 0);
    assert_int_equal(json_object_size(json_object_get(job, "items")), n);
    json_decref(job);
    plan_visits_free(&v);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_survive_a_larger_sweep),
        cmocka_unit_test(keys_follow_what_a_number_depends_on),
        cmocka_unit_test(keys_of_derivatives_follow_their_products),
        cmocka_unit_test(keys_of_curvature),
        cmocka_unit_test(keys_of_movement),
        cmocka_unit_test(keys_follow_the_text),
        cmocka_unit_test(visits_hold_the_applicable_cells),
        cmocka_unit_test(visits_cost_their_second_order),
        cmocka_unit_test(soups_are_of_one_choice),
        cmocka_unit_test(visits_survive_the_way),
        cmocka_unit_test(keys_hash_the_length_that_auto_stands_for),
        cmocka_unit_test(visits_have_settled_lengths),
        cmocka_unit_test(patterns_that_match_nothing),
        cmocka_unit_test(more_ranks_come_last),
        cmocka_unit_test(memory_decides_what_products_cost),
        cmocka_unit_test(staged_visits_are_in_training_order),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
