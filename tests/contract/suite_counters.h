/* suite_counters.h: the contract of port/counters.h, run on each adapter, and the kit of its tests.
 * An unexpected error fails the test. */
#ifndef PP_SUITE_COUNTERS_H
#define PP_SUITE_COUNTERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "photopool/port/counters.h"
#include "runtime/loop.h"

struct pp_counters_subject {
    const char *name;
    /* Makes a new place without counters. The returned name is valid until the process ends. */
    const char *(*place)(void);
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_counters **out);
    bool shared; /* True if several processes may open one place at the same time. */
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_counters(const struct pp_counters_subject *subject);

enum { CNT_LONG_MS = 60000, CNT_DAY = 20785 /* 2026-11-28 */ };
#define CNT_NOW (CNT_DAY * INT64_C(86400000) + 3600000)

struct counters_kit {
    const struct pp_counters_subject *subject;
    const char *place;
    struct pp_loop *loop;
    struct pp_counters *ports[2]; /* in the same place; the setup opens only the first */
    struct pp_arena arena;
    size_t waits; /* requests that are not answered yet */
};

/* Sets the adapter that the next tests use. cnt_open() and cnt_close() are cmocka's setup and
 * teardown of one test, whose state is a struct counters_kit. */
void cnt_use(const struct pp_counters_subject *subject);
int cnt_open(void **state);
int cnt_close(void **state);
void cnt_open_port(struct counters_kit *k, int i);
void cnt_close_port(struct counters_kit *k, int i);

/* Fills in the common part of a request, and submits it. */
#define CNT_SEND(k, i, op, r)                                                               \
    do {                                                                                    \
        (r)->req = (struct pp_req){.done = cnt_on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->waits++;                                                                       \
        assert_int_equal((k)->ports[i]->ops->op((k)->ports[i], (r)), PP_OK);                \
    } while (0)
/* The same, and turns the loop until all requests are answered. */
#define CNT_DUE(k, i, op, r, due)                                         \
    do {                                                                  \
        CNT_SEND(k, i, op, r);                                            \
        cnt_wait(k);                                                      \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)
void cnt_on_done(struct pp_req *req);
void cnt_wait(struct counters_kit *k);

/* Increments one counter on a day, and returns its sum. */
int64_t cnt_add_on(struct counters_kit *k, int i, const char *key, int64_t by, int32_t day);
int64_t cnt_add(struct counters_kit *k, int i, const char *key, int64_t by);
int64_t cnt_read(struct counters_kit *k, int i, const char *key);
/* Returns the number of one day; -1: the answer does not have that day. */
int64_t cnt_day(struct counters_kit *k, int i, const char *key, int32_t day);
void cnt_remove(struct counters_kit *k, int i, const char *key);
/* Makes a token from two texts. */
struct pp_counter_token cnt_token(const char *id, const char *digest);

#endif
