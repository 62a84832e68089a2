/* suite_s4_kit.h: what the tests of s4 fetch and s5 keep against real answers share: s4 with libcurl, c-ares
 * and a blob store of files on one loop, an origin that says what the test wants, and gets.
 *
 * The policy is the production one with the loopback let in. Names: shop.test, other.test and any other lead
 * to the origin; private.test to 10.0.0.1, mixed.test to both. */
#ifndef PP_SUITE_S4_KIT_H
#define PP_SUITE_S4_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/sniff.h"
#include "photopool/code.h"
#include "pipeline/s4_fetch.h"
#include "suite_origin.h"
#include "test_clock.h"
#include "test_loop.h"

/* Tiers. The clock is held: deadlines pass where the test says so, and no transfer is late because the
 * machine is slow. (Only connecting is limited in real time, by as much.) */
enum { S4_QUICK, S4_USUAL, S4_LONG };
enum { S4_QUICK_MS = 5000, S4_USUAL_MS = 10000, S4_LONG_MS = 30000 };

struct s4_kit {
    struct pp_loop *loop;
    struct pp_params params;
    struct pp_cidr loopback;
    struct pp_port_range ports[2];
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;
    struct pp_blob_store *blobs;
    struct pp_lane *lane;
    struct pp_keep *keep;
    struct pp_s4 *s4;
    struct pp_origin *o; /* NULL: the test has one of its own */
    uint16_t port;       /* of the origin */
    bool https;
    char dir[512]; /* the blob store's */
};

enum s4_hops { S4_GRANT, S4_GIVE_UP, S4_LEAVE };

/* One transfer and what happened to it. */
struct s4_get {
    struct pp_transfer t;
    struct pp_task task;
    struct s4_kit *kit;
    char url[1024];
    const char *headers[4];
    enum s4_hops answer; /* to HOP, as soon as the test waits */
    bool asked;          /* HOP awaits its answer */
    int sents, hops, finished;
};

/* `handler` NULL: the origin is at `port`. */
void s4_kit_open(struct s4_kit *k, pp_origin_handler handler, void *data, SSL_CTX *tls);
void s4_kit_open_at(struct s4_kit *k, uint16_t port);
/* Asserts that nothing is left: no transfer, no body, no temporary file. */
void s4_kit_close(struct s4_kit *k);
/* Files in the blob store's folder of temporary ones; of objects. */
int s4_kit_temps(struct s4_kit *k);
int s4_kit_objects(struct s4_kit *k);

/* A get of http(s)://HOST:PORT + path, in tier S4_USUAL; `host` NULL: shop.test. */
void s4_get_init(struct s4_get *g, struct s4_kit *k, const char *host, const char *path);
void s4_get_start(struct s4_get *g);
/* Until FINISHED; answers HOP as the get says. Checks what holds for every transfer: one FINISHED, a detail
 * in printable ASCII where there is a code, an object only where there is none. */
void s4_get_wait(struct s4_get *g, int64_t max_ms);
/* The clock goes on, and the deadlines are looked at, up to PP_SWEEP_MS late. */
void s4_pass(struct s4_kit *k, int64_t ms);
/* Until the host has the request; until it has begun an answer that is read; until the answer is dropped as
 * it comes; until it waits for the disk. */
void s4_get_until_sent(struct s4_get *g);
void s4_get_until_body(struct s4_get *g);
void s4_get_until_draining(struct s4_get *g);
void s4_get_until_paused(struct s4_get *g);
/* It waits for `ms` from now on and no longer. */
void s4_get_ends_after(struct s4_get *g, int64_t ms);
/* init, start, wait: the code. */
uint16_t s4_get_run(struct s4_get *g, struct s4_kit *k, const char *path);
/* Fails the test where the get has not ended with `code`. */
void s4_expect(const struct s4_get *g, const char *name, uint16_t code);

#endif
