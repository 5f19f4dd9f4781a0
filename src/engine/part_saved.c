#include "engine/part_saved.h"
#include "engine/inputs.h"
#include "engine/pace.h"
#include "util/mem.h"

static bool continues(void *context)
{
    const struct part_context *c = context;
    return reads_continue(c->provenance.reads, c->group);
}

static void move(void *context, struct saved_move *m)
{
    const struct part_context *c = context;
    reads_move(c->provenance.reads, m);
}

static bool stops(void *context)
{
    const struct visit_hooks *hooks = ((const struct part_context *)context)->hooks;
    return hooks->should_stop && hooks->should_stop(hooks->context);
}

static enum status describe(const struct part_context *c, int part, const char *settings,
                            char **label, struct saved_place *place, struct err *e)
{
    AUTO_FREE char *text = NULL;
    char inputs[HASH_HEX];
    const struct visit *v = c->visit;
    PASS(mem_format(label, e, "%s %s (%s)", v->model, v->checkpoint, measures[part]->doing));
    if (v->inputs) PASS(inputs_digest(v, inputs, e));
    PASS(mem_format(&text, e, "%s %s", v->inputs ? inputs : c->stamp[part],
                    c->provenance.weights_hash));
    hash_text(v->key, place->owner);
    hash_text(text, place->identity[SAVED_INPUTS]);
    hash_text(settings, place->identity[SAVED_SETTINGS]);
    hash_text(c->provenance.fingerprint, place->identity[SAVED_BUILD]);
    return OK;
}

enum status part_saved_open(const struct part_context *c, int part, const char *name,
                            const char *settings, struct saved **out, struct err *e)
{
    char hash[HASH_HEX];
    AUTO_FREE char *label = NULL;
    struct saved_place place = {.comm = c->group->comm,
                                .folder = c->visit->run.checkpoints,
                                .name = hash,
                                .move = move,
                                .continues = continues,
                                .stops = stops,
                                .context = (struct part_context *)(uintptr_t)c,
                                .ended = &c->cache->ended};
    *out = NULL;
    if (!place.folder) return OK;
    hash_text(name, hash);
    enum status st = describe(c, part, settings, &label, &place, e);
    place.label = label;
    PASS(group_agree(c->group, st, e));
    return saved_open(&place, out, e);
}

void part_saved_end(const struct part_context *c, struct saved *s, enum status st)
{
    if (!s) return;
    if (st == ERR_STOPPED || st == ERR_FULL || st == ERR_MPI || c->lost->code != OK)
        saved_close(s);
    else
        saved_end(s, &c->cache->ended);
}
