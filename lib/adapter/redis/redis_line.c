/* redis_line.c: a line: one TCP connection to Redis that reconnects by itself.
 *
 *   RESTING --timer--> RESOLVING --address--> CONNECTING --socket--> GREETING --answers--> UP
 *      ^------------------------- any failure, or timeout_ms without success --------------'
 *
 * With sentinels, an attempt first goes from RESOLVING to CONNECTING for a sentinel, which names
 * the master, and then once more for the master. A sentinel that fails is followed by the next one;
 * the attempt fails if all have.
 *
 * The greeting consists of AUTH and SELECT as the URL says, ROLE if a sentinel named the server,
 * PING (a server that loads its data refuses it), and TIME. The pause between attempts begins with
 * FIRST_MS and doubles up to LAST_MS. The actual pause is random, between half of that and all of
 * it, so that the processes of a fleet do not reconnect at the same moment. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

enum {
    FIRST_MS = 50,
    LAST_MS = 2000,
    STEADY_MS = 5000,
    SENTINEL_MS = 1000 /* a sentinel that has not named the master after this time is left for the next */
};

/* A look-up of a host name. It may outlive its line, because libuv can't always cancel it. */
struct pp_redis_lookup {
    uv_getaddrinfo_t uv;
    struct pp_redis_line *line; /* the line that waits for the look-up; NULL: the look-up was cancelled */
};

/* --- ending a connection --- */

static int64_t pause_ms(struct pp_redis_line *l)
{
    int64_t ms = FIRST_MS;
    for (unsigned i = 1; i < l->tries && ms < LAST_MS; i++)
        ms *= 2;
    ms = ms < LAST_MS ? ms : LAST_MS;
    return ms / 2 + (int64_t)pp_rng_below(&l->rng, (uint64_t)(ms / 2));
}

static void forget_lookup(struct pp_redis_line *l)
{
    if (!l->lookup)
        return;
    l->lookup->line = NULL;
    uv_cancel((uv_req_t *)&l->lookup->uv); /* if cancelling fails, the look-up ends by itself */
    l->lookup = NULL;
}

static const char *what_of(const struct pp_redis_line *l)
{
    return l->commands ? "commands" : "messages";
}

static void log_failure(struct pp_redis_line *l, bool was_up, const char *why)
{
    if (was_up || (l->tries & (l->tries - 1)) == 0) /* logs the 1st, 2nd, 4th, 8th, ... failure in a row */
        pp_log(l->r->log, PP_LOG_WARN, was_up ? "connection to Redis lost" : "no connection to Redis", "for",
               what_of(l), "host", l->host, "port", PP_LOG_INT(l->port), "reason", why, NULL);
}

static void aim(struct pp_redis_line *l, const char *host, uint16_t port)
{
    snprintf(l->host, sizeof l->host, "%s", host);
    l->port = port;
}

static void go_home(struct pp_redis_line *l)
{
    if (l->r->home.n_sentinels > 0)
        return; /* the next attempt asks a sentinel */
    memcpy(l->host, l->r->home.host, sizeof l->host);
    l->port = l->r->home.port;
}

/* Goes on with the next sentinel, in the loop's next turn. Returns false if all have failed in this
 * attempt. */
static bool next_sentinel(struct pp_redis_line *l, const char *why)
{
    pp_assert(l->state != PP_LINE_UP, "a line that is up asks sentinels");
    l->sentinel++;
    if (++l->failed >= l->r->home.n_sentinels)
        return false;
    if ((l->tries & (l->tries - 1)) == 0)
        pp_log(l->r->log, PP_LOG_WARN, "a sentinel of Redis names no master", "for", what_of(l), "host",
               l->host, "port", PP_LOG_INT(l->port), "reason", why, NULL);
    l->state = PP_LINE_RESTING;
    forget_lookup(l);
    pp_timer_start(l->timer, 0, 0);
    return true;
}

/* Makes a line without a context wait for the next attempt, and calls on_down. If a sentinel has
 * failed, the attempt goes on with the next one instead. */
static void rest(struct pp_redis_line *l, const char *why)
{
    bool was_up = l->state == PP_LINE_UP;
    pp_assert(!l->ac, "a line rests with a connection");
    if (l->asking && next_sentinel(l, why))
        return;
    l->asking = false;
    l->failed = 0;
    if (was_up && pp_loop_now(l->r->loop) - l->up_at >= STEADY_MS)
        l->tries = 0;
    l->tries++;
    l->hope = was_up;
    l->state = PP_LINE_RESTING;
    forget_lookup(l);
    snprintf(l->why, sizeof l->why, "%s", why);
    log_failure(l, was_up, why);
    if (!was_up)
        go_home(l); /* the node that MOVED named may be gone, so the URL's host is next */
    pp_timer_start(l->timer, pause_ms(l), 0);
    l->on_down(l->r, was_up);
}

static struct redisAsyncContext *detach(struct pp_redis_line *l)
{
    struct redisAsyncContext *ac = l->ac;
    l->ac = NULL;
    if (ac)
        ac->data = NULL;
    return ac;
}

void pp_redis_line_drop(struct pp_redis_line *l, const char *why)
{
    struct redisAsyncContext *ac = detach(l);
    rest(l, why);
    if (ac)
        pp_redis_finish(ac, false);
}

void pp_redis_line_gone(struct redisAsyncContext *ac)
{
    struct pp_redis_line *l = ac->data;
    char why[160];
    if (!l)
        return;
    snprintf(why, sizeof why, "%s", ac->err && ac->errstr ? ac->errstr : "closed");
    detach(l);
    rest(l, why);
}

void pp_redis_line_move(struct pp_redis_line *l, const char *host, uint16_t port)
{
    struct redisAsyncContext *ac = detach(l);
    pp_assert(l->state == PP_LINE_UP, "a line moves before it is up");
    go_home(l);
    if (host)
        aim(l, host, port);
    l->tries += host == NULL;
    l->state = PP_LINE_RESTING;
    l->hope = true;
    pp_timer_start(l->timer, host ? 0 : pause_ms(l), 0);
    l->on_down(l->r, true);
    if (ac)
        pp_redis_finish(ac, false);
}

/* --- greeting --- */

/* what the answer to a command of the greeting is for */
static char time_answer, role_answer;

static void on_greeting_answered(struct redisAsyncContext *ac, void *reply, void *what)
{
    struct pp_redis_line *l = ac->data;
    const struct redisReply *answer = reply;
    char why[160];

    if (!answer)
        pp_redis_line_gone(ac);
    if (!answer || !l)
        return;
    if (answer->type == REDIS_REPLY_ERROR) {
        snprintf(why, sizeof why, "%s", answer->str);
        pp_redis_line_drop(l, why);
        return;
    }
    if (what == &role_answer && pp_redis_not_master(answer, why)) {
        l->sentinel++; /* this sentinel is late */
        pp_redis_line_drop(l, why);
        return;
    }
    if (what == &time_answer)
        pp_redis_clock_set(l->r, l->asked_wall, answer);
    pp_assert(l->state == PP_LINE_GREETING && l->greetings > 0, "a greeting is answered twice");
    if (--l->greetings > 0)
        return;
    l->state = PP_LINE_UP;
    l->hope = true;
    l->failed = 0;
    l->up_at = pp_loop_now(l->r->loop);
    pp_timer_stop(l->timer);
    pp_log(l->r->log, PP_LOG_INFO, "connected to Redis", "for", what_of(l), "host", l->host, "port",
           PP_LOG_INT(l->port), NULL);
    l->on_up(l->r);
}

static bool greet_with(struct pp_redis_line *l, void *what, int argc, const char *a, const char *b,
                       const char *c)
{
    const char *argv[] = {a, b, c};
    l->greetings++;
    return redisAsyncCommandArgv(l->ac, on_greeting_answered, what, argc, argv, NULL) == REDIS_OK;
}

static void greet(struct pp_redis_line *l)
{
    const struct pp_redis_address *home = &l->r->home;
    char db[16];
    bool ok = true;

    l->state = PP_LINE_GREETING;
    l->greetings = 0;
    l->asked_wall = pp_loop_wall(l->r->loop);
    if (home->password[0])
        ok = home->user[0] ? greet_with(l, NULL, 3, "AUTH", home->user, home->password)
                           : greet_with(l, NULL, 2, "AUTH", home->password, NULL);
    snprintf(db, sizeof db, "%u", home->db);
    if (l->commands && home->db)
        ok = ok && greet_with(l, NULL, 2, "SELECT", db, NULL);
    if (home->n_sentinels > 0)
        ok = ok && greet_with(l, &role_answer, 1, "ROLE", NULL, NULL);
    ok = ok && greet_with(l, NULL, 1, "PING", NULL, NULL);
    if (l->commands)
        ok = ok && greet_with(l, &time_answer, 1, "TIME", NULL, NULL);
    if (!ok)
        pp_redis_line_drop(l, "out of memory");
}

/* --- connecting --- */

static void on_secured(struct redisAsyncContext *ac)
{
    struct pp_redis_line *l = ac->data;
    if (l)
        greet(l);
}

static void on_named(struct redisAsyncContext *ac, void *reply, void *data);

static void on_connected(const struct redisAsyncContext *ac, int status)
{
    struct pp_redis_line *l = ac->data;
    /* on failure hiredis calls pp_redis_line_gone() later */
    if (!l || status != REDIS_OK)
        return;
    if (l->asking) {
        if (!pp_redis_sentinel_ask(&l->r->home, l->ac, on_named))
            pp_redis_line_drop(l, "out of memory");
        return;
    }
    if (!l->r->tls)
        greet(l);
    else if (!pp_redis_secure(l->ac, l->r->tls, l->host, on_secured))
        pp_redis_line_drop(l, "out of memory or descriptors");
}

static void connect_to(struct pp_redis_line *l, const char *ip)
{
    static const struct pp_redis_ends ends = {.gone = pp_redis_line_gone, .drop = pp_redis_line_drop};
    pp_assert(!l->ac, "a line connects twice");
    l->state = PP_LINE_CONNECTING;
    struct redisAsyncContext *ac = redisAsyncConnect(ip, l->port);
    if (!ac || ac->err || !pp_redis_attach(ac, l->r->loop, &ends)) {
        char why[160];
        snprintf(why, sizeof why, "%s", ac && ac->err && ac->errstr ? ac->errstr : "out of memory");
        if (ac)
            redisAsyncFree(ac);
        rest(l, why);
        return;
    }
    l->ac = ac;
    ac->data = l;
    l->heard_at = pp_loop_now(l->r->loop);
    if (redisAsyncSetConnectCallback(ac, on_connected) != REDIS_OK)
        pp_redis_line_drop(l, "connecting failed");
}

/* Returns address number k, modulo the number of addresses. k is the number of the attempt, so
 * attempts try the addresses in turn. */
static const struct addrinfo *choose(const struct addrinfo *list, unsigned k)
{
    unsigned n = 0;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        n++;
    k = n ? k % n : 0;
    for (; list && k > 0; k--)
        list = list->ai_next;
    return list;
}

static void on_resolved(uv_getaddrinfo_t *uv, int status, struct addrinfo *list)
{
    struct pp_redis_lookup *lookup = uv->data;
    struct pp_redis_line *l = lookup->line;
    char ip[INET6_ADDRSTRLEN] = "";

    free(lookup);
    const struct addrinfo *a = l && status == 0 ? choose(list, l->tries) : NULL;
    if (a && uv_ip_name(a->ai_addr, ip, sizeof ip) != 0)
        ip[0] = '\0';
    uv_freeaddrinfo(list);
    if (!l)
        return;
    l->lookup = NULL;
    if (ip[0])
        connect_to(l, ip);
    else
        rest(l, status < 0 ? uv_strerror(status) : "the name has no address");
}

static void resolve(struct pp_redis_line *l)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct pp_redis_lookup *lookup = calloc(1, sizeof *lookup);

    l->state = PP_LINE_RESOLVING;
    if (lookup &&
        uv_getaddrinfo(pp_loop_uv(l->r->loop), &lookup->uv, on_resolved, l->host, NULL, &hints) == 0) {
        lookup->uv.data = lookup;
        lookup->line = l;
        l->lookup = lookup;
        return;
    }
    free(lookup);
    rest(l, "out of memory");
}

/* Connects to the line's host, which must answer within `ms`. */
static void reach(struct pp_redis_line *l, int64_t ms)
{
    struct in6_addr any;
    pp_timer_start(l->timer, ms, 0);
    if (inet_pton(AF_INET, l->host, &any) == 1 || inet_pton(AF_INET6, l->host, &any) == 1)
        connect_to(l, l->host);
    else
        resolve(l);
}

/* A sentinel has answered: the attempt goes on with the master that it names. */
static void on_named(struct redisAsyncContext *ac, void *reply, void *data)
{
    struct pp_redis_line *l = ac->data;
    struct pp_redis_place master;
    char why[PP_REDIS_WHY_MAX];
    (void)data;

    if (!reply)
        pp_redis_line_gone(ac);
    if (!reply || !l)
        return;
    pp_assert(l->asking, "a sentinel answers a line that does not ask");
    if (pp_redis_sentinel_read(&l->r->home, reply, &master, why)) {
        pp_redis_line_drop(l, why);
        return;
    }
    struct redisAsyncContext *sentinel = detach(l);
    l->asking = false;
    aim(l, master.host, master.port);
    reach(l, l->r->timeout_ms);
    if (sentinel)
        pp_redis_finish(sentinel, false);
}

/* Begins the next attempt if the line rests. Otherwise ends the attempt, which has taken too
 * long. */
static void on_timer(void *data)
{
    struct pp_redis_line *l = data;
    const struct pp_redis_address *home = &l->r->home;
    int64_t ms = l->r->timeout_ms;

    if (l->state != PP_LINE_RESTING) {
        pp_redis_line_drop(l, "no answer in time");
        return;
    }
    l->asking = home->n_sentinels > 0;
    if (l->asking) {
        const struct pp_redis_place *s = &home->sentinels[l->sentinel % home->n_sentinels];
        aim(l, s->host, s->port);
        ms = ms < SENTINEL_MS ? ms : SENTINEL_MS;
    }
    reach(l, ms);
}

bool pp_redis_line_start(struct pp_redis_line *l)
{
    go_home(l);
    l->hope = true;
    pp_rng_seed(&l->rng,
                (uint64_t)pp_loop_wall(l->r->loop) << 20 ^ (uint64_t)getpid() ^ (uint64_t)(uintptr_t)l);
    l->timer = pp_timer_open(l->r->loop, on_timer, l);
    if (l->timer)
        pp_timer_start(l->timer, 0, 0);
    return l->timer;
}

void pp_redis_line_fini(struct pp_redis_line *l)
{
    struct redisAsyncContext *ac = detach(l);
    forget_lookup(l);
    pp_timer_close(l->timer);
    l->timer = NULL;
    if (ac)
        pp_redis_finish(ac, true);
}
