/* The saved state of a wave between two blocks, or between two streams in one: where it is, the
 * hidden states of all streams, scores of inputs, and what they have summed so far. Everything else
 * is computed anew for each block (docs/decisions/0023-saved-state.md). */
#include "engine/part_saved.h"
#include "engine/stored.h"
#include "util/log.h"
#include "util/mem.h"

static void move_layers(struct stream *s, struct saved_move *m)
{
    struct err why = {0};
    int64_t n = s->n_layers;
    saved_bytes(m, &n, sizeof n);
    for (int64_t i = 0; i < n && why.code == OK; i++) {
        if (saved_loads(m) &&
            mem_grow(&s->layers, i, &s->layers_capacity, sizeof *s->layers, &why) != OK)
            break;
        saved_text(m, &s->layers[i].name);
        saved_bytes(m, &s->layers[i].report, sizeof s->layers[i].report);
        s->n_layers = i + 1;
    }
    saved_fail(m, &why);
}

static void move_error(struct stream *s, struct saved_move *m)
{
    saved_bytes(m, &s->st, sizeof s->st);
    saved_bytes(m, s->err.text, sizeof s->err.text);
    if (saved_loads(m)) s->err.code = s->st;
}

/* A stream that has failed is not needed any more, nor are calibration states before the head. */
static void move_stream(const struct wave *v, struct stream *s, struct saved_move *m)
{
    move_error(s, m);
    move_layers(s, m);
    saved_bytes(m, &s->squared_distance, sizeof s->squared_distance);
    saved_bytes(m, &s->bits, sizeof s->bits);
    saved_bytes(m, &s->weights, sizeof s->weights);
    saved_bytes(m, &s->seconds, sizeof s->seconds);
    if (s->st != OK) return;
    parts_move(v->run->context, s->variant, m);
    states_move(s->evaluation, m);
    if (v->layer < v->layers) states_move(s->calibration, m);
}

/* The scores of inputs, which the full-precision stream has summed for the block. */
static void move_scores(const struct wave *v, struct saved_move *m)
{
    for (int k = 0; k < STATISTIC_N; k++)
        for (int stage = 0; stage < STAGE_N; stage++)
            if (statistic_at(k)->of_full && v->run->full.needs.statistics & WANTS(k))
                saved_bytes(m, v->w->sums[k][stage],
                            statistic_at(k)->count(v->w->sizes.cols[stage]) *
                                (int64_t)sizeof(double));
}

/* A later run may begin with what was a later wave here: its full-precision stream is then already
 * at the end. If it is not the first wave, that stream is there. */
static void move(void *context, struct saved_move *m)
{
    struct wave *v = context;
    struct run *r = v->run;
    const bool skips = saved_loads(m) && !v->first;
    bool full = v->full;
    double norm = r->weight_norm;
    saved_bytes(m, &v->layer, sizeof v->layer);
    saved_bytes(m, &v->passed, sizeof v->passed);
    saved_bytes(m, &full, sizeof full);
    saved_bytes(m, &norm, sizeof norm);
    saved_bytes(m, &r->seconds_read, sizeof r->seconds_read);
    saved_bytes(m, &r->full.seconds, sizeof r->full.seconds);
    if (saved_loads(m) && v->first) {
        v->full = full;
        r->weight_norm = norm;
    }
    if (skips)
        states_skip(r->full.evaluation, m);
    else
        states_move(r->full.evaluation, m);
    if (v->layer < v->layers) states_move(r->full.calibration, m);
    if (v->passed > 0) move_scores(v, m);
    parts_move(r->context, NULL, m);
    for (int64_t i = 0; i < v->n; i++) move_stream(v, v->streams[i], m);
}

/* What of tasks is in the states of the evaluation. Keys hold the digests of the data. */
static json_t *requests_settings(const struct wave *v)
{
    const struct visit *visit = v->run->visit;
    json_t *out = json_array();
    json_array_append_new(out, json_string(visit->requests.tasks));
    json_array_append_new(out, json_integer(visit->n_evaluations));
    json_array_append_new(out, json_boolean(v->run->unanswered.code != OK));
    return out;
}

/* The wave's records, and what their keys do not contain: settings of sums, which ranks write files
 * for the parts behind the blocks, and what these parts add to the state. */
static enum status describe(const struct wave *v, char **name, char **settings, struct err *e)
{
    const struct visit *visit = v->run->visit;
    const struct visit_group *g = v->run->group;
    const struct run_options *o = &visit->run;
    json_auto_t *records = json_pack("[s, s]", "cells", visit->key), *all = NULL;
    json_t *scored = json_array(), *nodes = json_array(), *parts = json_array();
    for (int64_t i = 0; i < v->n; i++) {
        json_array_append_new(records, json_string(v->streams[i]->variant->key));
        json_array_append_new(scored, json_boolean(v->streams[i]->variant->scored));
        if (v->streams[i]->stored && v->streams[i]->stored->checkpoint)
            json_array_append_new(scored,
                                  json_string(checkpoint_hash(v->streams[i]->stored->checkpoint)));
        if (v->streams[i]->variant->records)
            json_array_append_new(scored, json_string(v->streams[i]->variant->records));
    }
    for (int i = 0; g->node_of && i < g->size; i++)
        json_array_append_new(nodes, json_integer(g->node_of[i]));
    for (int i = 0; i < MEASURES_N; i++)
        if (measures[i]->move && visit_wants(visit, i))
            json_array_append_new(parts, json_string(measures[i]->name));
    all = json_pack("[i, I, b, o, o, o]", o->activations, (json_int_t)o->scalapack_from,
                    o->reproducible, scored, nodes, parts);
    if (visit->requests.tasks) json_array_append_new(all, requests_settings(v));
    if (visit->texts && visit->n_evaluations) json_array_append_new(all, json_string(visit->texts));
    if (visit->drawn_texts) json_array_append_new(all, json_string(visit->drawn_texts));
    *name = records ? json_dump_whole(records, JSON_COMPACT) : NULL;
    *settings = all ? json_dump_whole(all, JSON_COMPACT) : NULL;
    NEED(*name && *settings, ERR_NOMEM, "out of memory for a saved state");
    return OK;
}

/* What a part of the progress the blocks before the saved state are. */
static void skip_pace(const struct wave *v)
{
    const double layers = (double)v->layers, before = (double)v->layer;
    pace_skip(v->run->pace, wave_share_of_full(v) * (before + (v->passed > 0)) / layers);
    for (int64_t i = 0; i < v->n; i++)
        pace_skip(v->run->pace, v->streams[i]->share * (before + (i < v->passed)) / layers);
}

enum status wave_resume(struct wave *v, struct err *e)
{
    AUTO_FREE char *name = NULL, *settings = NULL;
    bool loaded = false;
    const struct run *r = v->run;
    v->level = (struct saved_level){.name = "wave", .move = move, .context = v};
    if (!r->scored || !r->visit->run.checkpoints || !parts_movable(r->visit)) return OK;
    PASS(group_agree(r->group, describe(v, &name, &settings, e), e));
    PASS(part_saved_open(r->context, MEASURE_cell, name, settings, &v->saved, e));
    PASS(group_agree(r->group, saved_enter(v->saved, &v->level, &loaded, e), e));
    if (!loaded) return OK;
    skip_pace(v);
    if (r->group->rank == 0)
        log_info("%s %s (cells): %lld of %lld blocks are done%s", r->visit->model,
                 r->visit->checkpoint, (long long)v->layer, (long long)v->layers,
                 v->passed ? ", and variants of the next one" : "");
    return OK;
}
