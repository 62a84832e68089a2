/* suite_coordinator_kit.h: helpers for the tests of the coordinator. Each call waits for its
 * answer; an unexpected error fails the test. */
#ifndef PP_SUITE_COORDINATOR_KIT_H
#define PP_SUITE_COORDINATOR_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "suite_coordinator.h"

#define CK_WINDOW_MS 60000
#define CK_LEASE_MS  30000
#define CK_T0        INT64_C(1700000000000)

enum { CK_WORKERS = 2 * PP_NEAR_MAX + 32, CK_ALL_NOTICES = (1 << PP_NOTICE_KINDS) - 1 };

struct coord_kit;

/* One more process, and what its watchers have heard since ck_forget(). */
struct ck_worker {
    struct coord_kit *k;
    struct pp_coordinator *c;
    struct pp_worker_info info; /* of its heartbeats */
    char id[24];
    bool silent; /* it sends no heartbeats */
    int rows;    /* number of rows, and the latest one */
    struct pp_backlog_row row;
    char client[80];
    int notices[PP_NOTICE_KINDS];
    int losses; /* since the port was opened */
    int drains;
    char drained[100]; /* the argument of the latest call; "*": NULL */
};

struct coord_kit {
    const struct pp_coord_subject *subject;
    const char *place;
    struct pp_loop *loop;
    /* c: the coordinator under test; d: the coordinator of a second process, or NULL */
    struct pp_coordinator *c, *d;
    struct pp_arena arena; /* memory of all answers, valid until the test ends */
    bool done;
    /* The following members count and record the calls of c's watchers. */
    struct pp_backlog_row rows[64];
    char clients[64][80];
    /* n_rows: number of rows since the last ck_heard(); announced: number of calls with rows */
    size_t n_rows, announced;
    bool heard_known;        /* the member `known` of the latest row */
    struct pp_notice notice; /* the latest notice of a kind other than "any client may have work" */
    char notice_a[80], notice_b[80];
    int notices, losses;
    int drains;
    char drained[100]; /* worker that was asked to drain; "*": all workers */
    struct ck_worker *workers[CK_WORKERS];
    size_t n_workers;
};

/* cmocka's setup and teardown of one test, whose state is a struct coord_kit. ck_open() opens
 * the installation's first data set. */
int ck_open(void **state);
int ck_open_lost(void **state);
int ck_close(void **state);
/* Closes all ports, as part of ck_close(). */
void ck_close_ports(struct coord_kit *k);
void ck_use(const struct pp_coord_subject *subject);

/* Sets the clock of all coordinators, if the adapter has one. */
void ck_at(struct coord_kit *k, int64_t now);
/* Closes k->c without releasing its slots, as a crash would, and opens a new one. */
void ck_crash(struct coord_kit *k);
/* Opens the coordinator of a second process as k->d, and waits until it knows the data set. */
void ck_open_other(struct coord_kit *k);

struct pp_req ck_request(struct coord_kit *k);
void ck_wait(struct coord_kit *k, enum pp_err submitted, struct pp_req *req, enum pp_err expected);

/* Requests n shares for `worker` at `now`, and fills in the answers. ck_acquire() requests a single
 * share and returns the answer. */
void ck_acquire_all(struct coord_kit *k, const char *worker, struct pp_slot_want *wants, size_t n,
                    int64_t now);
struct pp_slot_want ck_acquire(struct coord_kit *k, const char *worker, struct pp_slot_want want,
                               int64_t now);
/* Acquires a share for w1 with a concurrency of 8. A refusal fails the test. */
struct pp_slot_want ck_granted(struct coord_kit *k, const char *client, uint32_t rpm, int64_t now);
void ck_renew_all(struct coord_kit *k, const char *worker, struct pp_slot_renewal *renewals, size_t n,
                  int64_t now);
/* Renews one slot; returns true if the worker has lost it. */
bool ck_renew(struct coord_kit *k, const char *worker, struct pp_slot_renewal renewal, int64_t now);
void ck_release(struct coord_kit *k, const char *worker, struct pp_slot_renewal renewal, int64_t now);
/* Reads the secret of the installation into `out`, and offers `text` if there is none. */
void ck_secret(struct coord_kit *k, struct pp_coordinator *c, const char *text,
               char out[PP_COORD_SECRET_MAX]);
bool ck_elect(struct coord_kit *k, struct pp_coordinator *c, const char *worker, int64_t lease_ms,
              int64_t now);
struct pp_coord_backlog ck_backlog(struct coord_kit *k, struct pp_coordinator *c, bool rebuilt);
/* Returns the due time of a row in an answer; INT64_MAX if there is no row. */
int64_t ck_due(const struct pp_coord_backlog *b, const char *client, uint8_t queue);

/* Lists the workers that have been silent for silent_ms. */
struct pp_coord_workers ck_list(struct coord_kit *k, struct pp_coordinator *c, int64_t silent_ms,
                                int64_t now);
/* Asks a worker to drain, or all for NULL. Returns true if there is such a worker. */
bool ck_drain(struct coord_kit *k, struct pp_coordinator *c, const char *worker);

/* Returns how many requests of the last window the granted slot reports, by its marks and spent
 * permits. */
uint32_t ck_told(const struct pp_slot_want *w, int64_t now);

/* Turns the loop until k->c's subscription is active. */
void ck_listen(struct coord_kit *k);
/* Starts to watch the backlog and the drains of k->c. The kit watches notices from the start. */
void ck_watch(struct coord_kit *k);
/* Turns the loop until k->c's watcher has received the row; returns its due time, and drops
 * earlier rows. */
int64_t ck_heard(struct coord_kit *k, const char *client, uint8_t queue);
/* Opens the process of one more worker, which watches notices of these kinds; without waiting. */
struct ck_worker *ck_worker_open(struct coord_kit *k, const char *id, const char *tiers, uint32_t kinds);
/* Turns the loop until the subscriptions of all workers are active. */
void ck_workers_listen(struct coord_kit *k);
/* Sets the clock and sends the heartbeats of all workers that are not silent. */
void ck_beat(struct coord_kit *k, int64_t now);
/* Puts all workers on the ring with heartbeats at `now` and 2 s later. Turns the loop until each
 * knows how large the ring is. Then forgets what they have heard. */
void ck_join(struct coord_kit *k, int64_t now);
void ck_forget(struct coord_kit *k);
/* Turns the loop until all processes have got all messages that were sent before. */
void ck_hear_all(struct coord_kit *k);

/* Turns the loop until cond(k). */
void ck_until(struct coord_kit *k, bool (*cond)(void *k));

/* The tests of suite_coordinator_fleet.c, for adapters that serve several workers. */
int pp_suite_coordinator_fleet(void);
/* Those of suite_coordinator_ring.c. */
int pp_suite_coordinator_ring(void);
/* Those of suite_coordinator_places.c. many: the adapter serves several workers. */
int pp_suite_coordinator_places(bool many);

#endif
