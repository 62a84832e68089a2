/* journal_entry.c: the journal's entries in memory, and the operations that send requests to the
 * shared queue (inner) and the local log (own). */
#include <stdlib.h>
#include <string.h>

#include "adapter/journal/journal_internal.h"

/* --- operations --- */

struct jq_op *jq_op_new(struct jq *q, size_t size, struct pp_req *r, enum pp_err *err)
{
    *err = q->closing ? PP_ECLOSED : PP_ENOMEM;
    struct jq_op *op = q->closing ? NULL : calloc(1, size);
    if (!op)
        return NULL;
    *err = PP_OK;
    op->q = q;
    op->r = r;
    pp_arena_init(&op->arena, 0);
    q->in_flight++;
    return op;
}

/* Ends an operation. Frees a closing queue on a later turn of the loop, because a wrapped queue
 * can't be closed from within its callback. */
static void leave(struct jq *q)
{
    pp_assert(q->in_flight > 0, "more operations end than began");
    q->in_flight--;
    if (q->closing && q->in_flight == 0)
        pp_timer_start(q->timer, 0, 0);
}

void jq_drop(struct jq_op *op)
{
    struct jq *q = op->q;
    pp_arena_fini(&op->arena);
    free(op);
    leave(q);
}

void jq_end(struct jq_op *op, enum pp_err err)
{
    struct pp_req *r = op->r;
    struct jq *q = op->q;
    pp_arena_fini(&op->arena);
    free(op);
    if (r)
        pp_req_end(r, err);
    leave(q);
}

enum pp_err jq_send(struct jq_op *op, struct pp_ingest_queue *to, enum jq_what what,
                    void (*done)(struct pp_req *req))
{
    op->sub.req = (struct pp_req){.done = done, .data = op, .arena = op->r ? op->r->arena : &op->arena};
    switch (what) {
#define X(name, type) \
    case JQ_##name: return to->ops->name(to, &op->sub.name);
        PP_INGEST_OPS(X)
        X(read, pp_ingest_read)
#undef X
    }
    return PP_EINVAL;
}

void jq_go_on(struct jq_op *op, enum pp_err sent)
{
    if (sent != PP_OK)
        pp_req_end(&op->sub.req, sent);
}

bool jq_failed(enum pp_err err)
{
    return err == PP_EIO || err == PP_ENOSPC || err == PP_ETIMEOUT || err == PP_EUNKNOWN;
}

bool jq_is_other(const struct pp_ingest_append *r, const char *answer, size_t n)
{
    return answer && (n != r->answer_n || memcmp(answer, r->answer, n) != 0);
}

/* --- entries --- */

struct jq_entry *jq_entry_new(const struct pp_ingest_entry *from)
{
    size_t id_n = strlen(from->batch_id) + 1, client_n = strlen(from->client) + 1,
           label_n = from->label ? strlen(from->label) + 1 : 0;
    struct jq_entry *e = calloc(1, sizeof *e + id_n + client_n + label_n);
    if (!e)
        return NULL;
    memcpy(e->batch_id, from->batch_id, id_n);
    memcpy(e->batch_id + id_n, from->client, client_n);
    e->e = *from;
    e->e.batch_id = e->batch_id;
    e->e.client = e->batch_id + id_n;
    if (from->label)
        e->e.label = memcpy(e->batch_id + id_n + client_n, from->label, label_n);
    e->e.payload = NULL;
    e->e.payload_n = 0;
    return e;
}

static struct jq_client *find_client(struct jq *q, const char *id)
{
    struct jq_client *c;
    HASH_FIND_STR(q->clients, id, c);
    return c;
}

struct jq_entry *jq_find(struct jq *q, const char *batch_id)
{
    struct jq_entry *e;
    HASH_FIND_STR(q->entries, batch_id, e);
    return e;
}

bool jq_client_waits(struct jq *q, const char *client)
{
    const struct jq_client *c = find_client(q, client);
    return c && c->waiting > 0;
}

static void leave_list(struct jq_entry *e)
{
    if (!e->list)
        return;
    pp_assert(e->state == JQ_SURE || e->client->waiting > 0,
              "a client has fewer waiting entries than it lists");
    pp_list_remove(e->list, &e->node);
    e->client->waiting -= e->state != JQ_SURE;
    e->list = NULL;
}

/* Inserts the entry by order of acceptance. Nearly always its place is the end of the list. */
static void insert(struct pp_list *l, struct jq_entry *e)
{
    struct pp_node *after = l->head.prev;
    while (after != &l->head && pp_container_of(after, struct jq_entry, node)->num > e->num)
        after = after->prev;
    e->node.prev = after;
    e->node.next = after->next;
    after->next->prev = &e->node;
    after->next = &e->node;
    l->n++;
}

void jq_entry_set(struct jq *q, struct jq_entry *e, enum jq_state state)
{
    leave_list(e);
    e->state = state;
    if (state != JQ_SURE) {
        e->client->waiting++;
        e->level = 0;
        e->list = &q->open;
        insert(e->list, e);
    } else {
        pp_assert(e->level < JQ_LEVELS, "an entry has no level");
        e->due_ms = pp_loop_now(q->loop) + (q->check_ms << e->level);
        e->list = &q->sure[e->level];
        pp_list_push(e->list, &e->node);
    }
}

/* Returns the client, adding it if needed. Returns NULL if the name is too long or when out of
 * memory. */
static struct jq_client *get_client(struct jq *q, const char *id)
{
    struct jq_client *c = find_client(q, id);
    size_t n = strlen(id);
    if (c)
        return c;
    c = n < sizeof c->id ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    memcpy(c->id, id, n + 1);
    if (PP_HASH_ADD(q->clients, c->id, n, c))
        return c;
    free(c);
    return NULL;
}

static void drop_unused_client(struct jq *q, struct jq_client *c)
{
    if (c->entries > 0)
        return;
    pp_assert(c->waiting == 0, "a client without entries waits");
    HASH_DEL(q->clients, c);
    free(c);
}

bool jq_entry_add(struct jq *q, struct jq_entry *e, enum jq_state state)
{
    struct jq_client *c = get_client(q, e->e.client);
    pp_assert(!jq_find(q, e->batch_id) && !e->list, "an entry is added twice");
    if (!c)
        return false;
    if (!PP_HASH_ADD(q->entries, e->batch_id, strlen(e->batch_id), e)) {
        drop_unused_client(q, c);
        return false;
    }
    c->entries++;
    e->client = c;
    e->num = q->next_num++;
    jq_entry_set(q, e, state);
    return true;
}

void jq_entry_later(struct jq *q, struct jq_entry *e)
{
    e->level += e->state == JQ_SURE && e->level + 1 < JQ_LEVELS;
    jq_entry_set(q, e, JQ_SURE);
}

/* The hash lists entries in order of acceptance, so each entry goes to the end of `open`, and its
 * place need not be searched. */
void jq_entries_doubt(struct jq *q)
{
    struct jq_entry *e, *next;
    HASH_ITER (hh, q->entries, e, next) {
        leave_list(e);
        if (e->state == JQ_SURE)
            e->state = JQ_DOUBTFUL;
        e->client->waiting++;
        pp_assert(e->client->waiting <= e->client->entries, "a client waits for more entries than it has");
        e->list = &q->open;
        pp_list_push(e->list, &e->node);
    }
}

void jq_entry_remove(struct jq *q, struct jq_entry *e)
{
    struct jq_client *c = e->client;
    leave_list(e);
    HASH_DEL(q->entries, e);
    free(e);
    c->entries--;
    drop_unused_client(q, c);
}

enum pp_err jq_entry_copy(struct pp_arena *a, const struct jq_entry *e, struct pp_ingest_entry *out)
{
    *out = e->e;
    out->batch_id = pp_arena_strdup(a, e->e.batch_id);
    out->client = pp_arena_strdup(a, e->e.client);
    out->label = e->e.label ? pp_arena_strdup(a, e->e.label) : NULL;
    return out->batch_id && out->client && (out->label || !e->e.label) ? PP_OK : PP_ENOMEM;
}
