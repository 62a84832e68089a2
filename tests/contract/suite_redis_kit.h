/* suite_redis_kit.h: the ingest queues of several planners on one Redis, as if each planner were
 * a process. An unexpected error fails the test. */
#ifndef PP_SUITE_REDIS_KIT_H
#define PP_SUITE_REDIS_KIT_H

#include "adapter/redis/redis_ports.h"
#include "base/arena.h"
#include "redis_server.h"
#include "runtime/loop.h"

enum { RIK_LONG_MS = 30000 };

struct rik {
    struct pp_loop *loop;
    struct pp_loop *loops[3]; /* loop of each planner; NULL: the planner uses `loop` */
    struct redis_server *server;
    const char *prefix;
    struct pp_ingest_queue *q[3]; /* queues of the planners "p0", "p1" and "p2" */
    int woken[3];
    struct pp_arena arena;
    bool done;
};

/* Returns a key prefix that no other test uses. */
const char *rik_place(void);
/* Returns `n` bytes that zlib cannot compress. The caller frees them with free(). */
char *rik_noise(size_t n);

/* Opens the first n planners with these options. */
struct rik *rik_open_with(struct redis_server *server, int n, struct pp_redis_ingest_options o);
void rik_close_kit(struct rik *k);
void rik_open_planner(struct rik *k, int i, struct pp_redis_ingest_options o);
void rik_close_planner(struct rik *k, int i);
struct pp_loop *rik_loop_of(struct rik *k, int i);

/* RIK_SUBMIT sends a request of planner i. RIK_DUE also waits for the answer and checks its
 * error. */
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
/* A done() that decrements the number of requests in flight. req->data points to this number, an
 * int. */
void rik_count_down(struct pp_req *req);

struct pp_ingest_append rik_entry(const char *client, const char *batch);
void rik_append(struct rik *k, int i, const char *client, const char *batch);
void rik_ack(struct rik *k, int i, const char *batch);
struct pp_ingest_take rik_take_request(int i, size_t limit);
/* Asserts that a take by planner i returns the entries of `due`, which lists the text after "b_"
 * of their ids. */
void rik_takes(struct rik *k, int i, size_t limit, const char *due);
struct pp_ingest_stats rik_stats(struct rik *k, int i);
/* Returns how often planner i has sent this command or script. */
uint64_t rik_sent(struct rik *k, int i, const char *what);
/* Repeats a take by planner i until it returns an entry. */
struct pp_ingest_entry rik_take_at_last(struct rik *k, int i);

/* Starts to count in k->woken[i] how often the queue wakes planner i. */
void rik_watch(struct rik *k, int i);
/* Like rik_take_at_last(), but repeats the take only after a wake-up. */
struct pp_ingest_entry rik_take_when_woken(struct rik *k, int i);
/* Repeats takes by the planners `first` to `last` until each of them waits in Redis for an entry
 * and no wake-up of a planner is outstanding. No other client of the server may wait. */
void rik_settle(struct rik *k, int first, int last);

#endif
