/* Threads that work on one task, and a barrier for them. */
#ifndef RANKING_THREAD_TEAM_H
#define RANKING_THREAD_TEAM_H

typedef void team_function_t(void *task, int thread, int n_threads);

/* Run `function` on each thread of a team. OpenMP may start fewer threads than requested. */
void team_run(team_function_t *function, void *task, int n_threads);

/* Call `function(task, i, count)` for each i below `count`, on at most `n_threads` threads. */
void team_for(team_function_t *function, void *task, int count, int n_threads);

/* Initialize with zeros. */
typedef struct {
    int waiting, round, asleep;
} barrier_t;

/* Wait until all threads have reached the barrier. */
void barrier_wait(barrier_t *barrier, int n_threads);

#endif
