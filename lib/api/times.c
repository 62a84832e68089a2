/* times.c: how long answers take, by endpoint and class of status, for /metrics. Answers of GET
 * /v1/events are left out: a caller chooses how long it waits for them. call.h declares the
 * functions. */
#include "api/handler.h"

enum { CLASSES = 6 }; /* of status: "0xx" to "5xx"; answers have 2xx to 5xx */

static const int64_t bounds[PP_HISTOGRAM_BOUNDS] = {1, 5, 10, 25, 50, 100, 250, 1000, 5000};

bool pp_times_open(struct pp_api *api)
{
    api->times = calloc(api->n_endpoints * CLASSES, sizeof(*api->times));
    return api->times;
}

void pp_times_close(struct pp_api *api)
{
    free(api->times);
}

void pp_call_timed(const struct pp_call *call, int status)
{
    const struct pp_api *api = call->api;

    pp_assert(status >= 200 && status / 100 < CLASSES, "an answer has a final HTTP status");
    if (!call->endpoint || (call->endpoint->flags & PP_TICKET))
        return;
    size_t i = (size_t)(call->endpoint - api->endpoints);
    pp_assert(i < api->n_endpoints, "a call has an endpoint that is not in the table");
    pp_histogram_add(&api->times[i * CLASSES + (size_t)(status / 100)], bounds,
                     pp_loop_now(call->o->loop) - call->begun_ms);
}

static bool is_empty(const struct pp_histogram *h)
{
    uint64_t n = 0;

    for (size_t i = 0; i <= PP_HISTOGRAM_BOUNDS; i++)
        n += h->buckets[i];
    return n == 0;
}

void pp_times_write(const struct pp_api *api, struct pp_buf *out)
{
    char labels[200];

    pp_buf_puts(out, "# HELP photopool_http_request_seconds Time from a request's head to its answer.\n"
                     "# TYPE photopool_http_request_seconds histogram\n");
    for (size_t i = 0; i < api->n_endpoints; i++) {
        const struct pp_endpoint *e = &api->endpoints[i];
        for (int status = 2; status < CLASSES; status++) {
            const struct pp_histogram *h = &api->times[i * CLASSES + (size_t)status];
            if (is_empty(h))
                continue;
            snprintf(labels, sizeof(labels), "route=\"%s %s\",status=\"%dxx\",", pp_method_name(e->method),
                     e->pattern, status);
            pp_histogram_write(h, bounds, "http_request_seconds", labels, out);
        }
    }
}
