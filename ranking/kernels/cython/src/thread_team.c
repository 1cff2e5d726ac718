#include "thread_team.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(_WIN32)
#include <windows.h>
#else
#include <sched.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if defined(_OPENMP) && !defined(_WIN32) && (_OPENMP >= 201811 || __GNUC__ >= 9)
#include <pthread.h>

/* A fork copies the calling thread only, and the OpenMP runtime of the child would wait for ever
 * for the other threads of its team. So the team ends before a fork; parent and child start new
 * ones when they need them. */
static void end_team(void)
{
    (void)omp_pause_resource_all(omp_pause_soft);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(end_team, NULL, NULL);
}
#endif

#define SPINS 500 /* before a thread sleeps */

void team_run(team_function_t *function, void *task, int n_threads)
{
#ifdef _OPENMP
    if (n_threads > 1) {
#pragma omp parallel num_threads(n_threads)
        function(task, omp_get_thread_num(), omp_get_num_threads());
        return;
    }
#endif
    function(task, 0, 1);
}

void team_for(team_function_t *function, void *task, int count, int n_threads)
{
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_threads > 1)
    for (int i = 0; i < count; i++)
        function(task, i, count);
    (void)n_threads;
}

/* Sleep until the round has ended, or yield where the system has no futex. */
static void barrier_sleep(barrier_t *barrier, int round)
{
#if defined(__linux__)
    __atomic_add_fetch(&barrier->asleep, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &barrier->round, FUTEX_WAIT_PRIVATE, round, NULL, NULL, 0);
    __atomic_sub_fetch(&barrier->asleep, 1, __ATOMIC_SEQ_CST);
#elif defined(_WIN32)
    (void)barrier, (void)round, SwitchToThread();
#else
    (void)barrier, (void)round, sched_yield();
#endif
}

static void barrier_wake(barrier_t *barrier)
{
#if defined(__linux__)
    if (__atomic_load_n(&barrier->asleep, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &barrier->round, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)barrier;
#endif
}

/* Blocks are so short that sleeping and waking may take as long as the work, so threads spin
 * first. They sleep in the end, because on a busy machine the last thread may need their core. */
void barrier_wait(barrier_t *barrier, int n_threads)
{
    int round, spins = 0;
    if (n_threads == 1)
        return;
    round = __atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&barrier->waiting, 1, __ATOMIC_ACQ_REL) == n_threads) {
        __atomic_store_n(&barrier->waiting, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&barrier->round, round + 1, __ATOMIC_SEQ_CST);
        barrier_wake(barrier);
        return;
    }
    while (__atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE) == round) {
        if (++spins > SPINS)
            barrier_sleep(barrier, round);
#ifdef __SSE2__
        else
            _mm_pause();
#endif
    }
}
