/* suite_redis_kit.h: ingest queues of several planners on one Redis, as several processes would have them.
 * Failing here fails the test. */
#ifndef PP_SUITE_REDIS_KIT_H
#define PP_SUITE_REDIS_KIT_H

#include "adapter/redis/redis_ingest_queue.h"
#include "base/arena.h"
#include "redis_server.h"
#include "runtime/loop.h"

enum { RIK_LONG_MS = 30000 };

struct rik {
    struct pp_loop *loop;
    struct pp_loop *loops[3]; /* of a planner; NULL: the one above */
    struct redis_server *server;
    const char *prefix;
    struct pp_ingest_queue *q[3]; /* planners "p0", "p1", "p2" */
    int woken[3];
    struct pp_arena arena;
    bool done;
};

/* A prefix that nobody else uses. */
const char *rik_place(void);
/* A payload that zlib makes no smaller; free(). */
char *rik_noise(size_t n);

/* The first n planners, with these options. */
struct rik *rik_open_with(struct redis_server *server, int n, struct pp_redis_ingest_options o);
void rik_close_kit(struct rik *k);
void rik_open_planner(struct rik *k, int i, struct pp_redis_ingest_options o);
void rik_close_planner(struct rik *k, int i);
struct pp_loop *rik_loop_of(struct rik *k, int i);

/* Requests by planner i; RIK_DUE waits, and looks at the error. */
#define RIK_SUBMIT(k, i, op, r)                                                             \
    do {                                                                                    \
        (r)->req = (struct pp_req){.done = rik_on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                                  \
        assert_int_equal((k)->q[i]->ops->op((k)->q[i], (r)), PP_OK);                        \
        assert_false((k)->done);                                                            \
    } while (0)
#define RIK_WAIT(k, i) pp_test_until(rik_loop_of(k, i), rik_is_done, (k), RIK_LONG_MS)
#define RIK_DUE(k, i, op, r, due)                                         \
    do {                                                                  \
        RIK_SUBMIT(k, i, op, r);                                          \
        RIK_WAIT(k, i);                                                   \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)

void rik_on_done(struct pp_req *req);
bool rik_is_done(void *arg);
/* A done() for requests whose data is an int: how many are left. */
void rik_count_down(struct pp_req *req);

struct pp_ingest_append rik_entry(const char *client, const char *batch);
void rik_append(struct rik *k, int i, const char *client, const char *batch);
void rik_ack(struct rik *k, int i, const char *batch);
struct pp_ingest_take rik_take_request(int i, size_t limit);
/* What planner i gets, as what follows "b_" of the ids. */
void rik_takes(struct rik *k, int i, size_t limit, const char *due);
struct pp_ingest_stats rik_stats(struct rik *k, int i);
/* How often planner i has sent a command or script. */
uint64_t rik_sent(struct rik *k, int i, const char *what);
/* Takes one entry, however often that must be tried. */
struct pp_ingest_entry rik_take_at_last(struct rik *k, int i);

/* From here on k->woken[i] counts. */
void rik_watch(struct rik *k, int i);
/* The same as rik_take_at_last(), trying only when woken. */
struct pp_ingest_entry rik_take_when_woken(struct rik *k, int i);
/* Planners first to last look until all of them wait, and have heard what there was. Nobody else on the
 * server waits.
 */
void rik_settle(struct rik *k, int first, int last);

#endif
