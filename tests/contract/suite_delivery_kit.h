/* suite_delivery_kit.h: rows and calls for the tests of the delivery store. Each call waits for
 * its answer; an unexpected error fails the test. */
#ifndef PP_SUITE_DELIVERY_KIT_H
#define PP_SUITE_DELIVERY_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "suite_delivery_store.h"

enum { DK_NOW = 1700000000 };

struct delivery_kit {
    const char *place;
    struct pp_loop *loop;
    struct pp_delivery_store *store;
    struct pp_arena arena; /* memory of all answers, valid until the test ends */
    unsigned left;         /* number of requests in flight */
};

/* Sets the adapter that the next tests use. dk_open() and dk_close() are cmocka's setup and
 * teardown of one test, whose state is a struct delivery_kit. */
void dk_use(const struct pp_delivery_subject *subject);
int dk_open(void **state);
int dk_close(void **state);
/* Closes the store and opens it again, as a new process would. */
void dk_reopen(struct delivery_kit *k);

/* Fills in the common part of a request before its submission. A request that is in flight
 * together with others needs an arena of its own, passed as `arena`. */
struct pp_req dk_request(struct delivery_kit *k, struct pp_arena *arena);
/* Turns the loop until no request is in flight. */
void dk_wait(struct delivery_kit *k);
#define DK_RUN(k, op, r)                                                          \
    do {                                                                          \
        (r)->req = dk_request((k), &(k)->arena);                                  \
        assert_int_equal((k)->store->ops->op((k)->store, (r)), PP_OK);            \
        assert_int_equal((k)->left, 1); /* done() must not run within the call */ \
        dk_wait(k);                                                               \
    } while (0)
#define DK_EXPECT(k, op, r, expected)                                          \
    do {                                                                       \
        DK_RUN(k, op, r);                                                      \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(expected)); \
    } while (0)
#define DK_OK(k, op, r) DK_EXPECT(k, op, r, PP_OK)

/* Each of these functions sends one request and returns its answer. A sink exists once it has a
 * cursor or an endpoint. */
void dk_make_sink(struct delivery_kit *k, const char *sink, uint64_t at);
uint64_t dk_cursor(struct delivery_kit *k, const char *sink);
void dk_save(struct delivery_kit *k, const char *sink, uint64_t cursor, const struct pp_delivery *rows,
             size_t n);
struct pp_delivery_list dk_list(struct delivery_kit *k, const char *sink, int status, uint64_t before,
                                size_t limit);
struct pp_delivery_due dk_due(struct delivery_kit *k, const char *sink, int64_t now_ms, size_t limit);
struct pp_delivery_sink dk_sink(struct delivery_kit *k, const char *sink);

/* Returns a row for an item that finished at DK_NOW + seq. */
struct pp_delivery dk_row(uint64_t seq, enum pp_delivery_status status, int64_t due_ms);
struct pp_webhook dk_endpoint(const char *name);
char *dk_long_text(struct delivery_kit *k, size_t n, char c);

void dk_same_text(const char *a, const char *b);
void dk_same_row(const struct pp_delivery *a, const struct pp_delivery *b);
/* Asserts that the rows have these seqs, given as "3 2 1". */
void dk_seqs_are(const struct pp_delivery *rows, size_t n, const char *expected);

/* One part of the suite: a table of tests. */
struct delivery_tests {
    const struct CMUnitTest *tests;
    size_t n;
};
extern const struct delivery_tests delivery_random_tests, delivery_webhook_tests, delivery_day_tests;
#define DK_TEST(f) cmocka_unit_test_setup_teardown(f, dk_open, dk_close)

#endif
