/* store_task.c: the life of a task: its state, its place in a queue or in a worker's list, and its
 * waiters. The rules are in photopool/task_rules.h; only pp_ms_task_change() changes a state. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* Tells the observer of a task's new state. */
static void tell(const struct pp_memory_store *s, const struct pp_ms_task *t, enum pp_task_state from)
{
    const struct pp_memory_observer *o = s->options.observer;
    if (!o)
        return;
    struct pp_memory_task_change change = {.client = t->photo->client->name,
                                           .key = t->photo->key,
                                           .handle = t->number,
                                           .from = from,
                                           .to = t->state,
                                           .epoch = t->photo->epoch,
                                           .worker = t->worker ? t->worker->name : NULL,
                                           .by_worker = s->by_worker,
                                           .always = t->always,
                                           .held = t->times.wait_until_ms != 0,
                                           .last_code = t->last_code,
                                           .losses = t->losses};
    if (s->by_worker) {
        change.by = s->by;
        change.by_epoch = s->by->task->epoch;
        change.by_handle = s->by->task->handle;
    }
    o->task(o->data, &change);
}

/* --- making and freeing --- */

struct pp_ms_task *pp_ms_task_new(struct pp_memory_store *s, struct pp_ms_photo *photo,
                                  const struct pp_plan_photo *f, struct pp_ms_domain *domain)
{
    pp_assert(!photo->task, "a photo gets a second task");
    pp_assert(f->tier < PP_QUEUE_SUSPECT, "a task opens in a tier that has no queue");
    struct pp_ms_task *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    if (!pp_ms_text_new(&t->etag, f->etag) || !pp_ms_text_new(&t->last_modified, f->last_modified)) {
        pp_ms_text_drop(t->etag);
        free(t);
        return NULL;
    }
    t->number = ++s->last_task;
    t->photo = photo;
    t->domain = domain;
    t->state = PP_TASK_STATE_COUNT;
    t->queue = t->tier = f->tier;
    t->always = f->always;
    t->known = f->known;
    t->known_fetched_at = f->known_fetched_at;
    pp_list_init(&t->waiters);
    photo->task = t;
    return t;
}

static struct pp_ms_queue *queue_of(const struct pp_ms_task *t)
{
    return &t->photo->client->queues[t->queue];
}

static void start_waiting(struct pp_memory_store *s, struct pp_ms_task *t)
{
    pp_ms_queue_add(queue_of(t), t);
    s->waiting[t->queue]++;
}

static void stop_waiting(struct pp_memory_store *s, struct pp_ms_task *t)
{
    pp_ms_queue_remove(queue_of(t), t);
    s->waiting[t->queue]--;
}

void pp_ms_task_open(struct pp_memory_store *s, struct pp_ms_task *t)
{
    pp_assert(t->state == PP_TASK_STATE_COUNT, "a task is opened twice");
    t->state = PP_TASK_WAITING;
    pp_list_push(&s->tasks, &t->node);
    if (t->domain)
        pp_list_push(&t->domain->tasks, &t->in_domain);
    start_waiting(s, t);
    tell(s, t, PP_TASK_STATE_COUNT);
}

void pp_ms_task_free(struct pp_memory_store *s, struct pp_ms_task *t)
{
    pp_assert(t->state != PP_TASK_WAITING && t->state != PP_TASK_CLAIMED, "a task is freed that is open");
    pp_assert(pp_list_empty(&t->waiters), "a task is freed while items wait for it");
    if (t->state != PP_TASK_STATE_COUNT) {
        pp_list_remove(&s->tasks, &t->node);
        if (t->domain)
            pp_list_remove(&t->domain->tasks, &t->in_domain);
    }
    t->photo->task = NULL;
    pp_ms_text_drop(t->etag);
    pp_ms_text_drop(t->last_modified);
    free(t);
}

/* --- state --- */

static void end_claim(struct pp_memory_store *s, struct pp_ms_task *t)
{
    struct pp_ms_worker *w = t->worker;
    pp_list_remove(&w->held, &t->held);
    t->worker = NULL;
    s->claimed--;
    pp_ms_worker_check(s, w);
}

/* Changes the state, and what depends on it. Returns the state before. */
static enum pp_task_state change(struct pp_memory_store *s, struct pp_ms_task *t, enum pp_task_event event)
{
    enum pp_task_state from = t->state;
    t->state = pp_task_after(from, event);
    if (from == PP_TASK_WAITING)
        stop_waiting(s, t);
    if (from == PP_TASK_CLAIMED)
        end_claim(s, t);
    if (t->state == PP_TASK_WAITING)
        start_waiting(s, t);
    return from;
}

void pp_ms_task_change(struct pp_memory_store *s, struct pp_ms_task *t, enum pp_task_event event)
{
    enum pp_task_state from = change(s, t, event);
    tell(s, t, from);
}

/* Leases nearly always end in the order in which they are given, so the search is short. */
void pp_ms_task_claim(struct pp_memory_store *s, struct pp_ms_task *t, struct pp_ms_worker *w,
                      int64_t lease_ms, uint64_t claim)
{
    struct pp_node *last = w->held.head.prev;
    enum pp_task_state from = change(s, t, PP_EVENT_CLAIM);
    while (last != &w->held.head && pp_container_of(last, struct pp_ms_task, held)->lease_ms > lease_ms)
        last = last->prev;
    pp_list_insert(&w->held, last, &t->held);
    t->worker = w;
    t->lease_ms = lease_ms;
    t->claim = claim;
    t->attempts++;
    t->photo->epoch++;
    s->claimed++;
    tell(s, t, from);
}

void pp_ms_task_back(struct pp_memory_store *s, struct pp_ms_task *t, enum pp_task_event event)
{
    pp_assert(pp_task_next(PP_TASK_CLAIMED, event) == PP_TASK_WAITING, "the event does not end in waiting");
    if (!pp_list_empty(&t->waiters)) {
        pp_ms_task_change(s, t, event);
        return;
    }
    pp_ms_task_change(s, t, PP_EVENT_CANCEL);
    pp_ms_task_free(s, t);
}

void pp_ms_task_requeue(struct pp_memory_store *s, struct pp_ms_task *t, uint8_t queue,
                        struct pp_task_times times)
{
    pp_assert(t->state == PP_TASK_WAITING, "a task is moved that does not wait");
    stop_waiting(s, t);
    t->queue = queue;
    t->times = times;
    start_waiting(s, t);
}

void pp_ms_task_leave(struct pp_memory_store *s, struct pp_ms_slot *slot)
{
    struct pp_ms_task *t = slot->photo->task;
    pp_assert(t, "a photo is open without a task");
    pp_list_remove(&t->waiters, &slot->wait);
    if (t->state != PP_TASK_WAITING || !pp_list_empty(&t->waiters))
        return;
    pp_ms_task_change(s, t, PP_EVENT_CANCEL);
    pp_ms_task_free(s, t);
}

void pp_ms_hand_back(struct pp_memory_store *s, const char *worker, uint64_t claim)
{
    struct pp_ms_worker *w = pp_ms_worker(s, worker, false);
    /* The last task that goes back frees the worker. */
    for (size_t n = w ? w->held.n : 0, left = n; n > 0; n--) {
        struct pp_node *first = w->held.head.next;
        struct pp_ms_task *t = pp_container_of(first, struct pp_ms_task, held);
        if (t->claim != claim) { /* turns the list, so that in the end it has its old order */
            pp_list_remove(&w->held, first);
            pp_list_push(&w->held, first);
            continue;
        }
        t->attempts--;
        left--;
        pp_ms_task_back(s, t, PP_EVENT_RELEASE);
        if (left == 0)
            return;
    }
}

/* --- backlog rows --- */

bool pp_ms_backlog_add(struct pp_backlog_row *rows, size_t *n, struct pp_arena *a, const char *client,
                       uint8_t queue, int64_t due_ms)
{
    for (size_t i = *n; i-- > 0;) {
        if (rows[i].queue != queue || strcmp(rows[i].client, client) != 0)
            continue;
        if (due_ms < rows[i].due_ms)
            rows[i].due_ms = due_ms;
        return true;
    }
    const char *copy = pp_arena_strdup(a, client);
    if (!copy)
        return false;
    rows[(*n)++] = (struct pp_backlog_row){.client = copy, .queue = queue, .due_ms = due_ms};
    return true;
}
