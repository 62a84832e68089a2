/* check.h: assertions, in every build.
 *
 * pp_assert() states an invariant of our own code: list membership, counters that add up, legal
 * states, ownership, ranges. A failure is a bug, so the process ends at once and names it; leases
 * and journals make that safe. Failures of the environment (network, disk, memory, input) are
 * handled and never asserted. */
#ifndef PHOTOPOOL_BASE_CHECK_H
#define PHOTOPOOL_BASE_CHECK_H

/* Ends the process if `holds` is false. `holds` is evaluated once. `what` says what is then wrong:
 * "the slot is held twice". */
#define pp_assert(holds, what) \
    ((holds) ? (void)0 : pp_assert_failed(__FILE_NAME__, __LINE__, __func__, #holds, what))

/* Writes one line to stderr and aborts. Any thread. */
_Noreturn void pp_assert_failed(const char *file, int line, const char *function, const char *holds,
                                const char *what);

#endif
