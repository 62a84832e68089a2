/* suite_store_kit.h: what the task store's tests are written in: short texts for batches, calls that wait.
 *
 * A batch is a text, "a: p1 p2/x; b: p1=failed; c:": items with their photos. A photo is a name, after it
 * "/host" (default "d") and "=outcome" for one that is answered already: stored, skipped, failed. Names stand
 * for URLs: the same name is the same URL. Whatever fails, fails the test. */
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
    struct pp_arena arena;            /* everything that the kit answers with lives until the test ends */
    struct pp_arena *of_flights[256]; /* sk_arena() */
    unsigned n_flights;
    int64_t now;
    bool done;
};

/* cmocka set-up and tear-down of one test; the state is a struct store_kit. */
int sk_open(void **state);
int sk_close(void **state);
void sk_use(const struct pp_store_subject *subject);
/* An arena of its own, until the test ends: for a request that is under way while others are. The store fills
 * in its answer on a thread. */
struct pp_arena *sk_arena(struct store_kit *k);
/* Closes the store and opens it again, as a new process would. */
void sk_reopen(struct store_kit *k);

/* Prepares a request, and turns the loop until it is done. */
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
struct pp_object sk_object(const char *content);

/* Fills a plan request from a text; the whole batch in one chunk. Tests may change it before they run it. It
 * knows of no photo that it has bytes; sk_plan() looks that up, and runs it. */
struct pp_store_plan *sk_plan_of(struct store_kit *k, const char *client, const char *batch,
                                 const char *text);
struct pp_store_plan *sk_plan(struct store_kit *k, const char *client, const char *batch, const char *text);

struct pp_store_claim *sk_claim_as(struct store_kit *k, const char *worker, const char *client, uint8_t queue,
                                   uint32_t n);
struct pp_store_claim *sk_claim(struct store_kit *k, const char *client, uint8_t queue, uint32_t n);
/* Claims one task that must be there, of this photo. */
struct pp_task *sk_claim_photo(struct store_kit *k, const char *client, const char *photo);

/* Settlements of one task: true if it was stale. */
bool sk_final(struct store_kit *k, const char *worker, const struct pp_task *t, enum pp_outcome_kind kind);
bool sk_fail(struct store_kit *k, const struct pp_task *t, uint16_t code, bool ladder);
bool sk_back(struct store_kit *k, const char *worker, const struct pp_task *t, enum pp_settle_kind kind,
             uint8_t tier, int64_t due_ms);
struct pp_store_settle *sk_settle(struct store_kit *k, const char *worker, struct pp_settlement *s, size_t n);
struct pp_settlement sk_settlement(const struct pp_task *t, enum pp_outcome_kind kind);

struct pp_store_reap *sk_reap(struct store_kit *k, const char *alive);
struct pp_batch sk_batch(struct store_kit *k, const char *batch);
struct pp_item sk_item(struct store_kit *k, const char *client, const char *item);
/* All finished items of a batch, in pages of `limit`. */
struct pp_item *sk_results(struct store_kit *k, const char *batch, size_t limit, size_t *n);
struct pp_store_photo *sk_photo(struct store_kit *k, const char *client, const char *photo);
struct pp_store_cancel *sk_cancel(struct store_kit *k, const char *client, const char *batch);
/* The batch's counters are what its items say: finished ones from the results, open ones as `ids` names them
 * ("a b c"). */
void sk_check_counts(struct store_kit *k, const char *client, const char *batch, const char *ids);

#endif
