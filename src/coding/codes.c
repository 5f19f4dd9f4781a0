#include "coding/codes.h"
#include <math.h>

const struct codes codes_nf4 = {
    .n = 16,
    .value = {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
              -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0,
              0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
              0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,
              1},
    .threshold = {-0.8480964004993439f, -0.6106329262256622f, -0.4599952697753906f,
                  -0.33967943489551544f, -0.23460740596055984f, -0.13791173323988914f,
                  -0.045525018125772476f, 0.03979014977812767f, 0.1202552504837513f,
                  0.2035212516784668f, 0.2920137718319893f, 0.3893125355243683f,
                  0.5016634166240692f, 0.6427869200706482f, 0.8614784178118011f},
};

const struct codes codes_fp4 = {
    .n = 8,
    .sign = true,
    .value = {0, 0.0625f / 12, 2.0f / 12, 3.0f / 12, 4.0f / 12, 6.0f / 12, 8.0f / 12, 1},
    .threshold = {0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f, 0.4166667f, 0.583333f,
                  0.8333333f},
};

/* --- the dynamic map --- */

enum { DECADES = 7 };

/* Boundary k of n equal parts of 0.1 to 1, as torch.linspace computes it: from the nearer end. */
static float boundary(int k, int n)
{
    const float step = (1 - 0.1f) / (float)n;
    return 2 * k < n ? fmaf(step, (float)k, 0.1f) : fmaf(-step, (float)(n - k), 1);
}

void codes_dynamic(float map[CODES_DYNAMIC])
{
    /* A decade 10^(i-6) has 2^i values: the middles of equal parts of 0.1 to 1. */
    const int zero = CODES_DYNAMIC / 2 - 1;
    map[zero] = 0;
    map[CODES_DYNAMIC - 1] = 1;
    for (int i = 0, k = 1; i < DECADES; i++)
        for (int j = 0; j < 1 << i; j++, k++) {
            const float middle = (boundary(j, 1 << i) + boundary(j + 1, 1 << i)) / 2;
            map[zero + k] = (float)pow(10, i - (DECADES - 1)) * middle;
            map[zero - k] = -map[zero + k];
        }
}

float codes_dynamic_value(const float map[CODES_DYNAMIC], float x)
{
    enum { STEPS = 65535 };
    const int step = (int)((x + 1) * 0.5f * STEPS + 0.5f);
    const float at = -1 + 2.0f * (float)step / STEPS;
    int low = 0, high = CODES_DYNAMIC - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if ((map[middle] + map[middle + 1]) / 2 < at)
            low = middle + 1;
        else
            high = middle;
    }
    return map[low];
}
