/* ratio: how much longer work took than planned, and what that says of other work. */
#pragma once

/* The expected ratio of taken to planned seconds of work that is planned to take `other` seconds,
 * given what `planned` seconds of different work took: 1 if that was nothing; the measured ratio if
 * it was much more than `other`. In between its logarithm is weighted by
 * planned / (planned + other / 4), for the ratio of a few seconds (start-up, small matrices) says
 * little of minutes. Seconds from 0 on. */
double ratio_carried(double planned, double taken, double other);
