/* suite_event_log.h: the contract of port/event_log.h, run on each adapter; and what its tests are written
 * in.
 *
 * A kit has a loop, logs of one place (as several processes would have them open), and a store's numbers: an
 * append that needs some is given a block and sent again. Whatever fails, fails the test. */
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
    /* A new, empty place for a log; valid until the process ends. */
    const char *(*place)(void);
    /* Opens the log in that place; again after ops->close(), with what it had. */
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_event_log **out);
    bool shared; /* several may have it open at once */
};

/* Runs the suite; the number of failed tests. */
int pp_suite_event_log(const struct pp_log_subject *subject);

enum { LK_LOGS = 3, LK_LONG_MS = 30000 };

struct log_kit {
    const struct pp_log_subject *subject;
    const char *place;
    struct pp_loop *loop;
    struct pp_event_log *logs[LK_LOGS]; /* the first is open from the start */
    struct pp_arena arena;
    uint64_t next_number; /* of the store's */
    uint64_t block;       /* numbers a block */
    unsigned blocks;      /* that were asked for */
    int64_t now;          /* at_ms of what is appended */
    uint64_t made;        /* events so far: their data says which one it is */
    bool done;
};

/* cmocka set-up and tear-down of one test. */
void lk_use(const struct pp_log_subject *subject);
int lk_open(void **state);
int lk_close(void **state);
void lk_open_log(struct log_kit *k, int i);
void lk_close_log(struct log_kit *k, int i);

/* Prepares a request, and turns the loop until it is done. */
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

/* n events, each with data that is its own. */
struct pp_event *lk_events(struct log_kit *k, size_t n);
/* Appends them as log i, with numbers from the store where it needs some; asserts that they follow each
 * other; the first number. */
uint64_t lk_append_these(struct log_kit *k, int i, struct pp_event *events, size_t n);
uint64_t lk_append(struct log_kit *k, int i, size_t n);
/* A block of the store's numbers, as the answer to `stale`; PP_OK or what begin came to. */
enum pp_err lk_begin(struct log_kit *k, int i, uint64_t stale);
/* One read; checks that it is in order, above `after` and within its bounds. */
struct pp_log_read lk_read(struct log_kit *k, int i, uint64_t after, size_t limit, size_t max_bytes);
/* Everything above `after`, in pages of `limit`. */
struct pp_event *lk_all(struct log_kit *k, int i, uint64_t after, size_t limit, size_t *n);
struct pp_log_clean lk_clean(struct log_kit *k, int64_t before_ms, uint64_t max_bytes, size_t limit);

#endif
