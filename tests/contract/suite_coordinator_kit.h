/* suite_coordinator_kit.h: what the coordinator's tests are written in: calls that wait. Whatever fails,
 * fails the test. */
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

struct coord_kit {
    const struct pp_coord_subject *subject;
    const char *place;
    struct pp_loop *loop;
    struct pp_coordinator *c, *d; /* d: another process, or NULL */
    struct pp_arena arena;        /* everything that the kit answers with lives until the test ends */
    bool done;
    /* What c's watchers were told. */
    struct pp_backlog_row rows[64];
    char clients[64][80];
    size_t n_rows, announced; /* rows since the last look; calls ever */
    bool heard_known;         /* of the row that was heard last */
    struct pp_notice notice;  /* the latest that was not "any may have" */
    char notice_a[80], notice_b[80];
    int notices, losses;
    int drains;
    char drained[100]; /* "*": all */
};

/* cmocka set-up and tear-down of one test; the state is a struct coord_kit. With ck_open() the data set is
 * the installation's first. */
int ck_open(void **state);
int ck_open_lost(void **state);
int ck_close(void **state);
void ck_use(const struct pp_coord_subject *subject);

/* It is `now`. */
void ck_at(struct coord_kit *k, int64_t now);
/* The process dies with its slots, and another starts. */
void ck_crash(struct coord_kit *k);
/* Another process beside it: k->d, which knows the data set. */
void ck_open_other(struct coord_kit *k);

struct pp_req ck_request(struct coord_kit *k);
void ck_wait(struct coord_kit *k, enum pp_err submitted, struct pp_req *req, enum pp_err expected);

/* At `now`, by `worker`. */
void ck_acquire_all(struct coord_kit *k, const char *worker, struct pp_slot_want *wants, size_t n,
                    int64_t now);
struct pp_slot_want ck_acquire(struct coord_kit *k, const char *worker, struct pp_slot_want want,
                               int64_t now);
/* By w1, a concurrency of 8; granted. */
struct pp_slot_want ck_granted(struct coord_kit *k, const char *client, uint32_t rpm, int64_t now);
void ck_renew_all(struct coord_kit *k, const char *worker, struct pp_slot_renewal *renewals, size_t n,
                  int64_t now);
/* The same of one; whether it is lost. */
bool ck_renew(struct coord_kit *k, const char *worker, struct pp_slot_renewal renewal, int64_t now);
void ck_release(struct coord_kit *k, const char *worker, struct pp_slot_renewal renewal, int64_t now);
bool ck_elect(struct coord_kit *k, struct pp_coordinator *c, const char *worker, int64_t lease_ms,
              int64_t now);
struct pp_coord_backlog ck_backlog(struct coord_kit *k, struct pp_coordinator *c, bool rebuilt);
/* The row's due time in an answer; INT64_MAX: none. */
int64_t ck_due(const struct pp_coord_backlog *b, const char *client, uint8_t queue);

/* How many requests of the last window the holder is told of. */
uint32_t ck_told(const struct pp_slot_want *w, int64_t now);

/* Turns the loop until k->c hears what others say. */
void ck_listen(struct coord_kit *k);
/* Watches backlog and drains of k->c; notices are watched from the beginning. */
void ck_watch(struct coord_kit *k);
/* Turns the loop until k->c's watcher has been told of the row; its due time. Rows before it are forgotten.
 */
int64_t ck_heard(struct coord_kit *k, const char *client, uint8_t queue);
/* Turns the loop until cond(k). */
void ck_until(struct coord_kit *k, bool (*cond)(void *k));

/* suite_coordinator_fleet.c: for subjects with many. */
int pp_suite_coordinator_fleet(void);

#endif
