/* forecast: how many products an iteration still needs until it converges, for the time left. Takes
 * what the stopping rule compares as falling by a constant factor a product: so does the residual
 * of power iteration in the end, and roughly that of Lanczos. */
#pragma once
#include <stdint.h>

struct forecast {
    /* Called after each product with how many more are expected. May be NULL. */
    void (*tell)(void *context, int64_t products);
    void *context;
    double first; /* measure of the iteration where the fit begins */
    int64_t at;   /* that iteration */
};

/* After product `iteration` (1, 2, ...): `measure` is what must fall to `goal`, both relative.
 * Extrapolates from the second product on (the first is as far off as its random start). Expects
 * all products up to `maximum` while the measure has not fallen since. f may be NULL. */
void forecast_note(struct forecast *f, int64_t iteration, double measure, double goal,
                   int64_t maximum);
