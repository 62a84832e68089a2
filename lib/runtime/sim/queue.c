/* queue.c: the queue of events of a world, in the order of (time, order), for the hundred thousand
 * events of a large fleet: a wheel of lists before a heap, as in R. Brown, "Calendar queues", CACM
 * 31 (10), 1988.
 *
 * A day is DAY_US long:
 *
 *   heap    the events that are due until the end of the day `today`
 *   days    a list for each of the next DAYS - 1 days: list d % DAYS has the events of day d
 *   later   the events of all following days
 *
 * Only the heap is in order, and it is small enough for the processor's cache. When it is empty,
 * the events of the next day go there. New events of today enter the heap at once. Any event can be
 * removed: `places` knows where it is. Slots repeat the keys of events, so neither comparing nor
 * moving touches an event. */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

enum {
    FIRST_ROOM = 16,
    ROOM_KEPT = 512,
    WAYS = 4,
    DAY_US = 1024,
    DAYS = SIM_QUEUE_DAYS,
    HEAP = DAYS,
    LATER = DAYS + 1
};

static int64_t day_of(int64_t at_us)
{
    return at_us / DAY_US;
}

static int64_t day_of_slot(const struct sim_slot *slot)
{
    return day_of((int64_t)(slot->key >> 64));
}

/* Makes room for one more slot in a list. */
static void reserve(struct sim_slots *l)
{
    if (l->n < l->room)
        return;
    l->room = l->room ? l->room * 2 : FIRST_ROOM;
    l->slots = realloc(l->slots, l->room * sizeof *l->slots);
    pp_assert(l->slots, "the simulator has no memory for its queue");
}

static void set(struct sim_queue *q, uint32_t list, size_t i, struct sim_slot slot)
{
    q->lists[list].slots[i] = slot;
    q->places[slot.ticket] = (struct sim_queue_place){list, (uint32_t)i};
}

/* --- the heap: its root is slot 0, and a slot has WAYS children, which lie side by side --- */

static void move_up(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    const struct sim_slot *heap = q->lists[HEAP].slots;

    for (size_t parent; i > 0 && slot.key < heap[parent = (i - 1) / WAYS].key; i = parent)
        set(q, HEAP, i, heap[parent]);
    set(q, HEAP, i, slot);
}

static void move_down(struct sim_queue *q, size_t i, struct sim_slot slot)
{
    const struct sim_slots *heap = &q->lists[HEAP];

    for (size_t child; (child = WAYS * i + 1) < heap->n; i = child) {
        size_t end = child + WAYS < heap->n ? child + WAYS : heap->n;
        for (size_t other = child + 1; other < end; other++)
            child = heap->slots[other].key < heap->slots[child].key ? other : child;
        if (slot.key < heap->slots[child].key)
            break;
        set(q, HEAP, i, heap->slots[child]);
    }
    set(q, HEAP, i, slot);
}

/* --- slots in lists --- */

static void add(struct sim_queue *q, struct sim_slot slot)
{
    int64_t day = day_of_slot(&slot);
    uint32_t list = day <= q->today ? HEAP : day < q->today + DAYS ? (uint32_t)(day % DAYS) : LATER;
    struct sim_slots *l = &q->lists[list];

    reserve(l);
    l->n++;
    if (list == HEAP) {
        move_up(q, l->n - 1, slot);
        return;
    }
    set(q, list, l->n - 1, slot);
    if (list < DAYS)
        q->busy[list / 64] |= UINT64_C(1) << list % 64;
}

static void take(struct sim_queue *q, struct sim_queue_place at)
{
    struct sim_slots *l = &q->lists[at.list];
    struct sim_slot last = l->slots[--l->n];

    if (at.i == l->n)
        return;
    if (at.list != HEAP)
        set(q, at.list, at.i, last);
    else if (at.i > 0 && last.key < l->slots[(at.i - 1) / WAYS].key)
        move_up(q, at.i, last);
    else
        move_down(q, at.i, last);
}

/* --- the days --- */

/* Returns the first day after today whose list may have events; if there is none, the first day
 * after those of the lists. */
static int64_t next_busy_day(const struct sim_queue *q)
{
    for (int64_t day = q->today + 1, end = q->today + DAYS; day < end;) {
        uint64_t bits = q->busy[day % DAYS / 64] >> day % 64;
        if (bits) /* bits behind the end belong to days that the loop has seen to be free */
            return day + __builtin_ctzll(bits);
        day += 64 - day % 64;
    }
    return q->today + DAYS;
}

static int64_t first_later_day(const struct sim_queue *q)
{
    const struct sim_slots *later = &q->lists[LATER];
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < later->n; i++) {
        int64_t day = day_of_slot(&later->slots[i]);
        first = day < first ? day : first;
    }
    return first;
}

/* Gives events of `later` to the lists of the days that have come close. */
static void take_later(struct sim_queue *q)
{
    struct sim_slots *later = &q->lists[LATER];

    for (size_t i = 0; i < later->n;) {
        struct sim_slot slot = later->slots[i];
        if (day_of_slot(&slot) >= q->today + DAYS) {
            i++;
            continue;
        }
        take(q, (struct sim_queue_place){LATER, (uint32_t)i});
        add(q, slot);
    }
    q->looked = q->today;
}

/* Lets the next day with events be today: its events go to the heap. */
static void next_day(struct sim_queue *q)
{
    int64_t day = next_busy_day(q);

    /* Nothing of `later` is due before the day looked + DAYS. */
    if (day >= q->looked + DAYS) {
        int64_t first = first_later_day(q);
        day = first < day || day == q->today + DAYS ? first : day;
    }
    q->today = day;
    struct sim_slots *l = &q->lists[day % DAYS];
    q->busy[day % DAYS / 64] &= ~(UINT64_C(1) << day % 64);
    while (l->n > 0) {
        struct sim_slot slot = l->slots[--l->n];
        add(q, slot);
    }
    if (l->room > ROOM_KEPT) { /* timers of all processes fire at once on some days */
        free(l->slots);
        *l = (struct sim_slots){0};
    }
    if (day >= q->looked + DAYS / 2)
        take_later(q);
}

/* --- the queue --- */

static void grow(struct sim_queue *q)
{
    size_t before = q->room;

    q->room = before ? before * 2 : FIRST_ROOM;
    q->places = realloc(q->places, (q->room + 1) * sizeof *q->places);
    pp_assert(q->places && q->room < UINT32_MAX, "the simulator has no memory for its queue");
    for (size_t ticket = q->room; ticket > before; ticket--) {
        q->places[ticket].i = q->free;
        q->free = (uint32_t)ticket;
    }
}

void sim_queue_put(struct sim_queue *q, struct pp_sim_event *e)
{
    pp_assert(e->ticket == 0 && !e->held, "an event is scheduled twice");
    if (q->n == q->room)
        grow(q);
    e->ticket = q->free;
    q->free = q->places[e->ticket].i;
    q->n++;
    add(q, (struct sim_slot){(unsigned __int128)e->at_us << 64 | e->order, e, e->ticket});
}

void sim_queue_remove(struct sim_queue *q, struct pp_sim_event *e)
{
    pp_assert(e->ticket != 0, "an event is removed that is not in the queue");
    struct sim_queue_place at = q->places[e->ticket];
    pp_assert(q->lists[at.list].slots[at.i].event == e, "an event is not where the queue has it");
    q->places[e->ticket].i = q->free;
    q->free = e->ticket;
    e->ticket = 0;
    q->n--;
    take(q, at);
}

struct pp_sim_event *sim_queue_first(struct sim_queue *q)
{
    if (q->n == 0)
        return NULL;
    while (q->lists[HEAP].n == 0)
        next_day(q);
    return q->lists[HEAP].slots[0].event;
}

void sim_queue_fini(struct sim_queue *q)
{
    for (size_t i = 0; i < SIM_QUEUE_LISTS; i++)
        free(q->lists[i].slots);
    free(q->places);
}
