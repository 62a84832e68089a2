/* suite_mongo_kit.h: the kit of tests in which messages are lost. It has stores, some of them
 * behind a proxy, and operations that must have the same result with and without faults. */
#ifndef PP_SUITE_MONGO_KIT_H
#define PP_SUITE_MONGO_KIT_H

#include "mongo_proxy.h"
#include "mongo_server.h"
#include "suite_store_kit.h"

enum { MK_TRIES = 30 }; /* After this many failed tries of one request the test fails. */

extern const struct pp_store_subject mk_subject;
extern struct mongo_proxy *mk_proxy; /* proxy of the stores; NULL if they connect directly */
/* timeout of the stores in ms; a test in which an answer never comes makes it short */
extern int64_t mk_timeout_ms;

/* cmocka's setup and teardown of one test. */
int mk_open_proxied(void **state);
int mk_close_proxied(void **state);

/* One run of an operation. Each run uses another client and other batches, so that runs can share a
 * database. */
struct trial {
    struct store_kit *k;
    const char *client, *batch, *batch2;
    struct pp_task tasks[16]; /* tasks that the run has claimed */
    size_t n;
};

/* Returns true for PP_OK and for each error that a fault may cause. */
bool mk_tolerable(enum pp_err err);
enum pp_err mk_reap(struct store_kit *k);
/* Moves the clock and runs the reaper, which completes operations that another process left
 * unfinished. */
void mk_let_others_mend(struct store_kit *k);
const struct pp_task *mk_task(const struct trial *t, const char *photo);
/* Adds the tasks of a claim to those that the run has claimed. The claim may have returned none. */
void mk_keep(struct trial *t, const struct pp_store_claim *c);
/* Replaces the claimed tasks of the run by a claim from all queues. Asserts that it returns
 * exactly `count` tasks. */
void mk_claim_all(struct trial *t, size_t count);
void mk_store_all(struct trial *t);
void mk_expect_item(struct trial *t, const char *id, enum pp_item_status status, uint32_t revision);
/* Asserts that the batch has ended with one result for each of `items` items. The numbers of the
 * results may have gaps, because faults can lose numbers. */
void mk_expect_finished(struct trial *t, const char *batch, size_t items, enum pp_batch_state state);

/* Prepares an operation. Each operation consists of three functions: the preparation; the
 * operation, which the test repeats until PP_OK; and a check of the result. */
void mk_six_tasks(struct trial *t);
enum pp_err mk_claim_four(struct trial *t); /* claims four tasks, in a single try */
void mk_six_once(struct trial *t);

void mk_four_claimed(struct trial *t);
enum pp_err mk_settle_four(struct trial *t); /* settles four tasks, each with another outcome */
void mk_settled_once(struct trial *t);
enum pp_err mk_settle_all(struct trial *t); /* settles all tasks, which ends the batch */
void mk_all_ended_once(struct trial *t);

void mk_one_batch_before(struct trial *t);
enum pp_err mk_plan_more(struct trial *t);
void mk_planned_once(struct trial *t);

#endif
