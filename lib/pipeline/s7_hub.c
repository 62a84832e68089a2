/* s7_hub.c: results as events of "results:CLIENT". */
#include <stdlib.h>

#include "pipeline/s7_internal.h"

#define EVENTS 500
#define BYTES  (4u << 20) /* of data in one append */

struct pp_s7_hub {
    struct pp_pipeline *p;
    struct pp_relay *relay;
    struct pp_backoff backoff;
    bool busy;
    struct pp_arena arena;
    struct pp_publication publication;
    struct pp_message *messages[EVENTS];
};

static void pump(void *data);

static void published(struct pp_publication *publication, enum pp_err err)
{
    struct pp_s7_hub *hub = publication->data;
    size_t n = publication->n;

    hub->busy = false;
    if (err == PP_OK) {
        pp_backoff_reset(&hub->backoff);
        for (size_t i = 0; i < n; i++)
            pp_relay_delivered(hub->relay, hub->messages[i], 0);
    } else { /* again, under other numbers where they had got some */
        pp_log(hub->p->log, PP_LOG_WARN, "results could not be written to the event log", "error",
               pp_err_text(err), NULL);
        pp_backoff_failed(&hub->backoff, hub->p);
        while (n > 0)
            pp_relay_put_back(hub->relay, hub->messages[--n]);
    }
    pp_arena_fini(&hub->arena);
    pump(hub);
}

/* Strings are the message's, which stays until the publication has ended. */
static bool to_event(struct pp_s7_hub *hub, const struct pp_message *m, struct pp_event *e)
{
    *e = (struct pp_event){.at_ms = pp_loop_wall(hub->p->loop),
                           .key = pp_arena_printf(&hub->arena, "results:%s", m->client),
                           .type = "photopool.item.finished",
                           .data = m->body,
                           .data_n = m->body_n};
    return e->key != NULL;
}

static void pump(void *data)
{
    struct pp_s7_hub *hub = data;
    size_t n = 0, bytes = 0;
    struct pp_message *m;

    if (hub->busy || pp_relay_waiting(hub->relay) == 0 || pp_backoff_waits(&hub->backoff, hub->p))
        return;
    pp_arena_init(&hub->arena, 0);
    struct pp_event *events = pp_arena_array(&hub->arena, EVENTS, sizeof(*events));
    while (events && n < EVENTS && bytes < BYTES && (m = pp_relay_take(hub->relay))) {
        if (!to_event(hub, m, &events[n])) {
            pp_relay_put_back(hub->relay, m);
            break;
        }
        bytes += m->body_n;
        hub->messages[n++] = m;
    }
    if (n == 0) {
        pp_arena_fini(&hub->arena);
        return;
    }
    hub->busy = true;
    hub->publication = (struct pp_publication){.events = events, .n = n, .done = published, .data = hub};
    pp_publish(hub->p->publisher, &hub->publication);
}

struct pp_s7_hub *pp_s7_hub_open(struct pp_pipeline *p, const struct pp_lease *lease)
{
    struct pp_s7_hub *hub = calloc(1, sizeof(*hub));
    if (!hub)
        return NULL;
    hub->p = p;
    const struct pp_relay_driver driver = {.sink = "hub", .window = 1000, .pump = pump, .data = hub};
    hub->relay = pp_relay_open(p, &driver, lease);
    if (hub->relay)
        return hub;
    free(hub);
    return NULL;
}

struct pp_relay *pp_s7_hub_relay(struct pp_s7_hub *hub)
{
    return hub->relay;
}

void pp_s7_hub_close(struct pp_s7_hub *hub)
{
    if (!hub)
        return;
    pp_relay_close(hub->relay);
    free(hub);
}
