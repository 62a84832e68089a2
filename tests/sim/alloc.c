/* alloc.c: malloc() for the simulator, which would spend a fifth of its time in the C library's.
 * That one merges and splits blocks, and so reads memory that the processor's caches no longer
 * hold. Here a freed block waits in a list for the next request of its class of sizes, and is never
 * merged.
 *
 * Invariants:
 *  - Before each block is a header of 16 bytes, which names the block's class. Blocks above LARGE
 *    have the class N_CLASSES, and are mapped one by one.
 *  - Each thread has its own lists, so nothing is locked; a block may be freed by another thread.
 *  - Blocks in the lists are not given back to the kernel: the program is short.
 *
 * Programs with sanitizers use the sanitizer's malloc(): CMake leaves this file out. */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    STEP = 16,          /* classes up to SMALL are multiples of it */
    SMALL = 1024,       /* above are four classes between each two powers of two */
    LARGE = 512 * 1024, /* above are no classes */
    N_SMALL = SMALL / STEP,
    N_CLASSES = N_SMALL + 4 * 9, /* 2 to the power of 9 is LARGE / SMALL */
    REGION = 4 << 20
};

struct head {
    uint32_t class;
    uint32_t offset; /* bytes from the block that was allocated, if the caller wanted an alignment */
    size_t n;        /* usable bytes */
};
_Static_assert(sizeof(struct head) == STEP, "blocks are aligned");

struct unused {
    struct unused *next;
};

static _Thread_local struct {
    struct unused *lists[N_CLASSES];
    char *at, *end; /* memory that was never used */
} pool;

static struct head *head_of(void *p)
{
    return (struct head *)p - 1;
}

/* Returns the class of `n` bytes, and sets n to the bytes of its blocks. */
static unsigned class_of(size_t *n)
{
    if (*n <= SMALL) {
        unsigned i = *n > 0 ? (unsigned)((*n - 1) / STEP) : 0;
        *n = (i + 1) * (size_t)STEP;
        return i;
    }
    unsigned log = 63 - (unsigned)__builtin_clzll(*n - 1); /* SMALL is 2 to the power of 10 */
    size_t quarter = (size_t)1 << (log - 2);
    unsigned k = (unsigned)((*n - 1 - ((size_t)1 << log)) / quarter);
    *n = ((size_t)1 << log) + (k + 1) * quarter;
    return N_SMALL + (log - 10) * 4 + k;
}

static void *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void *fail(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *from_region(unsigned class, size_t n)
{
    size_t need = sizeof(struct head) + n;

    if ((size_t)(pool.end - pool.at) < need) {
        char *region = map(REGION);
        if (!region)
            return fail();
        pool.at = region;
        pool.end = region + REGION;
    }
    struct head *h = (struct head *)(void *)pool.at;
    pool.at += need;
    *h = (struct head){.class = class, .n = n};
    return h + 1;
}

static void *large(size_t n)
{
    struct head *h = n < SIZE_MAX / 4 ? map(sizeof *h + n) : NULL;

    if (!h)
        return fail();
    *h = (struct head){.class = N_CLASSES, .n = n};
    return h + 1;
}

static void *take(size_t n)
{
    if (n > LARGE)
        return large(n);
    unsigned class = class_of(&n);
    struct unused *u = pool.lists[class];
    if (!u)
        return from_region(class, n);
    pool.lists[class] = u->next;
    return u;
}

void *malloc(size_t n)
{
    return take(n);
}

void free(void *p)
{
    if (!p)
        return;
    struct head *h = head_of(p);
    if (h->offset) {
        p = (char *)p - h->offset;
        h = head_of(p);
    }
    if (h->class == N_CLASSES) {
        (void)munmap(h, sizeof *h + h->n);
        return;
    }
    struct unused *u = p;
    u->next = pool.lists[h->class];
    pool.lists[h->class] = u;
}

void *calloc(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        return fail();
    void *p = take(bytes);
    if (p && bytes <= LARGE) /* the kernel has zeroed what it maps */
        memset(p, 0, bytes);
    return p;
}

void *realloc(void *p, size_t n)
{
    if (!p)
        return take(n);
    size_t old = head_of(p)->n;
    if (n <= old && n > old / 2)
        return p;
    void *to = take(n);
    if (!to)
        return NULL;
    memcpy(to, p, n < old ? n : old);
    free(p);
    return to;
}

size_t malloc_usable_size(void *p)
{
    return p ? head_of(p)->n : 0;
}

void *memalign(size_t align, size_t n)
{
    if (align <= STEP)
        return take(n);
    char *p = n < SIZE_MAX / 4 && align < SIZE_MAX / 4 ? take(n + align) : fail();
    size_t offset = p ? align - (uintptr_t)p % align : 0;
    if (!p || offset == align)
        return p;
    *head_of(p + offset) = (struct head){.offset = (uint32_t)offset, .n = head_of(p)->n - offset};
    return p + offset;
}

void *aligned_alloc(size_t align, size_t n)
{
    return memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    *p = memalign(align, n);
    return *p ? 0 : ENOMEM;
}
