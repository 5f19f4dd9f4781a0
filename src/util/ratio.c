#include "util/ratio.h"
#include <math.h>

static const double share_that_halves = 0.25;

double ratio_carried(double planned, double taken, double other)
{
    if (!(planned > 0) || !(taken > 0)) return 1;
    return pow(taken / planned, planned / (planned + share_that_halves * other));
}
