/* ingest_rows.c: the rows of the ingest queue in memory: finds them and keeps their lists. Also
 * wakes planners that wait. */
#include "adapter/memory/ingest_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int64_t pp_mi_now(const struct pp_memory_ingest *s)
{
    return s->options.now_ms ? s->options.now_ms(s->options.data) : pp_clock_boot_ms();
}

/* --- clients, planners, keys --- */

size_t pp_mi_client_after(const struct pp_memory_ingest *s, const char *name)
{
    size_t low = 0, high = s->n_clients;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(s->clients[mid]->name, name) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Makes room for one more pointer in an array of `n` pointers. */
void *pp_mi_grown(void *array, size_t n, size_t *room)
{
    if (n < *room)
        return array;
    void *more = realloc(array, (2 * n + 64) * sizeof(void *));
    if (more)
        *room = 2 * n + 64;
    return more;
}

struct pp_mi_client *pp_mi_client(struct pp_memory_ingest *s, const char *name, bool make)
{
    size_t at = pp_mi_client_after(s, name), n = strlen(name) + 1;

    if (at > 0 && strcmp(s->clients[at - 1]->name, name) == 0)
        return s->clients[at - 1];
    if (!make)
        return NULL;
    struct pp_mi_client **more = pp_mi_grown(s->clients, s->n_clients, &s->clients_room);
    if (!more)
        return NULL;
    s->clients = more;
    struct pp_mi_client *c = calloc(1, sizeof *c + n);
    if (!c)
        return NULL;
    pp_list_init(&c->live);
    pp_list_init(&c->hours);
    memcpy(c->name, name, n);
    memmove(&more[at + 1], &more[at], (s->n_clients - at) * sizeof(struct pp_mi_client *));
    more[at] = c;
    s->n_clients++;
    return c;
}

const struct pp_mi_planner *pp_mi_planner(struct pp_memory_ingest *s, const char *name)
{
    size_t n = strlen(name) + 1;

    pp_list_each (node, &s->planners) {
        const struct pp_mi_planner *p = pp_container_of(node, struct pp_mi_planner, node);
        if (strcmp(p->name, name) == 0)
            return p;
    }
    struct pp_mi_planner *p = calloc(1, sizeof *p + n);
    if (!p)
        return NULL;
    memcpy(p->name, name, n);
    pp_list_push(&s->planners, &p->node);
    return p;
}

/* Returns a record although it may not be valid any more. */
struct pp_mi_key *pp_mi_key_find(struct pp_mi_client *c, const char *key)
{
    struct pp_mi_key *k = NULL;

    HASH_FIND_STR(c->by_key, key, k);
    return k;
}

struct pp_mi_key *pp_mi_key(struct pp_memory_ingest *s, const char *client, const char *key)
{
    struct pp_mi_client *c = pp_mi_client(s, client, false);
    struct pp_mi_key *k = c ? pp_mi_key_find(c, key) : NULL;

    return k && k->now_ms >= s->valid_ms ? k : NULL;
}

/* Adds a record. Returns false when out of memory. */
bool pp_mi_key_enter(struct pp_memory_ingest *s, struct pp_mi_key *k)
{
    struct pp_node *before = s->keys.head.prev;

    pp_assert(!k->node.next, "a record is added twice");
    if (!PP_HASH_ADD(k->client->by_key, k->key, strlen(k->key), k))
        return false;
    while (before != &s->keys.head && pp_container_of(before, struct pp_mi_key, node)->added_ms > k->added_ms)
        before = before->prev;
    pp_list_insert(&s->keys, before, &k->node);
    return true;
}

void pp_mi_key_leave(struct pp_memory_ingest *s, struct pp_mi_key *k)
{
    HASH_DEL(k->client->by_key, k);
    pp_list_remove(&s->keys, &k->node);
}

struct pp_mi_hour *pp_mi_hour(struct pp_mi_client *c, int64_t hour, int64_t now)
{
    struct pp_mi_hour *found = NULL;

    pp_list_each (node, &c->hours) {
        struct pp_mi_hour *h = pp_container_of(node, struct pp_mi_hour, node);
        if (h->counted_ms < now - PP_MI_HOUR_TTL_MS) {
            pp_list_remove(&c->hours, node);
            free(h);
        } else if (h->hour == hour) {
            found = h;
        }
    }
    return found;
}

/* Returns the counter of an hour, which may be new. NULL: out of memory. */
struct pp_mi_hour *pp_mi_hour_make(struct pp_mi_client *c, int64_t hour, int64_t now)
{
    struct pp_mi_hour *h = pp_mi_hour(c, hour, now);

    if (h || !(h = calloc(1, sizeof *h)))
        return h;
    h->hour = hour;
    h->counted_ms = now;
    pp_list_push(&c->hours, &h->node);
    return h;
}

/* --- rows --- */

struct pp_mi_row *pp_mi_find(struct pp_memory_ingest *s, const char *batch_id)
{
    struct pp_mi_row *row = NULL;

    HASH_FIND_STR(s->by_id, batch_id, row);
    return row;
}

size_t pp_mi_place(const struct pp_memory_ingest *s, const char *batch_id)
{
    size_t low = 0, high = s->n_sorted;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(s->sorted[mid]->batch_id, batch_id) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static uint64_t order_of(const struct pp_mi_row *row)
{
    return pp_mi_is_live(row->v.state) ? row->num : row->v.left;
}

static void into_list(struct pp_memory_ingest *s, struct pp_mi_row *row)
{
    struct pp_list *list = &s->rows[row->v.state];
    struct pp_node *before = list->head.prev;

    while (before != &list->head && order_of(pp_container_of(before, struct pp_mi_row, node)) > order_of(row))
        before = before->prev;
    pp_list_insert(list, before, &row->node);
}

static void into_client(struct pp_mi_row *row)
{
    struct pp_list *list = &row->client->live;
    struct pp_node *before = list->head.prev;

    while (before != &list->head && pp_container_of(before, struct pp_mi_row, in_client)->num > row->num)
        before = before->prev;
    pp_list_insert(list, before, &row->in_client);
}

void pp_mi_row_sort(struct pp_memory_ingest *s, struct pp_mi_row *row)
{
    size_t at = pp_mi_place(s, row->batch_id);

    pp_assert(s->n_sorted < s->room, "there is no room for a row that was there before");
    memmove(&s->sorted[at + 1], &s->sorted[at], (s->n_sorted - at) * sizeof(struct pp_mi_row *));
    s->sorted[at] = row;
    s->n_sorted++;
}

static void out_of_sorted(struct pp_memory_ingest *s, const struct pp_mi_row *row)
{
    size_t at = pp_mi_place(s, row->batch_id);

    pp_assert(at < s->n_sorted && s->sorted[at] == row, "a row is not where it belongs");
    s->n_sorted--;
    memmove(&s->sorted[at], &s->sorted[at + 1], (s->n_sorted - at) * sizeof(struct pp_mi_row *));
}

static void leave(struct pp_memory_ingest *s, struct pp_mi_row *row)
{
    pp_list_remove(&s->rows[row->v.state], &row->node);
    if (!pp_mi_is_live(row->v.state))
        return;
    const struct pp_ingest_entry *e = &row->body->e;
    pp_assert(s->entries > 0 && s->photos >= e->n_photos && s->bytes >= e->payload_n,
              "an entry has more than the queue has counted");
    pp_list_remove(&row->client->live, &row->in_client);
    s->entries--;
    s->photos -= e->n_photos;
    s->weight -= pp_ingest_weight(e);
    s->bytes -= e->payload_n;
}

void pp_mi_row_enter(struct pp_memory_ingest *s, struct pp_mi_row *row)
{
    into_list(s, row);
    if (!pp_mi_is_live(row->v.state))
        return;
    pp_assert(row->body, "an entry without its body comes back");
    const struct pp_ingest_entry *e = &row->body->e;
    into_client(row);
    s->entries++;
    s->photos += e->n_photos;
    s->weight += pp_ingest_weight(e);
    s->bytes += e->payload_n;
}

void pp_mi_row_set(struct pp_memory_ingest *s, struct pp_mi_row *row, const struct pp_mi_vary *v)
{
    bool was_there = row->v.state != PP_MI_DONE;

    leave(s, row);
    row->v = *v;
    pp_mi_row_enter(s, row);
    if (was_there && v->state == PP_MI_DONE)
        out_of_sorted(s, row);
    else if (!was_there && v->state != PP_MI_DONE)
        pp_mi_row_sort(s, row);
}

void pp_mi_row_free(struct pp_memory_ingest *s, struct pp_mi_row *row)
{
    leave(s, row);
    if (row->v.state != PP_MI_DONE)
        out_of_sorted(s, row);
    HASH_DEL(s->by_id, row);
    free(row->body);
    free(row);
}

/* --- planners that wait --- */

static void tell(struct pp_memory_ingest *s, struct pp_mi_listener *l, bool sure)
{
    pp_memory_ear_tell(&l->ear, s->options.carry, s->options.data, sure);
}

void pp_mi_wake(struct pp_memory_ingest *s)
{
    struct pp_node *node = pp_list_pop(&s->waiting);

    if (node)
        tell(s, pp_container_of(node, struct pp_mi_listener, waits), false);
}

void pp_mi_listen(struct pp_memory_ingest *s, uint64_t port_id)
{
    struct pp_mi_listener *l;

    HASH_FIND(hh, s->listeners, &port_id, sizeof port_id, l);
    if (l && l->watches && !l->waits.next)
        pp_list_push(&s->waiting, &l->waits);
}

void pp_mi_reconnect_all(struct pp_memory_ingest *s)
{
    struct pp_mi_listener *l, *next;

    while (pp_list_pop(&s->waiting))
        ;
    HASH_ITER (hh, s->listeners, l, next)
        tell(s, l, true);
}
