/* suite_fetcher_kit.c: the kit of the fetcher's tests. Every callback checks the order that the
 * contract demands: allow* -> sent -> head -> body* -> done. */
#include "suite_fetcher_kit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

const struct pp_fetcher_subject *pp_fetcher_subject;

static bool on_allow(struct pp_exchange *x, const struct sockaddr *sa)
{
    struct get *g = (struct get *)x;

    assert_true(sa->sa_family == AF_INET || sa->sa_family == AF_INET6);
    assert_int_equal(g->heads, 0);
    assert_int_equal(g->dones, 0);
    g->allows++;
    if (g->denied_ip && ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) == g->denied_ip)
        return false;
    return g->deny_at == 0 || g->allows < g->deny_at;
}

static void on_sent(struct pp_exchange *x)
{
    struct get *g = (struct get *)x;

    assert_true(g->allows > 0);
    assert_int_equal(g->heads, 0);
    assert_int_equal(x->phase, PP_PHASE_FIRST_BYTE);
    g->sents++;
    if (g->on_sent)
        g->on_sent(g);
}

static enum pp_flow on_head(struct pp_exchange *x)
{
    struct get *g = (struct get *)x;

    assert_true(g->sents > 0);
    assert_int_equal(g->heads++, 0);
    assert_int_equal(x->phase, PP_PHASE_BODY);
    assert_in_range(x->status, 200, 599);
    if (g->on_head)
        g->on_head(g);
    g->paused = g->head_flow == PP_FLOW_PAUSE;
    return g->head_flow;
}

static enum pp_flow on_body(struct pp_exchange *x, const void *p, size_t n)
{
    struct get *g = (struct get *)x;

    assert_int_equal(g->heads, 1);
    assert_int_equal(g->dones, 0);
    assert_true(n > 0);
    assert_false(g->paused);
    g->bodies++;
    if (g->pause_at && g->n + n >= g->pause_at) {
        g->pause_at = 0;
        g->paused = true;
        /* After a pause the fetcher must pass the same bytes to body() again. */
        return PP_FLOW_PAUSE;
    }
    if (g->n < BODY_KEPT)
        memcpy(g->body + g->n, p, g->n + n <= BODY_KEPT ? n : BODY_KEPT - g->n);
    g->n += n;
    if (g->on_body)
        g->on_body(g);
    return g->stop_at && g->n >= g->stop_at ? PP_FLOW_STOP : PP_FLOW_GO;
}

static void on_done(struct pp_exchange *x)
{
    struct get *g = (struct get *)x;

    assert_int_equal(g->dones++, 0);
    assert_false(g->paused);
    assert_true(x->code != 0 || x->stopped || g->heads == 1);
    assert_true(x->code == 0 ? x->detail[0] == '\0' : x->detail[0] != '\0');
    for (const char *p = x->detail; *p; p++)
        assert_in_range(*p, ' ', '~');
    if (x->location) {
        g->location_n = strlen(x->location);
        (void)snprintf(g->location, sizeof(g->location), "%s", x->location);
    }
    if (g->on_done)
        g->on_done(g);
}

static const struct pp_exchange_events events = {on_allow, on_sent, on_head, on_body, on_done};

void kit_open(struct kit *k, pp_origin_handler handler, void *data, SSL_CTX *tls)
{
    memset(k, 0, sizeof(*k));
    k->https = tls != NULL;
    k->o = pp_origin_open(handler, data, tls);
    k->loop = pp_loop_open();
    assert_non_null(k->loop);
    assert_int_equal(pp_fetcher_subject->open(k->loop, pp_test_ca_file(), &k->f), PP_OK);
}

void kit_close(struct kit *k)
{
    k->f->ops->close(k->f);
    pp_loop_close(k->loop);
    pp_origin_close(k->o);
}

int kit_setup(void **state)
{
    struct kit *k = malloc(sizeof(*k));
    pp_origin_handler handler = (pp_origin_handler)(uintptr_t)*state;

    if (!k)
        return -1;
    kit_open(k, handler, NULL, NULL);
    *state = k;
    return 0;
}

int kit_teardown(void **state)
{
    kit_close(*state);
    free(*state);
    return 0;
}

void get_init(struct get *g, struct kit *k, const char *path)
{
    struct sockaddr_in *sa = (struct sockaddr_in *)&g->addrs[0];

    memset(g, 0, sizeof(*g));
    g->kit = k;
    g->body = calloc(1, BODY_KEPT + 1);
    assert_non_null(g->body);
    sa->sin_family = AF_INET;
    sa->sin_port = htons(pp_origin_port(k->o));
    sa->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)snprintf(g->url, sizeof(g->url), "%s://%s:%u%s", k->https ? "https" : "http", KIT_HOST,
                   pp_origin_port(k->o), path);
    g->x.events = &events;
    g->x.url = g->url;
    g->x.host = KIT_HOST;
    g->x.port = pp_origin_port(k->o);
    g->x.https = k->https;
    g->x.addrs = g->addrs;
    g->x.n_addrs = 1;
    /* The limit is so long that a slow machine does not look like a slow host. */
    g->x.connect_ms = 60000;
    g->head_flow = PP_FLOW_GO;
}

void get_start(struct get *g)
{
    assert_int_equal(g->kit->f->ops->start(g->kit->f, &g->x), PP_OK);
    /* The fetcher must not call back within start(). */
    assert_int_equal(g->allows + g->sents + g->heads + g->dones, 0);
}

static bool is_done(void *g)
{
    return ((struct get *)g)->dones > 0;
}

void get_wait(struct get *g)
{
    kit_until(g->kit, is_done, g);
}

void get_run(struct get *g, struct kit *k, const char *path)
{
    get_init(g, k, path);
    get_start(g);
    get_wait(g);
}

void get_fini(struct get *g)
{
    free(g->body);
}

void get_abort(struct get *g)
{
    g->kit->f->ops->abort(g->kit->f, &g->x);
}

/* --- the origin --- */

static bool is_path(const char *request, const char *path)
{
    size_t n = strlen(path);

    return strncmp(request, "GET ", 4) == 0 && strncmp(request + 4, path, n) == 0 && request[4 + n] == ' ';
}

enum pp_origin_next kit_serve(struct pp_origin_conn *c, const char *request, void *data)
{
    static char block[65536];

    (void)data;
    if (is_path(request, "/hang"))
        return PP_ORIGIN_HANG;
    if (is_path(request, "/head")) {
        (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        return PP_ORIGIN_HANG;
    }
    if (is_path(request, "/begin")) {
        (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        return PP_ORIGIN_HANG;
    }
    if (is_path(request, "/endless")) {
        bool alive = pp_origin_puts(c, "HTTP/1.1 200 OK\r\n\r\n");
        while (alive)
            alive = pp_origin_write(c, block, sizeof(block));
        return PP_ORIGIN_CLOSE;
    }
    if (is_path(request, "/big")) {
        bool alive = pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
        for (size_t sent = 0; alive && sent < KIT_BIG; sent += sizeof(block))
            alive = pp_origin_write(c, block, sizeof(block));
        return alive ? PP_ORIGIN_KEEP : PP_ORIGIN_CLOSE;
    }
    if (is_path(request, "/empty")) {
        (void)pp_origin_puts(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        return PP_ORIGIN_KEEP;
    }
    (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return PP_ORIGIN_KEEP;
}

bool gets_done(void *data)
{
    for (struct get *g = data; g->kit; g++)
        if (!g->dones)
            return false;
    return true;
}

bool origin_idle(void *o)
{
    return pp_origin_open_connections(o) == 0;
}

bool get_paused(void *g)
{
    return ((struct get *)g)->paused;
}

void get_unpause(struct get *g)
{
    int before = g->bodies;

    g->paused = false;
    g->kit->f->ops->resume(g->kit->f, &g->x);
    assert_int_equal(g->bodies, before); /* The fetcher must not call body() within resume(). */
}

void kit_turn(struct kit *k)
{
    struct get g; /* This get only makes the loop turn. */

    get_run(&g, k, "/");
    assert_int_equal(g.x.code, 0);
    get_fini(&g);
}
