/* notice.c: notices from servers in memory to ports. */
#include "adapter/memory/notice.h"

#include <stdlib.h>

#include "base/check.h"

static void on_heard(void *data)
{
    struct pp_memory_ear *ear = data;
    ear->told = false;
    ear->heard(ear->port);
}

enum pp_err pp_memory_ear_open(struct pp_memory_ear *ear, struct pp_loop *loop, struct pp_memory_line *line,
                               void (*heard)(void *port), void *port)
{
    *ear = (struct pp_memory_ear){
        .line = line, .heard = heard, .port = port, .timer = pp_timer_open(loop, on_heard, ear)};
    pp_list_init(&ear->on_way);
    return ear->timer ? PP_OK : PP_ENOMEM;
}

void pp_memory_ear_close(struct pp_memory_ear *ear)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&ear->on_way)))
        pp_container_of(node, struct pp_memory_notice, in_ear)->ear = NULL;
    pp_timer_close(ear->timer);
    ear->timer = NULL;
}

bool pp_memory_ear_waits(const struct pp_memory_ear *ear)
{
    return ear->told || !pp_list_empty(&ear->on_way);
}

void pp_memory_ear_wake(struct pp_memory_ear *ear)
{
    pp_assert(ear->timer, "a notice for a closed ear");
    pp_timer_sooner(ear->timer, 0);
}

static void arrive(struct pp_memory_ear *ear)
{
    ear->told = true;
    pp_memory_ear_wake(ear);
}

void pp_memory_ear_tell(struct pp_memory_ear *ear, pp_memory_carry *carry, void *data, bool sure)
{
    if (!carry) {
        arrive(ear);
        return;
    }
    struct pp_memory_notice *n = calloc(1, sizeof *n);
    if (!n)
        return;
    n->line = ear->line;
    n->sure = sure;
    n->ear = ear;
    pp_list_push(&ear->on_way, &n->in_ear);
    carry(data, n);
}

void pp_memory_notice_arrive(struct pp_memory_notice *n)
{
    if (n->ear)
        arrive(n->ear);
    pp_memory_notice_drop(n);
}

void pp_memory_notice_drop(struct pp_memory_notice *n)
{
    if (n->ear)
        pp_list_remove(&n->ear->on_way, &n->in_ear);
    free(n);
}
