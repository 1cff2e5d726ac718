/* Threads that work on one thing, and how they meet. */
#ifndef RANKING_CREW_H
#define RANKING_CREW_H

#include "lanes.h"
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

typedef void crew_work_t(void *job, int turn, int crew);

/* Let each of a crew work; there may be fewer than were asked for. */
static inline void crew_run(crew_work_t *work, void *job, int crew)
{
#ifdef _OPENMP
    if (crew > 1) {
#pragma omp parallel num_threads(crew)
        work(job, omp_get_thread_num(), omp_get_num_threads());
        return;
    }
#endif
    work(job, 0, 1);
}

typedef struct {
    int waiting, round, asleep;
} crew_meeting_t;

/* Sleep until a round has ended; where that cannot be asked for, let others run. */
LANES_INLINE void crew_sleep(crew_meeting_t *at, int round)
{
#if defined(__linux__)
    __atomic_add_fetch(&at->asleep, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &at->round, FUTEX_WAIT_PRIVATE, round, NULL, NULL, 0);
    __atomic_sub_fetch(&at->asleep, 1, __ATOMIC_SEQ_CST);
#elif defined(_WIN32)
    (void)at, (void)round, SwitchToThread();
#else
    (void)at, (void)round, sched_yield();
#endif
}

LANES_INLINE void crew_wake(crew_meeting_t *at)
{
#if defined(__linux__)
    if (__atomic_load_n(&at->asleep, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &at->round, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)at;
#endif
}

/* Wait for all of a crew. Blocks are so short that to sleep and wake may take as long as the work;
 * so threads look for a while first. They must sleep at last: beside other busy processes, the
 * one that is waited for may need this one's processor. */
static inline void crew_meet(crew_meeting_t *at, int crew)
{
    int round, looks = 0;
    if (crew == 1)
        return;
    round = __atomic_load_n(&at->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&at->waiting, 1, __ATOMIC_ACQ_REL) == crew) {
        __atomic_store_n(&at->waiting, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&at->round, round + 1, __ATOMIC_SEQ_CST);
        crew_wake(at);
        return;
    }
    while (__atomic_load_n(&at->round, __ATOMIC_ACQUIRE) == round) {
        if (++looks > 500)
            crew_sleep(at, round);
#ifdef __SSE2__
        else
            _mm_pause();
#endif
    }
}

#endif
