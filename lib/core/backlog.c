/* backlog.c: an index of clients with due tasks. `later` is a binary heap of clients by their
 * earliest due time; each client knows its place in the heap (as in beanstalkd), so any client can
 * be moved or removed. The heap always has room for every client, so memory is allocated only for a
 * new client. */
#include "core/backlog.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"

#define PP_BACKLOG_READY SIZE_MAX

struct entry {
    UT_hash_handle hh;
    int64_t due_ms[PP_QUEUES];
    int64_t first_ms;    /* the earliest due time of the client's queues */
    size_t place;        /* the client's index in the heap, or PP_BACKLOG_READY if it is in the ring */
    struct pp_node node; /* links the client into the ring `ready` */
    char client[];
};

struct pp_backlog {
    struct entry *clients;
    size_t max_clients;
    /* ring of clients with something due; pp_backlog_due() returns the first one next */
    struct pp_list ready;
    struct entry **heap;
    size_t n_heap, cap_heap;
};

/* --- later: the heap of clients whose tasks are due later --- */

static void heap_set(struct pp_backlog *b, size_t i, struct entry *e)
{
    b->heap[i] = e;
    e->place = i;
}

static void heap_up(struct pp_backlog *b, size_t i)
{
    struct entry *e = b->heap[i];
    for (; i > 0 && b->heap[(i - 1) / 2]->first_ms > e->first_ms; i = (i - 1) / 2)
        heap_set(b, i, b->heap[(i - 1) / 2]);
    heap_set(b, i, e);
}

static void heap_down(struct pp_backlog *b, size_t i)
{
    struct entry *e = b->heap[i];
    for (size_t child; (child = 2 * i + 1) < b->n_heap; i = child) {
        if (child + 1 < b->n_heap && b->heap[child + 1]->first_ms < b->heap[child]->first_ms)
            child++;
        if (b->heap[child]->first_ms >= e->first_ms)
            break;
        heap_set(b, i, b->heap[child]);
    }
    heap_set(b, i, e);
}

/* Moves a client to its place after its first_ms has changed. */
static void heap_move(struct pp_backlog *b, struct entry *e)
{
    heap_up(b, e->place);
    heap_down(b, e->place);
}

static void heap_add(struct pp_backlog *b, struct entry *e)
{
    pp_assert(b->n_heap < b->cap_heap, "a client has no place in the heap");
    heap_set(b, b->n_heap++, e);
    heap_up(b, e->place);
}

static void heap_remove(struct pp_backlog *b, struct entry *e)
{
    size_t i = e->place;
    struct entry *last = b->heap[--b->n_heap];
    if (last == e)
        return;
    heap_set(b, i, last);
    heap_move(b, last);
}

static bool heap_reserve(struct pp_backlog *b, size_t n)
{
    if (n <= b->cap_heap)
        return true;
    size_t cap = b->cap_heap ? b->cap_heap * 2 : 16;
    struct entry **heap = realloc(b->heap, cap * sizeof(struct entry *));
    if (!heap)
        return false;
    b->heap = heap;
    b->cap_heap = cap;
    return true;
}

/* --- ready: the ring of clients with due tasks --- */

static void ready_add(struct pp_backlog *b, struct entry *e)
{
    e->place = PP_BACKLOG_READY;
    pp_list_push(&b->ready, &e->node);
}

static void ready_remove(struct pp_backlog *b, struct entry *e)
{
    pp_assert(e->place == PP_BACKLOG_READY && b->ready.n > 0, "a client leaves a ring that it is not in");
    pp_list_remove(&b->ready, &e->node);
}

/* --- the clients of the index, a hash table --- */

static struct entry *find(const struct pp_backlog *b, const char *client)
{
    struct entry *e;
    HASH_FIND_STR(b->clients, client, e);
    return e;
}

static void forget(struct pp_backlog *b, struct entry *e)
{
    if (e->place == PP_BACKLOG_READY)
        ready_remove(b, e);
    else
        heap_remove(b, e);
    HASH_DEL(b->clients, e);
    free(e);
}

static enum pp_err add(struct pp_backlog *b, const char *client, struct entry **out)
{
    size_t n = strlen(client) + 1;
    if (HASH_COUNT(b->clients) >= b->max_clients)
        return PP_EFULL;
    if (!heap_reserve(b, HASH_COUNT(b->clients) + 1))
        return PP_ENOMEM;
    struct entry *e = calloc(1, sizeof *e + n);
    if (!e)
        return PP_ENOMEM;
    memcpy(e->client, client, n);
    if (!PP_HASH_ADD(b->clients, e->client, n - 1, e)) {
        free(e);
        return PP_ENOMEM;
    }
    for (size_t q = 0; q < PP_QUEUES; q++)
        e->due_ms[q] = PP_BACKLOG_NEVER;
    e->first_ms = PP_BACKLOG_NEVER;
    heap_add(b, e);
    *out = e;
    return PP_OK;
}

/* Sets the due time of one queue, and moves the client to its place. A client in the ring keeps its
 * turn, unless its earliest task is now due later; then the client waits in the heap until
 * pp_backlog_due() finds it due again. */
static void change(struct pp_backlog *b, struct entry *e, uint8_t queue, int64_t due_ms)
{
    int64_t was = e->first_ms, first = PP_BACKLOG_NEVER;
    e->due_ms[queue] = due_ms;
    for (size_t q = 0; q < PP_QUEUES; q++)
        if (e->due_ms[q] < first)
            first = e->due_ms[q];
    if (first == PP_BACKLOG_NEVER) {
        forget(b, e);
        return;
    }
    e->first_ms = first;
    if (e->place != PP_BACKLOG_READY) {
        heap_move(b, e);
    } else if (first > was) {
        ready_remove(b, e);
        heap_add(b, e);
    }
}

struct pp_backlog *pp_backlog_new(size_t max_clients)
{
    struct pp_backlog *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->max_clients = max_clients ? max_clients : 1;
    pp_list_init(&b->ready);
    return b;
}

void pp_backlog_free(struct pp_backlog *b)
{
    if (!b)
        return;
    struct entry *e, *tmp;
    HASH_ITER (hh, b->clients, e, tmp) {
        HASH_DEL(b->clients, e);
        free(e);
    }
    free(b->heap);
    free(b);
}

enum pp_err pp_backlog_put(struct pp_backlog *b, const char *client, uint8_t queue, int64_t due_ms)
{
    if (due_ms >= pp_backlog_get(b, client, queue))
        return PP_OK;
    return pp_backlog_set(b, client, queue, due_ms);
}

enum pp_err pp_backlog_set(struct pp_backlog *b, const char *client, uint8_t queue, int64_t due_ms)
{
    pp_assert(queue < PP_QUEUES, "no such queue");
    struct entry *e = find(b, client);
    if (!e) {
        if (due_ms == PP_BACKLOG_NEVER)
            return PP_OK;
        enum pp_err err = add(b, client, &e);
        if (err)
            return err;
    }
    change(b, e, queue, due_ms);
    return PP_OK;
}

void pp_backlog_remove(struct pp_backlog *b, const char *client, uint8_t queue)
{
    struct entry *e = find(b, client);
    if (e)
        change(b, e, queue, PP_BACKLOG_NEVER);
}

void pp_backlog_drop(struct pp_backlog *b, const char *client)
{
    struct entry *e = find(b, client);
    if (e)
        forget(b, e);
}

int64_t pp_backlog_get(const struct pp_backlog *b, const char *client, uint8_t queue)
{
    pp_assert(queue < PP_QUEUES, "no such queue");
    const struct entry *e = find(b, client);
    return e ? e->due_ms[queue] : PP_BACKLOG_NEVER;
}

static uint32_t queues_until(const struct entry *e, int64_t due_ms)
{
    uint32_t queues = 0;
    for (size_t q = 0; q < PP_QUEUES; q++)
        queues |= e->due_ms[q] <= due_ms ? 1u << q : 0;
    return queues;
}

uint32_t pp_backlog_queues(const struct pp_backlog *b, const char *client, int64_t due_ms)
{
    const struct entry *e = find(b, client);
    return e ? queues_until(e, due_ms) : 0;
}

size_t pp_backlog_due(struct pp_backlog *b, int64_t now_ms, uint32_t mask, struct pp_backlog_due *out,
                      size_t cap)
{
    while (b->n_heap > 0 && b->heap[0]->first_ms <= now_ms) {
        struct entry *e = b->heap[0];
        heap_remove(b, e);
        ready_add(b, e);
    }
    size_t n = 0, left = b->ready.n;
    pp_list_each (node, &b->ready) {
        struct entry *e = pp_container_of(node, struct entry, node);
        if (n == cap || left-- == 0)
            break;
        uint32_t queues = queues_until(e, now_ms) & mask;
        if (queues) {
            out[n++] = (struct pp_backlog_due){e->client, queues};
            ready_remove(b, e);
            ready_add(b, e);
        }
    }
    return n;
}

int64_t pp_backlog_next_ms(const struct pp_backlog *b, int64_t now_ms)
{
    if (b->ready.n > 0)
        return now_ms;
    if (b->n_heap == 0)
        return PP_BACKLOG_NEVER;
    return b->heap[0]->first_ms > now_ms ? b->heap[0]->first_ms : now_ms;
}
