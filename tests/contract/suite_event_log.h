/* suite_event_log.h: the contract of port/event_log.h, run on each adapter, and the kit of its
 * tests.
 *
 * A kit has a loop and several logs in one place, as if several processes had opened it. The kit
 * also hands out the numbers of the store: when an append needs numbers, the kit gives the log a
 * block of them and sends the append again. An unexpected error fails the test. */
#ifndef PP_SUITE_EVENT_LOG_H
#define PP_SUITE_EVENT_LOG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "photopool/port/event_log.h"
#include "runtime/loop.h"

struct pp_log_subject {
    const char *name;
    /* Makes a new, empty place for a log. The returned name is valid until the process ends. */
    const char *(*place)(void);
    /* Opens the log in that place. A log that is opened again after ops->close() has its former
     * content. */
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_event_log **out);
    bool shared; /* True if several processes may open one place at the same time. */
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_event_log(const struct pp_log_subject *subject);

enum { LK_LOGS = 3, LK_LONG_MS = 30000 };

struct log_kit {
    const struct pp_log_subject *subject;
    const char *place;
    struct pp_loop *loop;
    struct pp_event_log *logs[LK_LOGS]; /* logs in the same place; the setup opens only the first */
    struct pp_arena arena;
    uint64_t next_number; /* number that the store gives out next */
    uint64_t block;       /* how many numbers the store gives out at once */
    unsigned blocks;      /* number of blocks requested so far */
    int64_t now;          /* the at_ms of the next event that the kit makes */
    uint64_t made;        /* number of events made so far; the data of an event contains its number */
    bool done;
};

/* Sets the adapter that the next tests use. lk_open() and lk_close() are cmocka's setup and
 * teardown of one test, whose state is a struct log_kit. */
void lk_use(const struct pp_log_subject *subject);
int lk_open(void **state);
int lk_close(void **state);
void lk_open_log(struct log_kit *k, int i);
void lk_close_log(struct log_kit *k, int i);

/* Fills in the common part of a request, submits it, and turns the loop until it is answered. */
#define LK_RUN(k, i, op, r)                                                                \
    do {                                                                                   \
        (r)->req = (struct pp_req){.done = lk_on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                                 \
        assert_int_equal((k)->logs[i]->ops->op((k)->logs[i], (r)), PP_OK);                 \
        lk_wait(k);                                                                        \
    } while (0)
#define LK_DUE(k, i, op, r, due)                                          \
    do {                                                                  \
        LK_RUN(k, i, op, r);                                              \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)
void lk_on_done(struct pp_req *req);
void lk_wait(struct log_kit *k);

/* Makes n events, each with its own data. */
struct pp_event *lk_events(struct log_kit *k, size_t n);
/* Appends `n` new events by log i, with numbers from the store if the log needs them. Asserts
 * that their numbers are consecutive; returns the first one. */
uint64_t lk_append_these(struct log_kit *k, int i, struct pp_event *events, size_t n);
uint64_t lk_append(struct log_kit *k, int i, size_t n);
/* Gives the log a block of the store's numbers. `stale` is what the log answered when it needed
 * numbers. Returns PP_OK or the error of `begin`. */
enum pp_err lk_begin(struct log_kit *k, int i, uint64_t stale);
/* Reads one page. Checks that its events are in order, above `after` and within the limits. */
struct pp_log_read lk_read(struct log_kit *k, int i, uint64_t after, size_t limit, size_t max_bytes);
/* Reads all events above `after`, in pages of `limit`. */
struct pp_event *lk_all(struct log_kit *k, int i, uint64_t after, size_t limit, size_t *n);
struct pp_log_clean lk_clean(struct log_kit *k, int64_t before_ms, uint64_t max_bytes, size_t limit);

#endif
