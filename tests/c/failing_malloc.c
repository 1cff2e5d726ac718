/* An allocator for LD_PRELOAD: the n-th allocation by a compiled module of the kernel fails. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long armed, countdown, failures, live;

/* Let the n-th allocation from now on fail; 0 counts only. */
void faults_arm(long n)
{
    countdown = n;
    failures = live = 0;
    armed = 1;
}

/* Stop, and return how many allocations failed. */
long faults_disarm(void)
{
    armed = 0;
    return failures;
}

/* Blocks that were allocated while armed and not freed. */
long faults_live(void)
{
    return live;
}

static int is_ours(void *caller)
{
    static const char *const names[] = {"_avx2.", "_baseline.", "/_letor.", "/_sampling.",
                                        "/_metrics.", "/_native."};
    Dl_info info;
    if (!armed || !dladdr(caller, &info) || !info.dli_fname)
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(info.dli_fname, names[i]))
            return 1;
    return 0;
}

static int fails(void)
{
    if (atomic_fetch_sub(&countdown, 1) != 1)
        return 0;
    failures++;
    return 1;
}

void *malloc(size_t size)
{
    if (!is_ours(__builtin_return_address(0)))
        return __libc_malloc(size);
    if (fails())
        return NULL;
    live++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (!is_ours(__builtin_return_address(0)))
        return __libc_calloc(count, size);
    if (fails())
        return NULL;
    live++;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    if (is_ours(__builtin_return_address(0))) {
        if (fails())
            return NULL;
        live += !block;
    }
    return __libc_realloc(block, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    int ours = is_ours(__builtin_return_address(0));
    if (ours && fails())
        return ENOMEM;
    live += ours;
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block)
{
    if (block && is_ours(__builtin_return_address(0)))
        live--;
    __libc_free(block);
}
