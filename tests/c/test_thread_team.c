/* Teams run every thread once; a barrier lets none pass before all have arrived. */
#include "adaptive.h"
#include "arena.h"
#include "check.h"
#include "thread_team.h"

enum { THREADS = 4, ROUNDS = 2000 };

typedef struct {
    barrier_t barrier;
    int arrived[ROUNDS], early, calls[64];
} shared_t;

static void meet(void *of, int thread, int n_threads)
{
    shared_t *shared = of;
    (void)thread;
    for (int round = 0; round < ROUNDS; round++) {
        __atomic_add_fetch(&shared->arrived[round], 1, __ATOMIC_RELAXED);
        barrier_wait(&shared->barrier, n_threads);
        if (__atomic_load_n(&shared->arrived[round], __ATOMIC_RELAXED) != n_threads)
            __atomic_store_n(&shared->early, 1, __ATOMIC_RELAXED);
    }
}

static void count(void *of, int i, int n)
{
    shared_t *shared = of;
    (void)n;
    __atomic_add_fetch(&shared->calls[i], 1, __ATOMIC_RELAXED);
}

static void test_barrier(int n_threads)
{
    shared_t shared = {.early = 0};
    team_run(meet, &shared, n_threads);
    CHECK(!shared.early);
    CHECK(shared.arrived[ROUNDS - 1] >= 1 && shared.arrived[ROUNDS - 1] <= n_threads);
}

static void test_for_calls_each_index_once(void)
{
    shared_t shared = {.early = 0};
    team_for(count, &shared, 64, THREADS);
    for (int i = 0; i < 64; i++)
        CHECK(shared.calls[i] == 1);
}

static void test_adaptive_selects_the_faster(void)
{
    adaptive_t adaptive = {.phase = 0};
    int serial[6];
    for (int i = 0; i < 6; i++) {
        adaptive_next(&adaptive, (int64_t)i * ADAPTIVE_TRIAL);
        serial[i] = adaptive.serial;
        if (i == 1) /* pretend that the parallel trial began long ago */
            adaptive.start -= 1000.0;
    }
    CHECK(!serial[0] && !serial[1]); /* warm-up, trial */
    CHECK(serial[2] && serial[3]);
    CHECK(serial[4]); /* the run */
    CHECK(adaptive.stop > 0 && !serial[5]); /* and from the beginning */
}

static void test_arena(void)
{
    arena_t arena = {0};
    char *zeros = ARENA_CALLOC(&arena, 1000, char);
    double *numbers = ARENA_ALLOC(&arena, 7, double);
    CHECK((uintptr_t)zeros % 64 == 0 && (uintptr_t)numbers % 64 == 0);
    for (int i = 0; i < 1000; i++)
        CHECK(zeros[i] == 0);
    numbers[6] = 1.0;
    CHECK(!arena.failed);
    CHECK(ARENA_ALLOC(&arena, INT64_MAX / 2, double) == NULL && arena.failed);
    arena_free(&arena);
    CHECK(arena.last == NULL);
}

int main(void)
{
    test_barrier(1);
    test_barrier(2);
    test_barrier(THREADS);
    test_for_calls_each_index_once();
    test_adaptive_selects_the_faster();
    test_arena();
    return 0;
}
