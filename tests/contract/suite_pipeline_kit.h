/* suite_pipeline_kit.h: the kit of the tests of the pipeline: the stages from plan to settle
 * with the embedded adapters, in one process, against a real origin. A test can make the ports
 * fail (faulty_ports.h).
 *
 * The clock is held while the pipeline is open. It moves only while the test waits in a
 * world_...() function, by at most `step_ms` in each 5 ms of real time. A test that shows that
 * something does not wait sets so small a step that a wait would not end within a minute of real
 * time, which is the longest that the kit waits. A test with long pauses sets a large step. The
 * origin and the network use real time: with the default step, hosts look four times slower than
 * they are. */
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
#include "pipeline/claim/claim.h"
#include "pipeline/pipeline.h"
#include "test_loop.h"

struct world {
    struct pp_test_origin origin;
    char record[512]; /* path of the file in which the origin records its requests */
    char hosts[512];  /* path of the file from which the origin reads how its hosts behave */
    const char *dir;
    /* URL of the task store if the environment has PP_TEST_STORE=mongo; NULL: the store is
     * SQLite */
    const char *mongo_url;
    /* Opens a dedupe port in world_open(), so that tasks share outcomes; NULL: they do not. */
    enum pp_err (*open_dedupe)(struct pp_loop *loop, struct pp_dedupe **out);
    /* Breakers open by themselves. If false, that of the origin's address stays closed: on a slow
     * machine transfers time out, because the test turns the clock. */
    bool breakers;
    unsigned starts;
    bool drained; /* true once the drain has ended and the pipeline can be closed */
    struct pp_loop *loop;
    struct pp_pipeline p;
    /* the parameters of the next world_open(); the setup fills in the defaults */
    struct pp_params params;
    struct faulty_ports faulty;
    struct pp_task_store *store; /* The following ports are the real ones, without faults. */
    struct pp_ingest_queue *ingest;
    struct pp_coordinator *coordinator;
    struct pp_filter *filter; /* NULL unless params has a size for it */
    struct pp_cidr loopback;
    struct pp_port_range ports;
    int64_t delays[2];
    struct pp_arena arena;
    bool done; /* true once the request in flight has its answer */
    int64_t step_ms, stepped_at;
};

/* cmocka's setup and teardown. world_setup() starts an origin and sets default parameters, but
 * opens no pipeline. The teardown closes everything. */
int world_setup(void **state);
int world_teardown(void **state);
/* Like world_setup(), but this setup also opens the pipeline. */
int world_setup_open(void **state);
int world_teardown_open(void **state);

void world_open(struct world *w);
/* Begins to drain the pipeline: it takes no new work and finishes what is in flight. */
void world_drain(struct world *w);
/* Drains the pipeline, unless a drain has begun already, and closes it. */
void world_close(struct world *w);
/* Waits until cond(arg) is true. */
void world_until(struct world *w, bool (*cond)(void *arg), void *arg);
/* Runs the loop until the clock has moved by `ms`. */
void world_run(struct world *w, int64_t ms);

/* Posts a batch of `items` items with `photos` photos each. Their URLs are
 * http://HOST:PORT/c/CLIENT/I-K.jpg?query, so all batches of a client with one query name the
 * same photos. */
void world_post_to(struct world *w, const char *host, uint16_t port, const char *client, const char *id,
                   unsigned items, unsigned photos, enum pp_refresh refresh, const char *query);
/* Posts a batch whose photos are at the test's origin. */
void world_post(struct world *w, const char *client, const char *id, unsigned items, unsigned photos,
                enum pp_refresh refresh, const char *query);
/* Posts a batch of n items, each with one photo, which has this URL. */
void world_post_urls(struct world *w, const char *client, const char *id, const char *const *urls,
                     unsigned n);
struct pp_batch world_batch(struct world *w, const char *id);
struct pp_batch world_finished(struct world *w, const char *id);
/* Returns the number of tasks in a queue that wait for a claim. */
uint64_t world_open_photos(struct world *w, uint8_t queue);
/* Stores the settings of a client, as another process does that dies before it announces them. */
void world_store_client(struct world *w, const struct pp_client *client);
/* Stores the settings of a client and announces them to the pipeline. */
void world_put_client(struct world *w, const struct pp_client *client);

/* Makes the origin's hosts behave as `lines` say (loadtest/origin): HOST key=value ... The pipeline
 * must be open. */
void world_hosts(struct world *w, const char *lines);

/* Waits until at least n requests of a client have ended at the origin. */
void world_until_seen(struct world *w, const char *client, unsigned n);

/* What the origin has recorded. world_seen() stops the origin and returns its counts for a client,
 * or for all clients if `client` is NULL. */
struct world_seen {
    unsigned requests;
    /* most requests at the same time, not counting those that the worker gave up */
    unsigned at_once;
    double first_s, last_s;
};
struct world_seen world_seen(struct world *w, const char *client);

#endif
