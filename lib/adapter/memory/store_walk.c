/* store_walk.c: shows all tasks, items and photos, for checks of invariants. */
#include "store_data.h"

void pp_memory_store_each_task(const struct pp_memory_store *s,
                               void (*cb)(void *data, const struct pp_memory_task *task), void *data)
{
    for (const struct pp_node *at = s->tasks.head.next; at != &s->tasks.head; at = at->next) {
        const struct pp_ms_task *t = pp_container_of(at, struct pp_ms_task, node);
        const struct pp_memory_task task = {.client = t->photo->client->name,
                                            .domain = t->domain ? t->domain->name : "",
                                            .key = t->photo->key,
                                            .state = t->state,
                                            .queue = t->queue,
                                            .tier = t->tier,
                                            .losses = t->losses,
                                            .attempts = t->attempts,
                                            .epoch = t->photo->epoch,
                                            .due_ms = t->times.due_ms,
                                            .worker = t->worker ? t->worker->name : NULL,
                                            .lease_ms = t->worker ? t->lease_ms : 0,
                                            .waiters = t->waiters.n};
        cb(data, &task);
    }
}

void pp_memory_store_each_item(const struct pp_memory_store *s,
                               void (*cb)(void *data, const struct pp_item *item), void *data)
{
    for (const struct pp_node *at = s->items.head.next; at != &s->items.head; at = at->next) {
        struct pp_ms_item *it = pp_container_of(at, struct pp_ms_item, node);
        pp_ms_item_refresh(it);
        cb(data, &it->item);
    }
}

void pp_memory_store_each_photo(const struct pp_memory_store *s,
                                void (*cb)(void *data, const struct pp_memory_photo *photo), void *data)
{
    for (const struct pp_ms_client *c = s->clients; c; c = c->hh.next) {
        for (const struct pp_ms_photo *p = c->photos; p; p = p->hh.next) {
            const struct pp_memory_photo photo = {
                .client = c->name, .key = p->key, .record = &p->record, .epoch = p->epoch, .open = p->task};
            cb(data, &photo);
        }
    }
}
