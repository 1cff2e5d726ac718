/* Whether a crew works together, or one does all alone.
 *
 * Which is faster nobody knows before: that depends on how far apart the processors are, and on
 * who else needs them. The bits are the same; so both are tried, and the faster goes on for a
 * while. */
#ifndef RANKING_PACE_H
#define RANKING_PACE_H

#include <stdint.h>
#include <time.h>

enum {
    PACE_TRY = 8192, /* steps; blocks of so many are best taken together */
    PACE_GO_ON = 128 * PACE_TRY,
};

/* Stretches of steps, over and over. The first of two is not timed: caches fill in it. */
enum { PACE_NONE, PACE_MEET, PACE_TOGETHER, PACE_PART, PACE_ALONE, PACE_FASTER };

typedef struct {
    int stretch, alone;
    int64_t first, stop; /* steps of the stretch */
    double start, seconds[2]; /* those of a step together, and alone */
} pace_t;

static inline double pace_clock(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* End a stretch before `step`, and begin the next. */
static inline void pace_next(pace_t *pace, int64_t step)
{
    double now = pace_clock();
    if (pace->stretch == PACE_TOGETHER || pace->stretch == PACE_ALONE)
        pace->seconds[pace->alone] = (now - pace->start) / (double)(step - pace->first);
    pace->stretch = pace->stretch % PACE_FASTER + 1;
    pace->alone = pace->stretch == PACE_FASTER ? pace->seconds[1] < pace->seconds[0]
                                               : pace->stretch >= PACE_PART;
    pace->first = step;
    pace->stop = step + (pace->stretch == PACE_FASTER ? PACE_GO_ON : PACE_TRY);
    pace->start = now;
}

#endif
