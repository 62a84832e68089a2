/* queue.c: the queue of events of a world, a heap in the order of (time, order). Any event can be
 * removed: the array `places` knows where it is. The slots repeat the keys. So neither comparing
 * nor moving touches an event, of which there are a hundred thousand all over the memory. A slot
 * has WAYS children, which lie side by side. */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

enum { FIRST_ROOM = 1024, WAYS = 4 };

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
    q->places[slot.ticket] = (uint32_t)i;
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

/* Makes room for more events, and tickets for them. */
static void grow(struct sim_queue *q)
{
    size_t before = q->room;

    q->room = before ? before * 2 : FIRST_ROOM;
    q->slots = realloc(q->slots, (q->room + 1) * sizeof *q->slots);
    q->places = realloc(q->places, (q->room + 1) * sizeof *q->places);
    pp_assert(q->slots && q->places && q->room < UINT32_MAX, "the simulator has no memory for its queue");
    for (size_t ticket = q->room; ticket > before; ticket--) {
        q->places[ticket] = q->free;
        q->free = (uint32_t)ticket;
    }
}

void sim_queue_put(struct sim_queue *q, struct pp_sim_event *e)
{
    pp_assert(e->ticket == 0 && !e->held, "an event is scheduled twice");
    if (q->n == q->room)
        grow(q);
    e->ticket = q->free;
    q->free = q->places[e->ticket];
    q->n++;
    move_up(q, q->n, (struct sim_slot){(unsigned __int128)e->at_us << 64 | e->order, e, e->ticket});
}

void sim_queue_remove(struct sim_queue *q, struct pp_sim_event *e)
{
    pp_assert(e->ticket != 0, "an event is removed that is not in the queue");
    size_t i = q->places[e->ticket];
    pp_assert(i >= 1 && i <= q->n && q->slots[i].event == e, "an event is not where the queue has it");
    q->places[e->ticket] = q->free;
    q->free = e->ticket;
    e->ticket = 0;
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
