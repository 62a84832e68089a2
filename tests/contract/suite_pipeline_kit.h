/* suite_pipeline_kit.h: the stages s2 to s6 with the embedded adapters in one process, against a real origin:
 * what the tests of the pipeline share. The ports can be made to fail (faulty_ports.h).
 *
 * The clock is held while the pipeline is open. It passes while the test waits in a world_...() function: by
 * `step_ms` each 5 ms of real time at most, whatever the machine. A test that shows that something does not
 * wait takes a step so small that the minute which waiting may take at most is too short for it; one with
 * long pauses in it a large one. The origin and the network have real time: the default step makes hosts look
 * four times slower than they are. */
#ifndef PP_SUITE_PIPELINE_KIT_H
#define PP_SUITE_PIPELINE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "faulty_ports.h"
#include "origin_run.h"
#include "pipeline/pipeline.h"
#include "pipeline/s3_claim.h"
#include "test_loop.h"

struct world {
    struct pp_test_origin origin;
    char record[512]; /* the origin's */
    const char *dir;
    const char *mongo_url; /* of the task store, with PP_TEST_STORE=mongo in the environment; NULL: SQLite */
    unsigned starts;
    bool drained; /* since world_drain() */
    struct pp_loop *loop;
    struct pp_pipeline p;
    struct pp_params params; /* of the next world_open(); defaults by setup */
    struct faulty_ports faulty;
    struct pp_task_store *store; /* the real ones */
    struct pp_ingest_queue *ingest;
    struct pp_coordinator *coordinator;
    struct pp_cidr loopback;
    struct pp_port_range ports;
    int64_t delays[2];
    struct pp_arena arena;
    bool done; /* of the request under way */
    int64_t step_ms, stepped_at;
};

/* cmocka's setup: an origin, a directory, default params; nothing is opened. And its end, with all closed. */
int world_setup(void **state);
int world_teardown(void **state);
/* The same with the pipeline open. */
int world_setup_open(void **state);
int world_teardown_open(void **state);

void world_open(struct world *w);
/* Begins a drain. */
void world_drain(struct world *w);
/* Drains, where that has not begun, and closes. */
void world_close(struct world *w);
/* Until cond(arg). */
void world_until(struct world *w, bool (*cond)(void *arg), void *arg);
/* So much time passes. */
void world_run(struct world *w, int64_t ms);

/* A batch of `items` items with `photos` photos each; URLs are
 * http://127.0.0.1:PORT/c/CLIENT/BATCH-I-K.jpg?query. */
void world_post_to(struct world *w, const char *host, uint16_t port, const char *client, const char *id,
                   unsigned items, unsigned photos, enum pp_refresh refresh, const char *query);
/* To the origin; the names do not depend on the batch. */
void world_post(struct world *w, const char *client, const char *id, unsigned items, unsigned photos,
                enum pp_refresh refresh, const char *query);
struct pp_batch world_batch(struct world *w, const char *id);
struct pp_batch world_finished(struct world *w, const char *id);
/* Tasks in a queue that nobody has claimed. */
uint64_t world_open_photos(struct world *w, uint8_t queue);
/* Settings, stored and told. */
void world_put_client(struct world *w, const struct pp_client *client);

/* Until at least n requests of a client have ended at the origin. */
void world_until_seen(struct world *w, const char *client, unsigned n);

/* What the origin saw of a client (NULL: all), once it is stopped. */
struct world_seen {
    unsigned requests;
    unsigned at_once; /* most at any moment, but for those that we gave up */
    double first_s, last_s;
};
struct world_seen world_seen(struct world *w, const char *client);

#endif
