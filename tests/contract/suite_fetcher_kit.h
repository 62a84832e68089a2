/* suite_fetcher_kit.h: the kit of the tests of the fetcher's contract: a loop, a fetcher, an
 * origin, and gets. */
#ifndef PP_SUITE_FETCHER_KIT_H
#define PP_SUITE_FETCHER_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "photopool/code.h"
#include "raw_origin.h"
#include "suite_fetcher.h"
#include "test_loop.h"

#define KIT_HOST "shop.test"

struct kit {
    struct pp_loop *loop;
    struct pp_fetcher *f;
    struct pp_origin *o;
    bool https;
};

/* One exchange (a request and its answer), what the fetcher has reported about it, and the replies
 * that its callbacks give. */
struct get {
    struct pp_exchange x;
    struct kit *kit;
    struct sockaddr_storage addrs[4];
    char url[256];
    int allows, sents, heads, bodies, dones;
    /* first bytes of the body, at most BODY_KEPT; `n` is the length of the whole body */
    char *body;
    size_t n;
    char location[64]; /* first bytes of the Location header, copied in done() */
    size_t location_n;
    /* The test sets the following members to choose the replies. */
    int deny_at;            /* number of the first call of allow() that is refused; 0: none is */
    uint32_t denied_ip;     /* IPv4 address in host order that allow() refuses; 0: none */
    enum pp_flow head_flow; /* reply of head() */
    /* body() replies PAUSE or STOP once this many bytes have arrived; 0: never */
    size_t pause_at, stop_at;
    bool paused;
    void (*on_sent)(struct get *g);
    void (*on_head)(struct get *g);
    void (*on_body)(struct get *g);
    void (*on_done)(struct get *g);
    void *data;
};

#define BODY_KEPT (256 * 1024)

extern const struct pp_fetcher_subject *pp_fetcher_subject;

void kit_open(struct kit *k, pp_origin_handler handler, void *data, SSL_CTX *tls);
void kit_close(struct kit *k);
/* Makes a row of the table of tests. The state of the test is a kit whose origin has this handler,
 * and neither data nor TLS. */
#define KIT_TEST(test, handler) \
    cmocka_unit_test_prestate_setup_teardown(test, kit_setup, kit_teardown, (void *)(uintptr_t)(handler))
int kit_setup(void **state);
int kit_teardown(void **state);

/* Prepares a get of `path` from the kit's origin. Call get_fini() after done(). */
void get_init(struct get *g, struct kit *k, const char *path);
void get_start(struct get *g);
/* Turns the loop until the fetcher has called done(). */
void get_wait(struct get *g);
/* Prepares a get, starts it and waits for done(). */
void get_run(struct get *g, struct kit *k, const char *path);
void get_fini(struct get *g);
void get_abort(struct get *g);
/* Turns the loop until cond(arg). */
#define kit_until(k, cond, arg) pp_test_until((k)->loop, cond, arg, 10000)

/* Makes another request and waits for its end, so that the loop turns. */
void kit_turn(struct kit *k);

/* Conditions for kit_until(). gets_done(): all gets of an array have ended; a get without a kit
 * ends the array. The other two: a get is paused; the origin has no connection. */
bool gets_done(void *gets);
bool get_paused(void *get);
bool origin_idle(void *origin);
/* Calls resume(), which must not call body() directly. */
void get_unpause(struct get *g);

#define KIT_BIG (8u << 20)
/* The handler of most tests. It never answers /hang. To /endless it sends a body without end; to
 * /begin a head and a few bytes, then nothing; to /big 8 MiB; to /head a head, then nothing; to any
 * other path "ok". */
enum pp_origin_next kit_serve(struct pp_origin_conn *c, const char *request, void *data);

int pp_suite_fetcher_answers(void);
int pp_suite_fetcher_flow(void);

#endif
