/* queue.c: the queue of events of a world, a heap in the order of (time, order). Each event knows
 * its place, so that any event can be removed. The slots repeat the keys, so that comparing touches
 * no event. A slot has WAYS children, which lie side by side: with a hundred thousand events, a
 * removal waits for memory half as often as in a binary heap. */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

enum { FIRST_ROOM = 1024, WAYS = 4 };

/* The slots begin at 1, because at is 0 for an event that is not in the queue. */
static size_t parent_of(size_t i)
{
    return (i + WAYS - 2) / WAYS;
}

static size_t first_child_of(size_t i)
{
    return WAYS * (i - 1) + 2;
}

static void set(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    q->slots[i] = slot;
    slot.event->at = i;
}

static void move_up(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    for (; i > 1 && slot.key < q->slots[parent_of(i)].key; i = parent_of(i))
        set(q, i, q->slots[parent_of(i)]);
    set(q, i, slot);
}

static void move_down(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    for (size_t child; (child = first_child_of(i)) <= q->n; i = child) {
        size_t end = child + WAYS <= q->n + 1 ? child + WAYS : q->n + 1;
        for (size_t other = child + 1; other < end; other++)
            child = q->slots[other].key < q->slots[child].key ? other : child;
        if (slot.key < q->slots[child].key)
            break;
        set(q, i, q->slots[child]);
    }
    set(q, i, slot);
}

void sim_queue_put(struct sim_queue *q, struct pp_sim_event *e)
{
    pp_assert(e->at == 0 && !e->held, "an event is scheduled twice");
    if (q->n + 1 >= q->room) {
        q->room = q->room ? q->room * 2 : FIRST_ROOM;
        q->slots = realloc(q->slots, q->room * sizeof *q->slots);
        pp_assert(q->slots, "the simulator has no memory for its queue");
    }
    q->n++;
    move_up(q, q->n, (struct sim_slot){(unsigned __int128)e->at_us << 64 | e->order, e});
}

void sim_queue_remove(struct sim_queue *q, struct pp_sim_event *e)
{
    size_t i = e->at;
    pp_assert(i >= 1 && i <= q->n && q->slots[i].event == e, "an event is not where it says");
    e->at = 0;
    struct sim_slot last = q->slots[q->n--];
    if (last.event == e)
        return;
    if (i > 1 && last.key < q->slots[parent_of(i)].key)
        move_up(q, i, last);
    else
        move_down(q, i, last);
}

struct pp_sim_event *sim_queue_first(const struct sim_queue *q)
{
    return q->n > 0 ? q->slots[1].event : NULL;
}
