/* Adaptive parallelism: choose serial or parallel execution by measured cost.
 *
 * Which one is faster depends on the distance between the cores and on other processes. Both give
 * the same bits, so both are measured repeatedly, and the faster one is used for a while.
 */
#ifndef RANKING_ADAPTIVE_H
#define RANKING_ADAPTIVE_H

#include <stdint.h>

enum {
    ADAPTIVE_TRIAL = 8192, /* steps of a trial; blocks this large always run in parallel */
    ADAPTIVE_RUN = 128 * ADAPTIVE_TRIAL, /* steps with the faster one */
};

typedef struct {
    int phase, serial;
    int64_t first, stop; /* steps of the phase */
    double start, seconds[2]; /* per step: parallel, serial */
} adaptive_t;

/* End a phase before `step` and begin the next one. Initialize with zeros. */
void adaptive_next(adaptive_t *adaptive, int64_t step);

#endif
