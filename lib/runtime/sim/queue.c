/* queue.c: the queue of events of a world, a binary heap in the order of (time, order). Each event
 * knows its place, so that any event can be removed. The slots repeat the keys, so that comparing
 * touches no event. */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

enum { FIRST_ROOM = 1024 };

static void set(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    q->slots[i] = slot;
    slot.event->at = i;
}

static void move_up(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    for (; i > 1 && slot.key < q->slots[i / 2].key; i /= 2)
        set(q, i, q->slots[i / 2]);
    set(q, i, slot);
}

static void move_down(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    for (size_t child; (child = 2 * i) <= q->n; i = child) {
        if (child < q->n)
            child += q->slots[child + 1].key < q->slots[child].key;
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
    if (i > 1 && last.key < q->slots[i / 2].key)
        move_up(q, i, last);
    else
        move_down(q, i, last);
}

struct pp_sim_event *sim_queue_first(const struct sim_queue *q)
{
    return q->n > 0 ? q->slots[1].event : NULL;
}
