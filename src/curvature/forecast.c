#include "curvature/forecast.h"
#include <math.h>

/* By the mean factor since the fit began. */
static double products_left(const struct forecast *f, int64_t iteration, double measure,
                            double goal)
{
    const double fallen = log(f->first / measure);
    return fallen > 0 ? ceil((double)(iteration - f->at) * log(measure / goal) / fallen) : INFINITY;
}

void forecast_note(struct forecast *f, int64_t iteration, double measure, double goal,
                   int64_t maximum)
{
    if (!f || !f->tell) return;
    const int64_t most = maximum - iteration;
    double left = INFINITY;
    if (iteration >= 2 && f->at == 0) { /* the second, or the first after an interruption */
        f->first = measure;
        f->at = iteration;
    }
    if (measure <= goal)
        left = 0;
    else if (iteration > 2 && measure > 0 && goal > 0)
        left = products_left(f, iteration, measure, goal);
    f->tell(f->context, left < (double)most ? (int64_t)left : most);
}
