/* net_resolver.c: the resolver port on the made-up internet, which decides each answer (behave.h).
 *
 * Invariant: q->impl is the query's look-up while it is in flight, and only then. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "internet.h"
#include "photopool/code.h"

struct net_resolver {
    struct pp_resolver base;
    struct sim_endpoint end;
    struct pp_list look_ups;
};

struct look_up {
    struct pp_node node;
    struct net_resolver *r;
    struct pp_query *q;
    struct pp_timer *timer;
    struct sim_name name;
};

static struct net_resolver *self(struct pp_resolver *base)
{
    return pp_container_of(base, struct net_resolver, base);
}

static void answer(struct pp_query *q, const struct sim_name *name)
{
    q->code = name->code;
    q->local_errno = 0;
    q->pinned = false;
    q->n = name->n;
    for (size_t i = 0; i < name->n; i++) {
        q->addrs[i] = name->addrs[i];
        if (q->addrs[i].ss_family == AF_INET)
            ((struct sockaddr_in *)&q->addrs[i])->sin_port = htons(q->port);
        else
            ((struct sockaddr_in6 *)&q->addrs[i])->sin6_port = htons(q->port);
    }
}

static void look_up_free(struct look_up *l)
{
    pp_list_remove(&l->r->look_ups, &l->node);
    pp_timer_close(l->timer);
    l->q->impl = NULL;
    free(l);
}

static void on_answer(void *data)
{
    struct look_up *l = data;
    struct pp_query *q = l->q;

    answer(q, &l->name);
    look_up_free(l);
    q->done(q);
}

/* Answers at once, without memory for more. */
static bool refuse(struct pp_query *q)
{
    q->code = PP_CODE_DNS_TEMPORARY;
    q->local_errno = 0;
    q->n = 0;
    return true;
}

static bool resolver_resolve(struct pp_resolver *base, struct pp_query *q)
{
    struct net_resolver *r = self(base);
    struct sim_host *h;
    struct look_up *l;

    q->impl = NULL;
    if (r->end.crashed)
        return false;
    if (!(h = sim_host_get(r->end.net, q->host)))
        return refuse(q);
    struct sim_name name = sim_host_look_up(h);
    if (name.cached) {
        answer(q, &name);
        return true;
    }
    if (!(l = calloc(1, sizeof(*l))) || !(l->timer = pp_timer_open(r->end.loop, on_answer, l))) {
        free(l);
        return refuse(q);
    }
    l->r = r;
    l->q = q;
    l->name = name;
    q->impl = l;
    pp_list_push(&r->look_ups, &l->node);
    pp_timer_start(l->timer, name.ms, 0);
    return false;
}

static void resolver_abort(struct pp_resolver *base, struct pp_query *q)
{
    struct look_up *l = q->impl;

    if (self(base)->end.crashed)
        return;
    pp_assert(l && l->q == q, "the query is not in flight");
    look_up_free(l);
}

static void resolver_cut(struct sim_endpoint *end)
{
    struct net_resolver *r = pp_container_of(end, struct net_resolver, end);

    pp_list_each (node, &r->look_ups)
        look_up_free(pp_container_of(node, struct look_up, node));
}

static void resolver_free(struct sim_endpoint *end)
{
    struct net_resolver *r = pp_container_of(end, struct net_resolver, end);

    pp_assert(pp_list_empty(&r->look_ups), "queries are in flight at close");
    sim_endpoint_fini(&r->end);
    free(r);
}

static void resolver_close(struct pp_resolver *base)
{
    resolver_free(&self(base)->end);
}

static const struct pp_resolver_ops ops = {resolver_resolve, resolver_abort, resolver_close};

struct pp_resolver *sim_resolver_open(struct sim_internet *net, const char *process, struct pp_loop *loop)
{
    struct net_resolver *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->base.ops = &ops;
    r->end.cut = resolver_cut;
    r->end.free = resolver_free;
    pp_list_init(&r->look_ups);
    sim_endpoint_init(&r->end, net, process, loop);
    return &r->base;
}
