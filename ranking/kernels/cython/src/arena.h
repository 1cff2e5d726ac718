/* Memory that is freed at once. */
#ifndef RANKING_ARENA_H
#define RANKING_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct arena_chunk arena_chunk_t;

/* Initialize with zeros. */
typedef struct {
    arena_chunk_t *last;
    int failed; /* some allocation failed */
} arena_t;

/* Allocate `count` elements, aligned to a cache line; NULL without memory, which is recorded. */
void *arena_alloc(arena_t *arena, int64_t count, size_t size);

/* Allocate zeros. */
void *arena_calloc(arena_t *arena, int64_t count, size_t size);

void arena_free(arena_t *arena);

#define ARENA_ALLOC(arena, count, type) ((type *)arena_alloc(arena, count, sizeof(type)))
#define ARENA_CALLOC(arena, count, type) ((type *)arena_calloc(arena, count, sizeof(type)))

#endif
