/* Searching and stepping by blocks, on several threads. */
#ifndef RANKING_FACTORED_STEPS_H
#define RANKING_FACTORED_STEPS_H

#include "factored_search.h"
#include "factored_update.h"
#include "pace.h"

enum { STEPS_HINGE = 0, STEPS_LOGISTIC = 2, STEPS_NATIVE = 3 }; /* PairForm */

/* What threads that meet share besides. */
typedef struct {
    team_t team;
    int64_t *queries, *documents;
    float *slopes, *highs;
} block_t;

typedef struct {
    model_t model;
    search_t search;
    int64_t n, block;
    const float *rates;
    int form, hogwild, crew, failed;
    double (*native)(double margin, const void *context); /* the slope, if the form is native */
    const void *context;
    float max_norm, l2;
    int64_t *chosen; /* asked for by `factored_search` */
    float *margins, *weights;
    const int64_t *ptr; /* pairs of documents: 0, 2, 4, ... */
    block_t *blocks; /* one of the crew, and one of who works alone; hogwild: one a thread */
    int64_t next; /* hogwild: the next block that nobody has taken */
    crew_meeting_t meeting;
    pace_t pace;
    rooms_t rooms;
} job_t;

typedef struct {
    model_t model;
    steps_t steps;
    team_t team;
    float rate;
    int missed; /* some of the crew did not come */
    rooms_t rooms;
} update_t;

LANES_INLINE float steps_slope(const job_t *job, float margin)
{
    if (job->form == STEPS_NATIVE)
        return (float)job->native(margin, job->context);
    if (job->form == STEPS_LOGISTIC)
        return (float)(-1.0 / (1.0 + lanes_exp_one(margin)));
    if (!(margin < 1.0f))
        return 0.0f;
    return job->form == STEPS_HINGE ? -1.0f : -2.0f * (1.0f - margin);
}

LANES_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Write down what a search has found, and the slopes of the block's pair `at`. */
LANES_INLINE void job_note(
    const job_t *job, const block_t *block, int64_t step, int64_t at, const look_t *look)
{
    job->margins[step] = look->margin;
    job->weights[step] = look->weight;
    if (job->chosen) {
        job->chosen[3 * step] = look->query;
        job->chosen[3 * step + 1] = look->better;
        job->chosen[3 * step + 2] = look->worse;
    } else {
        float slope = look->weight * steps_slope(job, look->margin);
        if (!job->model.adagrad)
            slope = job->rates[step] * slope;
        block->queries[at] = look->query;
        block->documents[2 * at] = look->better;
        block->documents[2 * at + 1] = look->worse;
        block->slopes[2 * at] = slope;
        block->slopes[2 * at + 1] = -slope;
    }
}

/* Search one thread's part of the steps start to start + count, and freeze what they read. */
static inline void job_search(
    const job_t *job, block_t *block, int64_t start, int64_t count, int64_t time, int turn,
    int crew)
{
    int64_t from = count * turn / crew, to = count * (turn + 1) / crew;
    steps_t steps = {to, block->queries, job->ptr, block->documents, block->slopes};
    float *highs = block->highs + turn * job->search.positives;
    moving_t *moving = team_begin(&block->team, from, time, turn, crew);
    near_t *near = block->team.near + turn;
    strip_t strip;
    for (; from < to; from += DRAW_STRIP) {
        strip.n = least(DRAW_STRIP, to - from);
        strip_search(&job->search, near, start + from, &strip, highs);
        for (int64_t i = 0; i < strip.n; i++) {
            job_note(job, block, start + from + i, from + i, strip.looks + i);
            if (!job->chosen)
                team_freeze(&block->team, near, &steps, from + i, moving);
        }
    }
}

static inline void job_fill_guides(job_t *job, int turn, int crew)
{
    if (job->search.lists)
        draw_fill_guides(job->search.lists, turn, crew);
    crew_meet(&job->meeting, crew);
}

static inline void job_block(
    job_t *job, block_t *block, int64_t start, int64_t time, int turn, int crew)
{
    int64_t count = least(job->block, job->n - start);
    steps_t steps = {count, block->queries, job->ptr, block->documents, block->slopes};
    job_search(job, block, start, count, time, turn, crew);
    crew_meet(&block->team.meeting, crew);
    team_update(&block->team, &steps, job->rates[start], time, turn, crew);
    crew_meet(&block->team.meeting, crew);
}

/* Take the blocks that begin from `start` on, before `stop`. */
static inline void job_stretch(
    job_t *job, block_t *block, int64_t start, int64_t stop, int turn, int crew)
{
    for (; start < stop && !block->team.failed; start += job->block)
        job_block(job, block, start, start / job->block + 1, turn, crew);
}

/* All together or one alone, whatever is faster; with large blocks that is together. */
static inline void job_work(void *of, int turn, int crew)
{
    job_t *job = of;
    block_t *together = job->blocks, *alone = job->blocks + (job->crew > 1);
    int64_t start = 0, stop;
    job_fill_guides(job, turn, crew);
    if (crew < job->crew || crew == 1) {
        if (turn == 0)
            job_stretch(job, alone, 0, job->n, 0, 1);
        return;
    }
    if (job->block >= PACE_TRY) {
        job_stretch(job, together, 0, job->n, turn, crew);
        return;
    }
    while (start < job->n && !together->team.failed && !alone->team.failed) {
        if (turn == 0)
            pace_next(&job->pace, start);
        crew_meet(&job->meeting, crew);
        stop = least(job->pace.stop, job->n);
        if (!job->pace.alone)
            job_stretch(job, together, start, stop, turn, crew);
        else if (turn == 0)
            job_stretch(job, alone, start, stop, 0, 1);
        start += (stop - start + job->block - 1) / job->block * job->block;
        crew_meet(&job->meeting, crew);
    }
}

/* Each takes blocks as they come, and does not wait for others. */
static inline void job_work_hogwild(void *of, int turn, int crew)
{
    job_t *job = of;
    block_t *block = job->blocks + turn;
    int64_t start, time = 0;
    job_fill_guides(job, turn, crew);
    for (;;) {
        start = __atomic_fetch_add(&job->next, job->block, __ATOMIC_RELAXED);
        if (start >= job->n || block->team.failed)
            return;
        job_block(job, block, start, ++time, 0, 1);
    }
}

static inline void job_search_work(void *of, int turn, int crew)
{
    job_t *job = of;
    job_fill_guides(job, turn, crew);
    job_search(job, job->blocks, 0, job->n, 1, turn, crew);
}

static inline void block_open(block_t *block, job_t *job, int crew)
{
    const model_t *model = &job->model;
    rooms_t *rooms = &job->rooms;
    int64_t looks = job->block * (job->search.columns - 1);
    team_open(&block->team, rooms, model, job->block, 2 * job->block, looks, crew);
    block->team.max_norm = job->max_norm;
    block->team.l2 = job->l2;
    block->highs = rooms_take(rooms, crew * job->search.positives, sizeof(float), 0);
    block->queries = rooms_take(rooms, job->block, sizeof(int64_t), 0);
    block->documents = rooms_take(rooms, 2 * job->block, sizeof(int64_t), 0);
    block->slopes = rooms_take(rooms, 2 * job->block, sizeof(float), 0);
}

/* Eight at the end are read, and do not count. */
static inline void guide_open(draw_guide_t *guide, rooms_t *rooms, int64_t n, int64_t starts)
{
    guide->rising = rooms_take(rooms, n + 8, sizeof(uint32_t), 0);
    guide->starts = rooms_take(rooms, starts, sizeof(uint32_t), 0);
}

/* Make room for guides if so many tuples are drawn that they pay. */
static inline void job_guide(job_t *job)
{
    draw_lists_t *lists = job->search.lists;
    rooms_t *rooms = &job->rooms;
    int64_t n_members;
    if (!lists)
        return;
    n_members = lists->list_ptr[lists->n_lists];
    if (!lists->any_other && job->n >= n_members / 4)
        guide_open(
            &lists->member_guide, rooms, n_members,
            draw_guide_start(n_members, lists->n_lists));
    if (lists->query_sums && job->n >= lists->n_queries / 4)
        guide_open(
            &lists->query_guide, rooms, lists->n_queries, draw_parts(lists->n_queries) + 1);
}

/* How many blocks the work needs at a time: see `blocks`. */
static inline int job_blocks(const job_t *job)
{
    if (job->hogwild)
        return job->crew;
    return job->crew > 1 && !job->chosen ? 2 : 1;
}

/* 0 if there is no memory. */
static inline int job_run(job_t *job, crew_work_t *work)
{
    int n_blocks = job_blocks(job), ready;
    int64_t *ptr = rooms_take(&job->rooms, job->block + 1, sizeof(int64_t), 0);
    job->blocks = rooms_take(&job->rooms, n_blocks, sizeof(block_t), 1);
    if (!ptr || !job->blocks)
        return 0;
    for (int64_t i = 0; i <= job->block; i++)
        ptr[i] = 2 * i;
    job->ptr = ptr;
    job_guide(job);
    for (int i = 0; i < n_blocks; i++)
        block_open(job->blocks + i, job, i || job->hogwild ? 1 : job->crew);
    ready = !job->rooms.failed;
    if (ready)
        crew_run(work, job, job->crew);
    for (int i = 0; i < n_blocks; i++) {
        ready = ready && !job->blocks[i].team.failed;
        team_close(&job->blocks[i].team);
    }
    return ready;
}

static inline void update_work(void *of, int turn, int crew)
{
    update_t *update = of;
    team_t *team = &update->team;
    const steps_t *steps = &update->steps;
    int64_t first = steps->n * turn / crew, last = steps->n * (turn + 1) / crew;
    moving_t *moving;
    if (crew < team->crew) {
        __atomic_store_n(&update->missed, 1, __ATOMIC_RELAXED);
        return;
    }
    moving = team_begin(team, first, 1, turn, crew);
    for (int64_t i = first; i < last; i++)
        team_freeze(team, team->near + turn, steps, i, moving);
    crew_meet(&team->meeting, crew);
    team_update(team, steps, update->rate, 1, turn, crew);
}

static inline int update_run(update_t *update, float max_norm, float l2, int crew)
{
    const model_t *model = &update->model;
    int64_t n = update->steps.n;
    int ready;
    team_open(
        &update->team, &update->rooms, model, n, update->steps.ptr[n], update->steps.ptr[n], crew);
    update->team.max_norm = max_norm;
    update->team.l2 = l2;
    ready = !update->rooms.failed;
    if (ready)
        crew_run(update_work, update, crew);
    ready = ready && !update->team.failed;
    team_close(&update->team);
    if (update->missed) {
        update->missed = 0;
        return update_run(update, max_norm, l2, 1);
    }
    return ready;
}

#endif
