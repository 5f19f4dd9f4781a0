/* rope: rotary position embeddings (Su et al. 2021) with the scalings of long-context models. */
#pragma once
#include "model/hfconfig.h"

enum { ROPE_HALF_MAX = 512 };

/* The layers that a RoPE is of: those with full attention, which in most families are all that
 * rotate alike, and those with a sliding window, in families that tell them apart. */
enum rope_layers { ROPE_FULL, ROPE_WINDOW, ROPES_MAX };

/* How the angles were made, for people; theta and factor (1: not scaled) as config.json has them.
 */
struct rope_info {
    const char *type; /* "default", "linear", "llama3", "yarn" or "longrope"; static string */
    double theta, factor;
};

struct rope {
    struct rope_info info;
    int64_t half;             /* rotated pairs per head */
    float inv[ROPE_HALF_MAX]; // (half) radians per position, after scaling
    float scale;              /* factor on cos and sin (yarn); else 1 */
};
/* The same in f64, for the f64 build of the derivatives: rope.c is compiled for both. */
struct rope_f64 {
    struct rope_info info;
    int64_t half;
    double inv[ROPE_HALF_MAX];
    double scale;
};

/* What a family uses for keys that config.json lacks. */
struct rope_defaults {
    double theta,
        partial;   /* theta 0: must be there; partial: fraction of the head that is rotated */
    bool llama3;   /* scaling llama3 with factor 8, low 1, high 4, original 8192 */
    bool by_layer; /* layers with a window have a RoPE of their own */
};

/* Reads rope_parameters (transformers 5), or rope_theta and rope_scaling (4), or GPT-NeoX's
 * rotary_emb_base and rotary_pct. With by_layer, rope_parameters may hold an object for each type
 * of layer; if not, its scaling is that of ROPE_FULL alone. ERR_USAGE: a rope type that is not
 * supported; ERR_FORMAT. */
MUST_USE enum status rope_read(const struct hfconfig *c, int64_t head_dim, enum rope_layers layers,
                               const struct rope_defaults *d, struct rope *out, struct err *e);

/* cosine, sine (half) = cos and sin of the angles of one position, computed in f32 as torch does.
 */
void rope_angles(const struct rope *r, int64_t position, float *cosine, float *sine);
/* The same two in f64. */
MUST_USE enum status rope_read_f64(const struct hfconfig *c, int64_t head_dim,
                                   enum rope_layers layers, const struct rope_defaults *d,
                                   struct rope_f64 *out, struct err *e);
void rope_angles_f64(const struct rope_f64 *r, int64_t position, double *cosine, double *sine);
