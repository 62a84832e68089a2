/* suite_fetcher_kit.h: what the files of the fetcher's contract share: a loop, a fetcher, an origin, and
 * gets. */
#ifndef PP_SUITE_FETCHER_KIT_H
#define PP_SUITE_FETCHER_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "photopool/code.h"
#include "suite_fetcher.h"
#include "suite_origin.h"
#include "test_loop.h"

#define KIT_HOST "shop.test"

struct kit {
    struct pp_loop *loop;
    struct pp_fetcher *f;
    struct pp_origin *o;
    bool https;
};

/* One exchange, what happened to it, and how it answers. */
struct get {
    struct pp_exchange x;
    struct kit *kit;
    struct sockaddr_storage addrs[4];
    char url[256];
    int allows, sents, heads, bodies, dones;
    char *body; /* at most BODY_KEPT bytes of `n` */
    size_t n;
    char location[64]; /* its beginning, as of done() */
    size_t location_n;
    /* script */
    int deny_at;              /* the n-th question to allow() is refused, and those after it; 0: none */
    uint32_t denied_ip;       /* IPv4, host order: always refused; 0: none */
    enum pp_flow head_flow;   /* the answer of head() */
    size_t pause_at, stop_at; /* body() answers so, once, when `n` has come so far; 0: never */
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

/* A get of `path` from the kit's origin; get_fini() when it is over. */
void get_init(struct get *g, struct kit *k, const char *path);
void get_start(struct get *g);
/* Until done(). */
void get_wait(struct get *g);
/* init, start, wait. */
void get_run(struct get *g, struct kit *k, const char *path);
void get_fini(struct get *g);
void get_abort(struct get *g);
/* Turns the loop until cond(arg). */
#define kit_until(k, cond, arg) pp_test_until((k)->loop, cond, arg, 10000)

/* Another get comes and goes: the loop has turned. */
void kit_turn(struct kit *k);

/* Conditions: an array of gets, ended by one without a kit, are done; a get is paused; the origin has no
 * connection. */
bool gets_done(void *gets);
bool get_paused(void *get);
bool origin_idle(void *origin);
/* resume(), which must not call body(). */
void get_unpause(struct get *g);

#define KIT_BIG (8u << 20)
/* "/hang": silence. "/endless": a body without end. "/begin": a head and a few bytes, then silence. "/big": 8
 * MiB. "/head": a head, then silence. Else "ok". */
enum pp_origin_next kit_serve(struct pp_origin_conn *c, const char *request, void *data);

int pp_suite_fetcher_answers(void);
int pp_suite_fetcher_flow(void);

#endif
