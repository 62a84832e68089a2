/* suite_mongo_kit.h: what the tests of faults share: stores that may be reached through a proxy, and work
 * with a known result, whatever happens in between: exactly what it would be if nothing did. */
#ifndef PP_SUITE_MONGO_KIT_H
#define PP_SUITE_MONGO_KIT_H

#include "mongo_proxy.h"
#include "mongo_server.h"
#include "suite_store_kit.h"

enum { MK_TRIES = 30 }; /* of a request that fails, at most */

extern const struct pp_store_subject mk_subject;
extern struct mongo_proxy *mk_proxy; /* NULL: straight */
extern int64_t mk_timeout_ms;        /* of stores; shorter for tests in which an answer does not come */

/* cmocka's set-up and tear-down. */
int mk_open_proxied(void **state);
int mk_close_proxied(void **state);

/* One run: a client and batches of its own, so that runs share a database. */
struct trial {
    struct store_kit *k;
    const char *client, *batch, *batch2;
    struct pp_task tasks[16]; /* claimed */
    size_t n;
};

/* Errors that a fault may lead to, and none. */
bool mk_tolerable(enum pp_err err);
enum pp_err mk_reap(struct store_kit *k);
/* What somebody has left half done is taken up by the reaper. */
void mk_let_others_mend(struct store_kit *k);
const struct pp_task *mk_task(const struct trial *t, const char *photo);
/* Adds the claimed tasks; none may be there. */
void mk_keep(struct trial *t, const struct pp_store_claim *c);
/* Claims what there is, of all queues: so many. */
void mk_claim_all(struct trial *t, size_t count);
void mk_store_all(struct trial *t);
void mk_expect_item(struct trial *t, const char *id, enum pp_item_status status, uint32_t revision);
/* The batch has ended, and so many results are there, each item once: whatever numbers of results others have
 * taken and lost. */
void mk_expect_finished(struct trial *t, const char *batch, size_t items, enum pp_batch_state state);

/* Work: its preparation, the operation (again until PP_OK), and what has to be the case after it. */
void mk_six_tasks(struct trial *t);
enum pp_err mk_claim_four(struct trial *t); /* once */
void mk_six_once(struct trial *t);

void mk_four_claimed(struct trial *t);
enum pp_err mk_settle_four(struct trial *t); /* each in another way */
void mk_settled_once(struct trial *t);
enum pp_err mk_settle_all(struct trial *t); /* outcomes that end the batch */
void mk_all_ended_once(struct trial *t);

void mk_one_batch_before(struct trial *t);
enum pp_err mk_plan_more(struct trial *t);
void mk_planned_once(struct trial *t);

#endif
