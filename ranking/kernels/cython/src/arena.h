/* Memory that is freed at once. */
#ifndef RANKING_ARENA_H
#define RANKING_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct arena_chunk arena_chunk_t;

/* A buffer that grows. Initialize with zeros. */
typedef struct {
    void *data;
    int64_t capacity;
    void *previous; /* buffer that the arena owns */
} buffer_t;

/* Initialize with zeros. */
typedef struct {
    arena_chunk_t *last;
    int failed; /* some allocation failed */
    buffer_t *buffers;
} arena_t;

/* Allocate `count` elements, aligned to a cache line; NULL without memory, which is recorded. */
void *arena_alloc(arena_t *arena, int64_t count, size_t size);

/* Allocate zeros. */
void *arena_calloc(arena_t *arena, int64_t count, size_t size);

/* Make the arena own a buffer, which must live as long. */
void arena_own(arena_t *arena, buffer_t *buffer);

void arena_free(arena_t *arena);

/* Make sure that so many elements fit; 0, and no change, without memory. */
int buffer_reserve(buffer_t *buffer, int64_t count, size_t size);

#define ARENA_ALLOC(arena, count, type) ((type *)arena_alloc(arena, count, sizeof(type)))
#define ARENA_CALLOC(arena, count, type) ((type *)arena_calloc(arena, count, sizeof(type)))

#endif
