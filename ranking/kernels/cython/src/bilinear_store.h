/* How rows and groups of W are shrunk lazily. */
#ifndef RANKING_BILINEAR_STORE_H
#define RANKING_BILINEAR_STORE_H

#include "bilinear.h"

enum { SIGMA, SQUARE, LARGEST_SQUARE, GROUP_THRESHOLD, GROUP_STATE }; /* of group_state */

/* What is left of a group's norm after the shrinkage since it was last applied. */
LANES_INLINE double group_fraction(
    const bilinear_store_t *store, int64_t group, const shrinkage_state_t *now)
{
    const double *state = store->group_state + GROUP_STATE * group;
    double norm = sqrt(state[SQUARE]);
    double loss = store->group_weights[group] * (now->threshold - state[GROUP_THRESHOLD]);
    return norm > loss ? (norm - loss) / norm : 0.0;
}

LANES_INLINE shrinkage_t row_shrinkage(
    const bilinear_store_t *store, int64_t row, const shrinkage_state_t *now)
{
    const double *state = store->row_state + 3 * row;
    shrinkage_t out;
    if (store->n_groups) {
        int64_t group = store->groups[row];
        out.scale = store->group_state[GROUP_STATE * group] * group_fraction(store, group, now);
        out.threshold = 0.0;
    } else {
        out.scale = now->scale / state[0];
        out.threshold = (now->threshold - state[1]) * state[0];
    }
    return out;
}

/* The unit that one thread changes and one lock protects: a group, or a row. */
LANES_INLINE int64_t unit_of(const bilinear_store_t *store, int64_t row)
{
    return store->n_groups ? store->groups[row] : row;
}

/* Store a row's weights as they are, with the origin `now`. */
void store_rebase(bilinear_store_t *store, int64_t row, const shrinkage_state_t *now);

/* Apply pending shrinkage to a group; one that has shrunk to zero is cleared. */
void store_apply(bilinear_store_t *store, int64_t group, const shrinkage_state_t *now);

/* Update a group's sum of squares; sum from scratch where too many digits are lost. */
void store_follow(bilinear_store_t *store, int64_t group, row_change_t change, int32_t n);

/* Release dead entries of the next rows, so that rows that no step touches again shrink, too. */
void store_compact(bilinear_store_t *store, int64_t n_steps, const shrinkage_state_t *now);

#endif
