/* block: the insides of a model and of a block. Internal to this folder and to
 * curvature/hvp*. */
#pragma once
#include "model/arch.h"

struct model {
    struct spec spec;
    struct checkpoint *checkpoint; /* borrowed */
    char *file;                    /* config.json's path, for messages */
    float *embed;                  // (V, C) owned
    float *head;                   // (V, C) owned; NULL when tied
    float *norm, *norm_bias;       // (C) owned; NULL when the family has none
};

/* What a block has beside its linears. */
struct block_extra {
    const float *p[EXTRA_N]; /* by EXTRA_*; NULL when the family has none */
    struct xielu xielu;
};

/* Tokens of one sequence that are worked on together: rows [row, row + n) of the acts, at positions
 * pos.. of a sequence that starts at row `first`. valid: rows of the sequence that may be attended
 * to; 0: all. */
struct tile {
    int64_t row, first, pos, n, valid;
};

/* The whole name of a slot's tensor, the alias if the checkpoint has only that. layer < 0: outside
 * the blocks. */
enum { NAME_MAX_LEN = 256 };
void slot_name(const struct model *m, const struct slot *t, int64_t layer, char name[NAME_MAX_LEN]);
/* dst (elements) = the slot's tensor in f32. */
MUST_USE enum status slot_read(const struct model *m, const struct slot *t, int64_t layer,
                               float *dst, struct err *e);

/* What the checkpoint stores beyond the slots: known buffers and a tied head are left alone, other
 * strangers too, with a warning. ERR_FORMAT for a tensor that the family has and this config.json
 * denies (a bias, a q/k norm), and for layers beyond its last. */
MUST_USE enum status leftover_check(const struct model *m, struct err *e);

/* y = the family's norm of x, T rows of C. w, b as in struct block_extra. y may be x. */
void norm_rows(const struct spec *s, const float *w, const float *b, const float *x, int64_t T,
               float *y);

/* STAGE_O's input: attention of the rotated q, k, v in a->inner, heads side by side in a->in. */
void attention_forward(const struct spec *s, int64_t layer, struct acts *a);
/* Clipping, q/k norm and RoPE of one tile of a->inner. */
void attention_prepare(const struct spec *s, const struct block *b, const struct tile *t,
                       struct acts *a);
/* Values of q, k and v of one token, and where those of a head start. */
int64_t qkv_width(const struct spec *s);
void qkv_columns(const struct spec *s, int64_t head, int64_t *q, int64_t *k, int64_t *v);

/* Floats of a token in acts' in and inner. */
void acts_widths(const struct spec *s, int64_t *in, int64_t *inner);
/* Floats that the slots of a block take, each padded to a cache line. */
int64_t block_floats(const struct slot *slots, int n);
/* Cuts the sequences [s0, s1) into a->tiles of at most `tokens` tokens. */
void acts_cut(struct acts *a, const struct sequences *s, int64_t s0, int64_t s1, int64_t tokens);
/* Fills the table of angles for all positions below n. */
void acts_angles(const struct spec *s, struct acts *a, int64_t n);
enum { QUERY_TILE = 64, KEY_TILE = 512 };
