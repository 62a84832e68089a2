/* ingest_change.c: changes of the rows of the ingest queue in memory. Each change has an undo for a
 * while, so that the server can lose it again. */
#include "adapter/memory/ingest_data.h"

#include <stdlib.h>
#include <string.h>

/* --- changes, each with its undo --- */

static void push_undo(struct pp_memory_ingest *s, struct pp_mi_undo *u, enum pp_mi_change change)
{
    u->change = change;
    u->at_ms = pp_mi_now(s);
    pp_list_push(&s->undos, &u->node);
}

bool pp_mi_change(struct pp_memory_ingest *s, struct pp_mi_row *row, const struct pp_mi_vary *v)
{
    struct pp_mi_undo *u = calloc(1, sizeof *u);
    struct pp_mi_vary to = *v;

    pp_assert(row->v.state != PP_MI_DONE, "a row changes that is done");
    if (!u)
        return false;
    u->row = row;
    u->old = row->v;
    push_undo(s, u, PP_MI_CHANGED_ROW);
    if (!pp_mi_is_live(to.state) && to.state != row->v.state) {
        to.left = ++s->last_left;
        to.left_ms = u->at_ms;
    }
    pp_mi_row_set(s, row, &to);
    return true;
}

bool pp_mi_set_valid(struct pp_memory_ingest *s, int64_t valid_ms)
{
    struct pp_mi_undo *u = calloc(1, sizeof *u);

    if (!u)
        return false;
    u->valid_ms = s->valid_ms;
    push_undo(s, u, PP_MI_CLEANED);
    s->valid_ms = valid_ms;
    return true;
}

static struct pp_mi_body *new_body(const struct pp_ingest_append *r)
{
    size_t n = r->entry.payload_n, key_n = r->key ? strlen(r->key) + 1 : 0,
           label_n = r->entry.label ? strlen(r->entry.label) + 1 : 0;
    struct pp_mi_body *b = malloc(sizeof *b + n + key_n + label_n);

    if (!b)
        return NULL;
    b->e = r->entry;
    b->e.payload = b->bytes;
    b->key = r->key ? b->bytes + n : NULL;
    if (n > 0)
        memcpy(b->bytes, r->entry.payload, n);
    if (r->key)
        memcpy(b->bytes + n, r->key, key_n);
    if (r->entry.label)
        b->e.label = memcpy(b->bytes + n + key_n, r->entry.label, label_n);
    return b;
}

static struct pp_mi_key *new_key(const struct pp_ingest_append *r, struct pp_mi_client *c, int64_t now)
{
    size_t n = strlen(r->key) + 1;
    struct pp_mi_key *k = calloc(1, sizeof *k + n + r->answer_n);

    if (!k)
        return NULL;
    k->client = c;
    memcpy(k->body_hash, r->body_hash, sizeof k->body_hash);
    k->now_ms = pp_mi_call_of(&r->req)->ms;
    k->added_ms = now;
    memcpy(k->key, r->key, n);
    k->answer = k->key + n;
    k->answer_n = r->answer_n;
    if (r->answer_n > 0)
        memcpy(k->key + n, r->answer, r->answer_n);
    return k;
}

/* What an append adds. Until it is added, all of it can be freed. */
struct mi_new {
    struct pp_mi_row *row;
    struct pp_mi_key *key, *old_key;
    struct pp_mi_hour *hour;
    struct pp_mi_undo *undos[4];
};

static void free_new(struct mi_new *n)
{
    for (size_t i = 0; i < 4; i++)
        free(n->undos[i]);
    if (n->row)
        free(n->row->body);
    free(n->row);
    free(n->key);
}

/* Allocates what an append adds. Returns false when out of memory. */
static bool make_new(struct pp_memory_ingest *s, const struct pp_ingest_append *r, struct mi_new *n)
{
    size_t id_n = strlen(r->entry.batch_id) + 1;
    int64_t now = pp_mi_now(s);
    struct pp_mi_client *c = pp_mi_client(s, r->entry.client, true);
    struct pp_mi_row **sorted = pp_mi_grown(s->sorted, HASH_COUNT(s->by_id), &s->room);

    if (sorted)
        s->sorted = sorted;
    for (size_t i = 0; i < 4; i++)
        n->undos[i] = calloc(1, sizeof *n->undos[i]);
    n->row = calloc(1, sizeof *n->row + id_n);
    if (!c || !sorted || !n->row || !n->undos[0] || !n->undos[1] || !n->undos[2] || !n->undos[3])
        return false;
    n->row->client = c;
    n->row->v.cancelled = r->entry.cancelled;
    memcpy(n->row->batch_id, r->entry.batch_id, id_n);
    n->row->body = new_body(r);
    if (r->key) {
        n->key = new_key(r, c, now);
        n->hour = pp_mi_hour_make(c, n->key ? n->key->now_ms / PP_KEYS_HOUR_MS : 0, now);
    }
    if (!n->row->body || (r->key && (!n->key || !n->hour)))
        return false;
    n->row->body->e.batch_id = n->row->batch_id;
    n->row->body->e.client = c->name;
    return true;
}

/* Adds the record of a new entry. Returns false when out of memory. */
static bool add_key(struct pp_memory_ingest *s, struct mi_new *n)
{
    n->old_key = pp_mi_key_find(n->key->client, n->key->key);
    pp_assert(!n->old_key || n->old_key->now_ms < s->valid_ms, "a valid record is replaced");
    if (n->old_key)
        pp_mi_key_leave(s, n->old_key);
    n->key->num = s->last_num;
    if (!pp_mi_key_enter(s, n->key)) {
        free(n->old_key);
        return false;
    }
    if (n->old_key) {
        n->undos[0]->key = n->old_key;
        push_undo(s, n->undos[0], PP_MI_OLD_KEY);
        n->undos[0] = NULL;
    }
    n->undos[1]->key = n->key;
    push_undo(s, n->undos[1], PP_MI_NEW_KEY);
    n->hour->n++;
    n->hour->counted_ms = n->key->added_ms;
    n->undos[2]->hour = n->hour;
    push_undo(s, n->undos[2], PP_MI_COUNTED);
    n->undos[1] = n->undos[2] = NULL;
    n->key = NULL;
    return true;
}

enum pp_err pp_mi_add(struct pp_memory_ingest *s, const struct pp_ingest_append *r)
{
    struct mi_new n = {.row = NULL};
    bool ok = make_new(s, r, &n);

    if (ok) {
        n.row->num = ++s->last_num;
        ok = PP_HASH_ADD(s->by_id, n.row->batch_id, strlen(n.row->batch_id), n.row);
    }
    if (ok && r->key && !add_key(s, &n)) {
        HASH_DEL(s->by_id, n.row);
        ok = false;
    }
    if (ok) {
        pp_mi_row_enter(s, n.row);
        pp_mi_row_sort(s, n.row);
        n.undos[3]->row = n.row;
        push_undo(s, n.undos[3], PP_MI_NEW_ROW);
        n.row = NULL;
        n.undos[3] = NULL;
    }
    free_new(&n);
    return ok ? PP_OK : PP_ENOMEM;
}

bool pp_mi_add_done(struct pp_memory_ingest *s, const char *batch_id)
{
    size_t n = strlen(batch_id) + 1;
    struct pp_mi_undo *u = calloc(1, sizeof *u);
    struct pp_mi_row *row = calloc(1, sizeof *row + n);

    if (row)
        memcpy(row->batch_id, batch_id, n);
    if (!u || !row || !PP_HASH_ADD(s->by_id, row->batch_id, n - 1, row)) {
        free(u);
        free(row);
        return false;
    }
    u->row = row;
    push_undo(s, u, PP_MI_NEW_ROW);
    row->v = (struct pp_mi_vary){.state = PP_MI_DONE, .left = ++s->last_left, .left_ms = u->at_ms};
    pp_mi_row_enter(s, row);
    return true;
}

/* --- deleting what is old --- */

/* Frees an undo that can't be used any more. */
static void drop_undo(struct pp_memory_ingest *s, struct pp_mi_undo *u, int64_t before_ms)
{
    struct pp_mi_row *row = u->row;

    if (row && row->v.state == PP_MI_DONE && row->v.left_ms < before_ms) {
        free(row->body);
        row->body = NULL;
    }
    if (u->change == PP_MI_OLD_KEY)
        free(u->key);
    pp_list_remove(&s->undos, &u->node);
    free(u);
}

void pp_mi_tidy(struct pp_memory_ingest *s)
{
    int64_t now = pp_mi_now(s), before = now - PP_MEMORY_INGEST_BACK_MS;

    pp_list_each (node, &s->undos) {
        struct pp_mi_undo *u = pp_container_of(node, struct pp_mi_undo, node);
        if (u->at_ms >= before)
            break;
        drop_undo(s, u, before);
    }
    pp_list_each (node, &s->rows[PP_MI_DONE]) {
        struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, node);
        if (row->v.left_ms >= now - PP_MI_DONE_MS)
            break;
        pp_assert(!row->body, "a row is deleted that can still come back");
        pp_mi_row_free(s, row);
    }
    pp_list_each (node, &s->keys) {
        struct pp_mi_key *k = pp_container_of(node, struct pp_mi_key, node);
        if (k->added_ms >= now - s->key_ttl_ms)
            break;
        pp_mi_key_leave(s, k);
        free(k);
    }
}

/* --- losing data --- */

static void undo(struct pp_memory_ingest *s, struct pp_mi_undo *u)
{
    pp_list_remove(&s->undos, &u->node);
    switch (u->change) {
    case PP_MI_NEW_ROW: pp_mi_row_free(s, u->row); break;
    case PP_MI_CHANGED_ROW: pp_mi_row_set(s, u->row, &u->old); break;
    case PP_MI_NEW_KEY:
        pp_mi_key_leave(s, u->key);
        free(u->key);
        break;
    case PP_MI_OLD_KEY:
        if (!pp_mi_key_enter(s, u->key)) /* out of memory; the record is not valid anyway */
            free(u->key);
        break;
    case PP_MI_COUNTED:
        pp_assert(u->hour->n > 0, "more keys are undone than were counted");
        u->hour->n--;
        break;
    case PP_MI_CLEANED: s->valid_ms = u->valid_ms; break;
    }
    free(u);
}

void pp_mi_lose_all(struct pp_memory_ingest *s)
{
    struct pp_node *node;

    while (!pp_list_empty(&s->undos))
        drop_undo(s, pp_container_of(s->undos.head.next, struct pp_mi_undo, node), INT64_MIN);
    for (int i = 0; i < PP_MI_STATES; i++)
        while (!pp_list_empty(&s->rows[i]))
            pp_mi_row_free(s, pp_container_of(s->rows[i].head.next, struct pp_mi_row, node));
    while (!pp_list_empty(&s->keys)) {
        struct pp_mi_key *k = pp_container_of(s->keys.head.next, struct pp_mi_key, node);
        pp_mi_key_leave(s, k);
        free(k);
    }
    for (size_t i = 0; i < s->n_clients; i++)
        while ((node = pp_list_pop(&s->clients[i]->hours)))
            free(pp_container_of(node, struct pp_mi_hour, node));
    s->valid_ms = INT64_MIN;
    pp_assert(s->entries == 0 && s->weight == 0 && s->n_sorted == 0, "an entry is left");
}

void pp_mi_go_back(struct pp_memory_ingest *s, int64_t since_ms)
{
    pp_assert(since_ms >= pp_mi_now(s) - PP_MEMORY_INGEST_BACK_MS, "the server can't go back that far");
    while (!pp_list_empty(&s->undos)) {
        struct pp_mi_undo *u = pp_container_of(s->undos.head.prev, struct pp_mi_undo, node);
        if (u->at_ms <= since_ms)
            break;
        undo(s, u);
    }
}
