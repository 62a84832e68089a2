/* few_fds.h: takes all free descriptors from the process for a while, so that the next call that
 * needs one fails with EMFILE. */
#ifndef PHOTOPOOL_TEST_FEW_FDS_H
#define PHOTOPOOL_TEST_FEW_FDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Lowers the soft limit, so that no descriptor above standard error can be opened; open ones stay
 * usable. Returns the limits for pp_test_fds_back(). */
static inline struct rlimit pp_test_no_fds(void)
{
    struct rlimit was, none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = STDERR_FILENO + 1, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), -1);
    return was;
}

static inline void pp_test_fds_back(const struct rlimit *was)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, was), 0);
}

#endif
