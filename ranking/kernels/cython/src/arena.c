#include "arena.h"

#include <stdlib.h>

#define LINE 64

struct arena_chunk {
    arena_chunk_t *previous;
};

static void *add_chunk(arena_t *arena, arena_chunk_t *chunk)
{
    if (!chunk) {
        arena->failed = 1;
        return NULL;
    }
    chunk->previous = arena->last;
    arena->last = chunk;
    return (void *)(((uintptr_t)(chunk + 1) + LINE - 1) / LINE * LINE);
}

/* Bytes to allocate, or 0 if there are too many. */
static size_t chunk_bytes(int64_t count, size_t size)
{
    int fits = count >= 0 && (uint64_t)count < (UINT64_C(1) << 60) / size;
    return fits ? (size_t)count * size + 2 * LINE : 0;
}

void *arena_alloc(arena_t *arena, int64_t count, size_t size)
{
    size_t bytes = chunk_bytes(count, size);
    return add_chunk(arena, bytes ? malloc(bytes) : NULL);
}

void *arena_calloc(arena_t *arena, int64_t count, size_t size)
{
    size_t bytes = chunk_bytes(count, size);
    return add_chunk(arena, bytes ? calloc(bytes, 1) : NULL);
}

void arena_own(arena_t *arena, buffer_t *buffer)
{
    buffer->previous = arena->buffers;
    arena->buffers = buffer;
}

int buffer_reserve(buffer_t *buffer, int64_t count, size_t size)
{
    int64_t capacity = count + count / 2;
    void *data;
    if (count <= buffer->capacity)
        return 1;
    data = realloc(buffer->data, (size_t)capacity * size);
    if (!data)
        return 0;
    buffer->data = data;
    buffer->capacity = capacity;
    return 1;
}

void arena_free(arena_t *arena)
{
    for (; arena->buffers; arena->buffers = arena->buffers->previous)
        free(arena->buffers->data);
    while (arena->last) {
        arena_chunk_t *previous = arena->last->previous;
        free(arena->last);
        arena->last = previous;
    }
}
