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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_counted),
        cmocka_unit_test(the_limit_is_the_soft_one),
        cmocka_unit_test(memory_and_time),
        cmocka_unit_test(one_thread_gets_long_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
