#include "adaptive.h"

#include <time.h>

/* Phases, repeated. A warm-up fills the caches and is not timed. */
enum { START, WARM_UP_PARALLEL, TIME_PARALLEL, WARM_UP_SERIAL, TIME_SERIAL, RUN };

void adaptive_next(adaptive_t *adaptive, int64_t step)
{
    struct timespec clock;
    double now;
    timespec_get(&clock, TIME_UTC);
    now = (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec;
    if (adaptive->phase == TIME_PARALLEL || adaptive->phase == TIME_SERIAL)
        adaptive->seconds[adaptive->serial]
            = (now - adaptive->start) / (double)(step - adaptive->first);
    adaptive->phase = adaptive->phase % RUN + 1;
    adaptive->serial = adaptive->phase == RUN ? adaptive->seconds[1] < adaptive->seconds[0]
                                              : adaptive->phase >= WARM_UP_SERIAL;
    adaptive->first = step;
    adaptive->stop = step + (adaptive->phase == RUN ? ADAPTIVE_RUN : ADAPTIVE_TRIAL);
    adaptive->start = now;
}
