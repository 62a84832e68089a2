/* suite_store_kit.h: helpers for the tests of the task store: short texts for batches, and calls
 * that wait for their answer.
 *
 * A batch is a text such as "a: p1 p2/x; b: p1=failed; c:", a list of items with their photos. A
 * photo is a name, followed by "/host" (default "d"), and by "=outcome" if the planner answers
 * it: stored, skipped or failed. Equal names stand for equal URLs. An unexpected error fails the
 * test. */
#ifndef PP_SUITE_STORE_KIT_H
#define PP_SUITE_STORE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "suite_task_store.h"

enum { KIT_LEASE_MS = 10000 };
#define KIT_WORKER "host-1-aaaa"

struct store_kit {
    const struct pp_store_subject *subject;
    const char *place;
    struct pp_loop *loop;
    struct pp_task_store *store;
    struct pp_arena arena; /* memory of all answers, valid until the test ends */
    /* the arenas that sk_arena() has made, one for each request */
    struct pp_arena *of_flights[256];
    unsigned n_flights;
    int64_t now;
    bool done;
};

/* cmocka's setup and teardown of one test, whose state is a struct store_kit. */
int sk_open(void **state);
int sk_close(void **state);
void sk_use(const struct pp_store_subject *subject);
/* Makes an arena for one request, valid until the test ends. Requests in flight at the same time
 * need an arena each, because the store fills in answers on a thread. */
struct pp_arena *sk_arena(struct store_kit *k);
/* Closes the store and opens it again, as a new process would. */
void sk_reopen(struct store_kit *k);

/* Waits for the answer to a request that was submitted. KIT_RUN submits a request and waits. KIT_OK
 * also asserts that the request succeeded. */
void sk_wait(struct store_kit *k, struct pp_req *req, enum pp_err submitted);
void sk_req(struct store_kit *k, struct pp_req *req);
#define KIT_RUN(k, op, r)                                              \
    do {                                                               \
        sk_req((k), &(r)->req);                                        \
        sk_wait((k), &(r)->req, (k)->store->ops->op((k)->store, (r))); \
    } while (0)
#define KIT_OK(k, op, r)                                                    \
    do {                                                                    \
        KIT_RUN(k, op, r);                                                  \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(PP_OK)); \
    } while (0)

struct pp_key sk_key(const char *client, const char *photo);
/* The key that sk_key() gives the photo of this URL, whose name may have escapes (pp_key_of): "%61"
 * is another spelling of the photo "a". */
struct pp_key sk_key_of(const char *client, const char *url, size_t n);
struct pp_object sk_object(const char *content);

/* Makes a plan request for a text, with the whole batch in one chunk. The test may change the
 * request before it sends it. sk_plan() also looks up the photos and sends the request. */
struct pp_store_plan *sk_plan_of(struct store_kit *k, const char *client, const char *batch,
                                 const char *text);
struct pp_store_plan *sk_plan(struct store_kit *k, const char *client, const char *batch, const char *text);

struct pp_store_claim *sk_claim_as(struct store_kit *k, const char *worker, const char *client, uint8_t queue,
                                   uint32_t n);
struct pp_store_claim *sk_claim(struct store_kit *k, const char *client, uint8_t queue, uint32_t n);
/* Claims the task of this photo; fails the test if there is none. */
struct pp_task *sk_claim_photo(struct store_kit *k, const char *client, const char *photo);

/* Settles one task; returns true if the settlement was stale. */
bool sk_final(struct store_kit *k, const char *worker, const struct pp_task *t, enum pp_outcome_kind kind);
bool sk_fail(struct store_kit *k, const struct pp_task *t, uint16_t code, bool ladder);
bool sk_back(struct store_kit *k, const char *worker, const struct pp_task *t, enum pp_settle_kind kind,
             uint8_t tier, int64_t due_ms);
struct pp_store_settle *sk_settle(struct store_kit *k, const char *worker, struct pp_settlement *s, size_t n);
struct pp_settlement sk_settlement(const struct pp_task *t, enum pp_outcome_kind kind);

struct pp_store_reap *sk_reap(struct store_kit *k, const char *alive);
struct pp_batch sk_batch(struct store_kit *k, const char *batch);
struct pp_item sk_item(struct store_kit *k, const char *client, const char *item);
/* Returns all finished items of a batch, read in pages of `limit`. */
struct pp_item *sk_results(struct store_kit *k, const char *batch, size_t limit, size_t *n);
struct pp_store_photo *sk_photo(struct store_kit *k, const char *client, const char *photo);
struct pp_store_cancel *sk_cancel(struct store_kit *k, const char *client, const char *batch);
/* Two steps of a test of stores that give photos the keys of their canonical URLs. The first plans,
 * claims and settles photos of which some have two spellings. After the second, which expects that
 * the store has re-keyed them, all is settled. */
void sk_before_rekey(struct store_kit *k);
void sk_after_rekey(struct store_kit *k);
/* Asserts that the batch's counters match its items: the finished items are those of its
 * results, the open ones are those in `ids` ("a b c"). */
void sk_check_counts(struct store_kit *k, const char *client, const char *batch, const char *ids);

#endif
