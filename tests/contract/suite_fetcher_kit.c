/* suite_fetcher_kit.c: see suite_fetcher_kit.h. Every callback checks that the order of the contract holds:
 * allow* -> sent -> head -> body* -> done. */
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
        return PP_FLOW_PAUSE; /* these bytes come again */
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
    g->x.connect_ms = 5000;
    g->head_flow = PP_FLOW_GO;
}

void get_start(struct get *g)
{
    assert_int_equal(g->kit->f->ops->start(g->kit->f, &g->x), PP_OK);
    assert_int_equal(g->allows + g->sents + g->heads + g->dones, 0); /* nothing from within start() */
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
