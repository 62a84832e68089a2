/* api_events.h: subscriptions to events over the fake ports of api_run.h, and API keys. */
#ifndef PP_TEST_API_EVENTS_H
#define PP_TEST_API_EVENTS_H

#include <openssl/sha.h>

#include "api_run.h"
#include "events/hub.h"
#include "fake_delivery.h"

/* Returns a key whose text is its name. */
static inline struct pp_api_key api_key(const char *name, unsigned scopes)
{
    struct pp_api_key k = {.scopes = scopes};
    snprintf(k.name, sizeof(k.name), "%s", name);
    SHA256((const unsigned char *)name, strlen(name), k.sha256);
    return k;
}

/* An event log without events, and the long-polls that wait for them. */
struct polls {
    struct fake_log log;
    struct pp_http_request requests[20];
    size_t n;
};

static inline void open_events(struct api_run *t, struct polls *p)
{
    *p = (struct polls){0};
    fake_log_open(&p->log, t->loop);
    api_stop(t);
    t->params.max_subscribers = 10;
    t->options.hub = pp_hub_open(&(struct pp_hub_options){.loop = t->loop, .events = &p->log.base});
    t->api = pp_api_open(&t->options);
    assert_non_null(t->options.hub);
    while (p->log.reads == 0 || pp_hub_busy(t->options.hub) > 0)
        (void)pp_loop_turn(t->loop, true);
}

static inline void close_events(struct api_run *t, struct polls *p)
{
    pp_api_end(t->api);
    api_stop(t);
    pp_hub_stop(t->options.hub);
    while (pp_hub_busy(t->options.hub) > 0)
        (void)pp_loop_turn(t->loop, true);
    pp_hub_close(t->options.hub);
    fake_log_close(&p->log);
    t->options.hub = NULL;
    t->api = pp_api_open(&t->options);
}

/* Begins a long-poll of this address. Returns how many requests were answered at once. */
static inline size_t poll_from(struct api_run *t, struct polls *p, const char *peer)
{
    size_t before = t->server.replies;

    t->peer = peer;
    api_begin(t, &p->requests[p->n++], PP_GET, "/v1/events?key=results&wait=60", NULL, 0);
    return t->server.replies - before;
}

#endif
