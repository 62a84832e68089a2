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
#include "test_loop.h"

enum { S4_QUICK, S4_USUAL, S4_LONG }; /* tiers: 400 ms, 10 s, 30 s */

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
/* init, start, wait: the code. */
uint16_t s4_get_run(struct s4_get *g, struct s4_kit *k, const char *path);
/* Fails the test where the get has not ended with `code`. */
void s4_expect(const struct s4_get *g, const char *name, uint16_t code);

#endif
