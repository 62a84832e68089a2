/* suite_fetch_kit.h: the kit of tests that run fetch and keep against real answers. It has a
 * runner with libcurl, c-ares and a blob store of files, all on one loop; an origin whose
 * answers the test writes; and gets, one for each transfer.
 *
 * The policy is that of production, except that it allows loopback addresses. The name
 * private.test has the address 10.0.0.1; mixed.test has that address and the origin's; every
 * other name (shop.test, other.test) has the origin's. */
#ifndef PP_SUITE_FETCH_KIT_H
#define PP_SUITE_FETCH_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/sniff.h"
#include "photopool/code.h"
#include "pipeline/fetch/headers.h"
#include "pipeline/fetch/run.h"
#include "raw_origin.h"
#include "test_clock.h"
#include "test_loop.h"

/* The tiers of the kit. The clock is held, so a deadline passes only when the test moves the
 * clock, and a slow machine ends no transfer. Only connecting has a limit in real time, of the
 * same length. */
enum { RUN_QUICK, RUN_USUAL, RUN_LONG };
enum { RUN_QUICK_MS = 5000, RUN_USUAL_MS = 10000, RUN_LONG_MS = 30000 };

struct fetch_kit {
    struct pp_loop *loop;
    struct pp_params params;
    struct pp_cidr loopback;
    struct pp_port_range ports[2];
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;
    struct pp_blob_store *blobs;
    struct pp_lane *lane;
    struct pp_keep *keep;
    struct pp_runner *runner;
    struct pp_origin *o; /* the kit's origin; NULL if the test has its own */
    uint16_t port;       /* the origin's port */
    bool https;
    char dir[512]; /* directory of the blob store */
};

enum run_hops { RUN_GRANT, RUN_GIVE_UP, RUN_LEAVE };

/* One transfer of a test, and what the runner has reported about it. */
struct run_get {
    struct pp_transfer t;
    struct pp_task task;
    struct fetch_kit *kit;
    char url[1024];
    struct pp_headers headers; /* the client's extra headers */
    /* what the test replies to a HOP event (a redirect); the kit sends the reply when the test
     * waits */
    enum run_hops answer;
    bool asked; /* true while a HOP event (a redirect) has no reply */
    int sents, hops, finished;
};

/* Opens the kit, and an origin with this handler. If `handler` is NULL, the test has an origin
 * at `port`. */
void fetch_kit_open(struct fetch_kit *k, pp_origin_handler handler, void *data, SSL_CTX *tls);
void fetch_kit_open_at(struct fetch_kit *k, uint16_t port);
/* Closes the kit. Asserts that no transfer, no body and no temporary file remains. */
void fetch_kit_close(struct fetch_kit *k);
/* Returns the number of temporary files in the blob store; fetch_kit_objects() returns that of
 * objects. */
int fetch_kit_temps(struct fetch_kit *k);
int fetch_kit_objects(struct fetch_kit *k);

/* Prepares a get of http(s)://HOST:PORT + path in tier RUN_USUAL. NULL as `host` means
 * shop.test. */
void run_get_init(struct run_get *g, struct fetch_kit *k, const char *host, const char *path);
void run_get_start(struct run_get *g);
/* Waits for the FINISHED event, and replies to each HOP event (a redirect) as the get says. Checks
 * the rules for every transfer: FINISHED comes once; a failure has a code and a detail in printable
 * ASCII; only a success has an object. */
void run_get_wait(struct run_get *g, int64_t max_ms);
/* Moves the clock forward. The runner checks deadlines at most PP_SWEEP_MS late. */
void run_pass(struct fetch_kit *k, int64_t ms);
/* Each of these functions waits for one event, in this order: the host has the request; the runner
 * reads the answer; the runner drops the body of the answer; the runner waits for the disk. */
void run_get_until_sent(struct run_get *g);
void run_get_until_body(struct run_get *g);
void run_get_until_draining(struct run_get *g);
void run_get_until_paused(struct run_get *g);
/* Asserts that the transfer ends `ms` from now, not earlier. */
void run_get_ends_after(struct run_get *g, int64_t ms);
/* Prepares a get, starts it and waits for its end. Returns its code. */
uint16_t run_get_run(struct run_get *g, struct fetch_kit *k, const char *path);
/* Fails the test if the transfer has not ended with `code`. */
void run_expect(const struct run_get *g, const char *name, uint16_t code);

#endif
