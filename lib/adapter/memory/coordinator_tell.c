/* coordinator_tell.c: what the operations of the coordinator's server share: its clock, its data
 * set, and the messages to ports. */
#include <stdio.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"
#include "base/clock.h"

/* --- the data set --- */

int64_t pp_mc_now(const struct pp_memory_coordinator_server *s)
{
    return s->o.now_ms ? s->o.now_ms(s->o.data) : pp_clock_wall_ms();
}

void pp_mc_set_name(const struct pp_memory_coordinator_server *s, uint64_t set, char name[PP_MC_ID_MAX])
{
    name[0] = '\0';
    if (set > 0)
        snprintf(name, PP_MC_ID_MAX, "%016llx-%llu", (unsigned long long)s->o.seed, (unsigned long long)set);
}

bool pp_mc_is_young(const struct pp_memory_coordinator_server *s, int64_t lease_ms, int64_t now_ms)
{
    return !s->first && now_ms < s->began_ms + lease_ms;
}

/* --- messages --- */

void pp_mc_attach(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port)
{
    port->process = ++s->processes;
    pp_list_push(&s->ports, &port->node);
}

void pp_mc_detach(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port)
{
    pp_list_remove(&s->ports, &port->node);
}

void pp_mc_keep_cut(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port)
{
    pp_mc_detach(s, port);
    pp_list_push(&s->cut, &port->node);
}

struct pp_memory_content *pp_mc_news_new(enum pp_mc_kind kind, uint32_t process)
{
    struct pp_memory_content *content = pp_memory_content_new(sizeof(struct pp_mc_news));

    if (content)
        *(struct pp_mc_news *)content->body = (struct pp_mc_news){.kind = kind, .process = process};
    return content;
}

void pp_mc_publish(struct pp_memory_coordinator_server *s, struct pp_memory_content *content, bool ok)
{
    struct pp_mc_news *news = content ? content->body : NULL;

    if (news) {
        news->at_ms = pp_mc_now(s);
        news->seq = s->seq;
    }
    pp_list_each (node, &s->ports) {
        struct pp_mc_client_port *port = pp_container_of(node, struct pp_mc_client_port, node);
        if (!port->listens)
            continue;
        if (!news || !ok)
            port->inbox.on_lost(port->inbox.data);
        else if (port->process != news->process || news->kind == PP_MC_TELLS_ROWS)
            pp_memory_tell(&s->o.post, &port->inbox, content);
    }
    if (content)
        pp_memory_content_drop(content);
}
