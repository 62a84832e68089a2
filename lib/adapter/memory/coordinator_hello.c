/* coordinator_hello.c: the port's greeting: reads what the server knows after a connect, and names
 * the installation's first data set to it. */
#include <string.h>

#include "adapter/memory/coordinator_port.h"

enum pp_err pp_mc_arrive_hello(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_mc_hello *r = (const struct pp_mc_hello *)req;
    const struct pp_mc_call *call = pp_mc_call_of(req);

    if (!r->only_first) {
        pp_assert(c->greeting, "a greeting is answered twice");
        c->greeting = false;
    }
    if (c->closing)
        return err;
    if (err == PP_OK)
        pp_mc_hosts_heard(c, r->hosts, r->n_hosts, pp_mc_port_wall(c) - call->now_ms);
    if (err != PP_OK) {
        c->greet_again = true;
        pp_mc_flush_soon(c, PP_MC_RETRY_MS);
    } else if (c->greet_again) {
        pp_mc_greet(c);
    }
    return err;
}

static enum pp_err send_hello(struct pp_mc_port *c, bool only_first)
{
    struct pp_mc_hello *r = pp_mc_own_new(sizeof *r);

    if (!r)
        return PP_ENOMEM;
    memcpy(r->first, c->first, sizeof r->first);
    r->only_first = only_first;
    return pp_mc_own_send(c, PP_MC_hello, &r->own.req);
}

void pp_mc_greet(struct pp_mc_port *c)
{
    c->greet_again = c->greeting;
    if (c->greeting || c->closing || !c->up)
        return;
    c->greeting = send_hello(c, false) == PP_OK;
    if (!c->greeting) {
        c->greet_again = true;
        pp_mc_flush_soon(c, PP_MC_RETRY_MS);
    }
}

/* Names the installation's first data set. Tells the server at once, so that later requests find
 * that no request was sent before this data set. */
void pp_mc_first(struct pp_coordinator *p, const char *dataset)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    if (strlen(dataset) >= sizeof c->first)
        return;
    memcpy(c->first, dataset, strlen(dataset) + 1);
    if (send_hello(c, true) != PP_OK)
        pp_mc_greet(c);
}
