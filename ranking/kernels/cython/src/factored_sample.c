#include "factored_sample.h"

LANES_INLINE int64_t search_positive(const triplet_source_t *source, search_t *search, int64_t k)
{
    if (search->row)
        return search->row[1 + k];
    search->member = sample_positive(source->positives, &search->sample, (uint64_t)(1 + k));
    return source->positives->members[search->member];
}

/* Sample the queries by the guide table. */
static void sample_queries_guided(
    const triplet_source_t *source, int64_t step, search_batch_t *batch)
{
    const positives_t *positives = source->positives;
    const guide_table_t *guide = &positives->query_guide;
    int64_t total = positives->query_sums[positives->n_queries - 1];
    guide_range_t among = {guide->sorted, guide->starts, positives->n_queries};
    guided_counts_t all;
    for (int64_t i = 0; i < batch->n; i++) {
        uint64_t at = source->first + (uint64_t)(step + i);
        batch->searches[i].sample.key = random_bits(source->seed, at);
        guided_set(
            &all, i, sample_bits_of(sample_permuted(source->seed, at, total), total), total,
            among);
    }
    guided_count(&all, batch->n);
    for (int64_t i = 0; i < batch->n; i++) {
        sample_t *sample = &batch->searches[i].sample;
        sample_set_query(positives, sample, all.counts[i]);
        sample->remainder = sample_remainder(positives, all.numbers[i], all.counts[i]);
    }
}

/* Sample the queries, and prefetch their lists. */
static void sample_queries(const triplet_source_t *source, int64_t step, search_batch_t *batch)
{
    const positives_t *positives = source->positives;
    if (positives->query_guide.starts)
        sample_queries_guided(source, step, batch);
    for (int64_t i = 0; i < batch->n; i++) {
        search_t *search = batch->searches + i;
        sample_t *sample = &search->sample;
        if (!positives->query_guide.starts)
            sample_query(
                positives, source->seed, source->first + (uint64_t)(step + i), sample);
        if (!positives->member_sums) {
            int64_t bound = sample->size - (sample->own_document >= 0);
            int64_t positive = sample->remainder >= 0 ? sample->remainder
                                                      : random_below(sample->key, 1, bound);
            __builtin_prefetch(sample->excluded + positive);
        }
        search->query = sample->query;
    }
}

/* Sample negative k of all open triplets. */
static void sample_negatives(const triplet_source_t *source, int64_t k, search_batch_t *batch)
{
    const positives_t *positives = source->positives;
    const guide_table_t *guide = positives ? &positives->member_guide : NULL;
    int64_t column = 1 + source->n_positives + k;
    guided_counts_t all;
    if (source->triplets || !guide->starts) {
        for (int64_t i = 0; i < batch->n_open; i++) {
            search_t *search = batch->open[i];
            search->negative = source->triplets
                ? search->row[column]
                : sample_negative(positives, &search->sample, (uint64_t)column);
        }
        return;
    }
    for (int64_t i = 0; i < batch->n_open; i++) {
        const sample_t *sample = &batch->open[i]->sample;
        guide_range_t among = {
            guide->sorted + sample->start,
            guide->starts + guide_offset(sample->start, sample->list), sample->size};
        guided_set(
            &all, i, random_bits(sample->key, (uint64_t)column) >> 32,
            positives->n_documents - sample->size, among);
    }
    guided_count(&all, batch->n_open);
    for (int64_t i = 0; i < batch->n_open; i++)
        batch->open[i]->negative = all.numbers[i] + all.counts[i];
}

/* Sample the n negatives of a list, those of one range of a guide table side by side. */
static void sample_list(
    const triplet_source_t *source, search_t *search, int64_t n, int64_t *negatives)
{
    const positives_t *positives = source->positives;
    int64_t column = 1 + source->n_positives;
    const sample_t *sample = &search->sample;
    guided_counts_t all;
    guide_range_t among;
    if (search->row || !positives->member_guide.starts) {
        for (int64_t k = 0; k < n; k++)
            negatives[k] = search->row
                ? search->row[column + k]
                : sample_negative(positives, sample, (uint64_t)(column + k));
        return;
    }
    among = (guide_range_t){
        positives->member_guide.sorted + sample->start,
        positives->member_guide.starts + guide_offset(sample->start, sample->list), sample->size};
    for (int64_t first = 0; first < n; first += SAMPLING_BATCH) {
        int64_t count = n - first < SAMPLING_BATCH ? n - first : SAMPLING_BATCH;
        for (int64_t k = 0; k < count; k++)
            guided_set(
                &all, k, random_bits(sample->key, (uint64_t)(column + first + k)) >> 32,
                positives->n_documents - sample->size, among);
        guided_count(&all, count);
        for (int64_t k = 0; k < count; k++)
            negatives[first + k] = all.numbers[k] + all.counts[k];
    }
}

LANES_INLINE void prefetch_row(const factored_model_t *model, const int s, int64_t row)
{
    const factored_side_t *side = model->sides + s;
    if (side->plain)
        float8_prefetch(side->factor.rows + row * model->width, model->width);
}

/* Sample the queries and their first positives. */
static void open_batch(const factored_task_t *task, int64_t step, search_batch_t *batch)
{
    const factored_model_t *model = &task->model;
    const triplet_source_t *source = &task->source;
    if (!source->triplets)
        sample_queries(source, step, batch);
    for (int64_t i = 0; i < batch->n; i++) {
        search_t *search = batch->searches + i;
        search->row = source->triplets ? source->triplets + (step + i) * source->columns : NULL;
        if (search->row)
            search->query = search->row[0];
        prefetch_row(model, QUERIES, search->query);
        search->positive = search_positive(source, search, 0);
        if (!search->row)
            sample_exclude(source->positives, &search->sample, search->positive);
        prefetch_row(model, DOCUMENTS, search->positive);
        batch->open[i] = search;
    }
    batch->n_open = batch->n;
}

/* Select the positive of the requested rank: highest score first, ties in sampled order. If scores
 * are NaN, several may have that rank, or none: then take the first. */
static float select_positive(
    const factored_task_t *task, thread_caches_t *caches, search_t *search, float *scores)
{
    const triplet_source_t *source = &task->source;
    int64_t n = source->n_positives, selected = 0;
    for (int64_t k = 0; k < n; k++)
        scores[k] = score_document(
            &task->model, search->query_embedding,
            embedding_of(&task->model, caches, DOCUMENTS, search_positive(source, search, k)));
    for (int64_t k = 0; k < n; k++) {
        int64_t rank = 0;
        for (int64_t j = 0; j < n; j++)
            rank += scores[j] > scores[k] || (scores[j] == scores[k] && j < k);
        if (rank == source->positive_rank) {
            selected = k;
            break;
        }
    }
    search->positive = search_positive(source, search, selected);
    return scores[selected];
}

static void score_positives(
    const factored_task_t *task, thread_caches_t *caches, search_batch_t *batch, float *scores)
{
    const factored_model_t *model = &task->model;
    for (int64_t i = 0; i < batch->n; i++) {
        search_t *search = batch->searches + i;
        search->query_embedding = embedding_of(model, caches, QUERIES, search->query).vector;
        if (task->source.n_positives == 1)
            search->positive_score = score_document(
                model, search->query_embedding,
                embedding_of(model, caches, DOCUMENTS, search->positive));
        else
            search->positive_score = select_positive(task, caches, search, scores);
    }
}

/* Score the negatives of a trial; triplets without a violation stay open. */
static void score_negatives(
    const factored_model_t *model, thread_caches_t *caches, int64_t trial, search_batch_t *batch)
{
    int64_t n = batch->n_open;
    batch->n_open = 0;
    for (int64_t i = 0; i < n; i++) {
        search_t *search = batch->open[i];
        embedding_t negative = embedding_of(model, caches, DOCUMENTS, search->negative);
        search->margin
            = search->positive_score - score_document(model, search->query_embedding, negative);
        search->trial = trial;
        batch->open[batch->n_open] = search;
        batch->n_open += !(search->margin < 1.0f);
    }
}

/* Weigh triplets by the rank that the number of trials estimates. */
static void weigh(const factored_task_t *task, int64_t trials, search_batch_t *batch)
{
    const rank_weights_t *ranks = &task->ranks;
    const positives_t *positives = task->source.positives;
    for (int64_t i = 0; i < batch->n; i++) {
        search_t *search = batch->searches + i;
        search->weight = 0.0f;
        if (trials == 1 || search->margin < 1.0f) {
            int64_t rank = (ranks->n_documents - 1) / search->trial;
            search->weight = ranks->weights[rank < ranks->n ? rank : ranks->n - 1];
        }
        if (positives && positives->member_weights)
            search->weight = search->weight * positives->member_weights[search->member];
    }
}

void search_batch(
    const factored_task_t *task, thread_caches_t *caches, int64_t step, search_batch_t *batch,
    float *scores)
{
    int64_t trials = task->source.columns - 1 - task->source.n_positives;
    open_batch(task, step, batch);
    for (int64_t trial = 1; trial <= trials && batch->n_open; trial++) {
        sample_negatives(&task->source, trial - 1, batch);
        for (int64_t i = 0; i < batch->n_open; i++)
            prefetch_row(&task->model, DOCUMENTS, batch->open[i]->negative);
        if (trial == 1)
            score_positives(task, caches, batch, scores);
        score_negatives(&task->model, caches, trial, batch);
    }
    weigh(task, trials, batch);
}

void score_lists(
    const factored_task_t *task, thread_caches_t *caches, int64_t step, search_batch_t *batch,
    int64_t *documents, double *margins)
{
    const factored_model_t *model = &task->model;
    int64_t n = task->source.columns - 2;
    open_batch(task, step, batch);
    for (int64_t i = 0; i < batch->n; i++) {
        int64_t *negatives = documents + i * (n + 1) + 1;
        sample_list(&task->source, batch->searches + i, n, negatives);
        for (int64_t k = 0; k < n; k++)
            prefetch_row(model, DOCUMENTS, negatives[k]);
    }
    score_positives(task, caches, batch, NULL);
    for (int64_t i = 0; i < batch->n; i++) {
        const search_t *search = batch->searches + i;
        const int64_t *negatives = documents + i * (n + 1) + 1;
        documents[i * (n + 1)] = search->positive;
        for (int64_t k = 0; k < n; k++)
            margins[i * n + k] = (double)(search->positive_score - score_document(
                model, search->query_embedding,
                embedding_of(model, caches, DOCUMENTS, negatives[k])));
    }
}
