/* Tests what process.h tells about this process, against what the test itself does. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/process.h"

static void descriptors_are_counted(void **state)
{
    (void)state;
    int fds[20];
    uint64_t before = pp_process_open_fds();
    assert_true(before >= 3);
    for (int i = 0; i < 20; i++)
        assert_true((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    assert_int_equal(pp_process_open_fds(), before + 20);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
    assert_int_equal(pp_process_open_fds(), before);
}

static void the_limit_is_the_soft_one(void **state)
{
    (void)state;
    struct rlimit was, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    low = (struct rlimit){.rlim_cur = 100, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(pp_process_max_fds(), 100);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

static void memory_and_time(void **state)
{
    (void)state;
    enum { BYTES = 64 << 20 };
    uint64_t before = pp_process_resident_bytes();
    double cpu = pp_process_cpu_seconds();
    char *p = malloc(BYTES);
    assert_non_null(p);
    memset(p, 1, BYTES);
    assert_true(pp_process_resident_bytes() >= before + BYTES / 2);
    assert_true(p[BYTES - 1] == 1);
    free(p);
    assert_true(pp_process_cpu_seconds() > cpu);
}

static uint64_t slice_ns(void)
{
    uint64_t attr[6] = {0}; /* struct sched_attr; its fourth word is sched_runtime */
    assert_int_equal(syscall(SYS_sched_getattr, 0, attr, sizeof attr, 0), 0);
    return attr[3];
}

static void *ask_for_long_slices(void *data)
{
    pp_thread_long_slices();
    *(uint64_t *)data = slice_ns();
    return NULL;
}

/* Before Linux 6.12 the kernel has no slices of threads, and tells 0. */
static void one_thread_gets_long_slices(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t mine = slice_ns(), its = 0;
    assert_int_equal(pthread_create(&thread, NULL, ask_for_long_slices, &its), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(its, mine == 0 ? 0 : 20000000);
    assert_int_equal(slice_ns(), mine);
}

/* Between blocks that stay, what was freed is resident until it is trimmed. */
static void free_pages_go_back(void **state)
{
    (void)state;
    enum { BLOCKS = 512, BYTES = 100000 };
    char *large[BLOCKS], *small[BLOCKS];
    pp_process_return_memory();
    for (int i = 0; i < BLOCKS; i++) {
        assert_non_null(large[i] = malloc(BYTES));
        memset(large[i], 1, BYTES);
        assert_non_null(small[i] = malloc(1000));
    }
    for (int i = 0; i < BLOCKS; i++)
        free(large[i]);
    uint64_t before = pp_process_resident_bytes();
    pp_process_trim_memory();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their allocators have no trim */
    assert_true(pp_process_resident_bytes() + BLOCKS * BYTES * 9ull / 10 < before);
#endif
    (void)before;
    for (int i = 0; i < BLOCKS; i++)
        free(small[i]);
}

/* Large blocks and large arenas go back to the system when they are freed, even if smaller blocks
 * behind them stay. */
static void large_blocks_go_back(void **state)
{
    (void)state;
    enum { BLOCKS = 32, BYTES = 1 << 20, PIECE = 30000 };
    char *large[BLOCKS], *small[2 * BLOCKS];
    struct pp_arena arenas[BLOCKS];
    pp_process_return_memory();
    free(malloc(4 * BYTES)); /* by default, glibc would keep blocks of this size from now on */
    uint64_t before = pp_process_resident_bytes();
    for (int i = 0; i < BLOCKS; i++) {
        assert_non_null(large[i] = malloc(BYTES));
        memset(large[i], 1, BYTES);
        assert_non_null(small[2 * i] = malloc(1000));
        pp_arena_init(&arenas[i], 0);
        for (size_t n = 0; n < 4 * BYTES; n += PIECE)
            memset(pp_arena_alloc(&arenas[i], PIECE), 1, PIECE);
        assert_non_null(small[2 * i + 1] = malloc(1000));
    }
    assert_true(pp_process_resident_bytes() >= before + BLOCKS * 4ull * BYTES);
    for (int i = 0; i < BLOCKS; i++) {
        free(large[i]);
        pp_arena_fini(&arenas[i]);
    }
#ifndef __SANITIZE_ADDRESS__ /* that allocator keeps freed memory for a while */
    assert_true(pp_process_resident_bytes() < before + BLOCKS * (uint64_t)BYTES);
#endif
    for (int i = 0; i < 2 * BLOCKS; i++)
        free(small[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_counted), cmocka_unit_test(the_limit_is_the_soft_one),
        cmocka_unit_test(memory_and_time),         cmocka_unit_test(one_thread_gets_long_slices),
        cmocka_unit_test(free_pages_go_back),      cmocka_unit_test(large_blocks_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
