/* Losses and regularizers whose loops run inside the kernels of `ranking`, from any language.
 *
 * A plugin fills one of the structs below and hands it to Python in a capsule that has the name
 * given with it. `python -m ranking --include` prints the folder to compile against.
 *
 * The rules, for every function:
 * - It is pure: the same arguments give the same bits, and nothing else changes.
 * - It is called from several threads at once, and without Python's lock (the GIL). It must not
 *   call Python, must not wait for anything that does, and must not throw, panic or longjmp.
 * - `context` is handed back with every call, for parameters. It is read only. It lives as long
 *   as the capsule, so let the capsule own it, or have no capsule outlive it.
 * - Numbers are doubles. Arrays have n of them, one after the other, and do not overlap.
 */
#ifndef RANKING_NATIVE_H
#define RANKING_NATIVE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. It rises when what is here changes its meaning. */
#define RANKING_NATIVE_ABI 1

/* A loss of a margin z = f(q, d+) - f(q, d-), and its derivative. */
#define RANKING_PAIR_LOSS "ranking.pair_loss"
typedef struct {
    uint32_t abi;  /* RANKING_NATIVE_ABI */
    uint32_t size; /* sizeof(ranking_pair_loss): fields may be added at its end */
    double (*value)(double margin, const void *context);
    double (*slope)(double margin, const void *context);
    const void *context; /* may be NULL */
} ranking_pair_loss;

/* A loss of one query's list, and its derivative by each score. Higher grades are better. */
#define RANKING_LIST_LOSS "ranking.list_loss"
typedef struct {
    uint32_t abi;
    uint32_t size;
    double (*value)(const double *scores, const double *grades, int64_t n, const void *context);
    void (*slopes)(const double *scores, const double *grades, int64_t n, double *out,
                   const void *context);
    const void *context;
} ranking_list_loss;

/* A penalty of a row of parameters.
 *   penalty   its value; infinite outside a constraint
 *   prox      in place: argmin over v of 1/2 ||v - row||^2 + step * penalty(v)
 *   maximize  in place: argmax over v of <row, v> - penalty(v); NULL if there is no such maximum
 */
#define RANKING_ROW_REGULARIZER "ranking.row_regularizer"
typedef struct {
    uint32_t abi;
    uint32_t size;
    double (*penalty)(const double *row, int64_t n, const void *context);
    void (*prox)(double *row, int64_t n, double step, const void *context);
    void (*maximize)(double *row, int64_t n, const void *context);
    const void *context;
} ranking_row_regularizer;

#ifdef __cplusplus
}
#endif

#endif
