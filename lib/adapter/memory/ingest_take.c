/* ingest_take.c: a planner takes entries from the ingest queue in memory.
 *
 * First the planner gets entries that are taken already: by itself, if an answer was lost; by
 * silent planners. Then it gets new ones: the oldest first or, if it skips clients, the oldest of
 * each other client in turn. It never gets an entry of a client of which another planner has one
 * that is not silent. */
#include "adapter/memory/ingest_data.h"

#include <string.h>

struct mi_take {
    struct pp_memory_ingest *s;
    struct pp_ingest_take *r;
    const struct pp_mi_planner *me;
    int64_t now;
    size_t limit, bytes;
    bool full;
    enum pp_err err;
};

static bool is_silent(const struct mi_take *t, const struct pp_mi_row *row)
{
    return t->now - row->v.alive_ms >= t->s->silence_ms;
}

/* Returns true if the planner may have entries of the client. `again`: entries that are taken
 * already; then a silent planner does not count. */
static bool is_free(const struct mi_take *t, const struct pp_mi_client *c, bool again)
{
    pp_list_each (node, &c->live) {
        const struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, in_client);
        if (row->v.state == PP_MI_TAKEN && row->v.planner != t->me && (!again || !is_silent(t, row)))
            return false;
    }
    return true;
}

/* Returns the same for new entries. Asks only once in a take. */
static bool is_free_now(const struct mi_take *t, struct pp_mi_client *c)
{
    if (c->asked != t->s->takes) {
        c->asked = t->s->takes;
        c->free = is_free(t, c, false);
    }
    return c->free;
}

static bool is_skipped(const struct mi_take *t, const struct pp_mi_client *c)
{
    return t->r->n_skip > 0 && c->skipped == t->s->takes;
}

/* Returns false, also for all entries after this one, if the take is full. */
static bool fits(struct mi_take *t, const struct pp_mi_row *row)
{
    size_t max = t->r->max_bytes, n = row->body->e.payload_n;

    t->full = t->full || t->r->n >= t->limit || t->err != PP_OK ||
              (t->r->n > 0 && (t->bytes >= max || n > max - t->bytes));
    return !t->full;
}

static void give(struct mi_take *t, struct pp_mi_row *row)
{
    struct pp_ingest_take *r = t->r;
    struct pp_mi_vary v = row->v;

    v.state = PP_MI_TAKEN;
    v.planner = t->me;
    v.alive_ms = t->now;
    v.deliveries++;
    t->err = pp_mi_copy_entry(r->req.arena, row, true, &r->entries[r->n]);
    if (t->err == PP_OK && !pp_mi_change(t->s, row, &v))
        t->err = PP_ENOMEM;
    if (t->err != PP_OK)
        return;
    t->bytes += row->body->e.payload_n;
    pp_mi_call_of(&r->req)->nums[r->n] = row->num;
    r->entries[r->n].deliveries = v.deliveries;
    r->n++;
    if (r->n_skip > 0)
        row->client->skipped = t->s->takes;
}

/* --- entries that are taken already --- */

static bool is_in_hand(const struct pp_ingest_take *r, uint64_t num)
{
    const struct pp_mi_call *call = pp_mi_call_of(&r->req);

    for (size_t i = 0; i < call->n_hand; i++)
        if (call->hand[i] == num)
            return true;
    return false;
}

/* Takes entries of this planner that it does not know of, or (`mine` false) of silent planners. */
static void take_again(struct mi_take *t, bool mine)
{
    /* A row that the loop takes keeps its place in the list, because that has the order of num. */
    for (struct pp_node *node = t->s->rows[PP_MI_TAKEN].head.next, *next;
         node != &t->s->rows[PP_MI_TAKEN].head && !t->full; node = next) {
        struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, node);
        next = node->next;
        bool wanted =
            row->v.planner == t->me ? mine && !is_in_hand(t->r, row->num) : !mine && is_silent(t, row);
        if (wanted && !is_skipped(t, row->client) && is_free(t, row->client, true) && fits(t, row))
            give(t, row);
    }
}

/* --- new entries --- */

static void take_oldest(struct mi_take *t)
{
    pp_list_each (node, &t->s->rows[PP_MI_WAITING]) {
        struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, node);
        if (!is_free_now(t, row->client))
            continue;
        if (!fits(t, row))
            return;
        give(t, row);
    }
}

static struct pp_mi_row *first_waiting(const struct pp_mi_client *c)
{
    pp_list_each (node, &c->live) {
        struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, in_client);
        if (row->v.state == PP_MI_WAITING)
            return row;
    }
    return NULL;
}

/* Goes once around all clients, beginning after the client of the last turn. */
static void take_in_turn(struct mi_take *t)
{
    struct pp_memory_ingest *s = t->s;
    size_t from = pp_mi_client_after(s, pp_mi_call_of(&t->r->req)->turn);

    for (size_t i = 0; i < s->n_clients; i++) {
        struct pp_mi_client *c = s->clients[(from + i) % s->n_clients];
        struct pp_mi_row *row = is_skipped(t, c) ? NULL : first_waiting(c);
        if (!row || !is_free_now(t, c))
            continue;
        if (!fits(t, row))
            return;
        give(t, row);
    }
}

/* --- the take --- */

static void note_skipped(struct pp_memory_ingest *s, const struct pp_ingest_take *r)
{
    for (size_t i = 0; i < r->n_skip; i++) {
        struct pp_mi_client *c = pp_mi_client(s, r->skip[i], false);
        if (c)
            c->skipped = s->takes;
    }
}

/* Returns the time until another planner is silent, at least 1 ms; -1: no other has an entry. */
static int64_t until_silent(const struct mi_take *t)
{
    int64_t soonest = -1;

    pp_list_each (node, &t->s->rows[PP_MI_TAKEN]) {
        const struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, node);
        int64_t left = row->v.alive_ms + t->s->silence_ms - t->now;
        if (row->v.planner != t->me && (soonest < 0 || left < soonest))
            soonest = left > 1 ? left : 1;
    }
    return soonest;
}

enum pp_err pp_mi_run_take(struct pp_memory_ingest *s, struct pp_ingest_take *r)
{
    struct pp_mi_call *call = pp_mi_call_of(&r->req);
    struct mi_take t = {.s = s, .r = r, .me = pp_mi_planner(s, r->consumer), .now = pp_mi_now(s)};

    t.limit = r->limit < PP_MI_TAKE_MAX ? r->limit : PP_MI_TAKE_MAX;
    t.limit = t.limit < s->entries ? t.limit : (size_t)s->entries;
    r->n = 0;
    r->entries = pp_arena_array(r->req.arena, t.limit, sizeof *r->entries);
    call->nums = pp_arena_array(r->req.arena, t.limit, sizeof *call->nums);
    call->ms = -1;
    if (!t.me || !r->entries || !call->nums)
        return PP_ENOMEM;
    s->takes++;
    note_skipped(s, r);
    take_again(&t, true);
    take_again(&t, false);
    if (r->n_skip > 0)
        take_in_turn(&t);
    else
        take_oldest(&t);
    if (t.err != PP_OK)
        return t.err;
    if (r->n == 0 && r->limit > 0) {
        call->ms = until_silent(&t);
        pp_mi_listen(s, call->port_id);
    }
    return PP_OK;
}

bool pp_mi_copy_take(struct pp_ingest_take *r, struct pp_arena *a)
{
    struct pp_mi_call *call = pp_mi_call_of(&r->req);
    const char **skip = pp_arena_array(a, r->n_skip, sizeof *skip);
    uint64_t *hand = pp_arena_array(a, call->n_hand, sizeof *hand);

    r->consumer = pp_arena_strdup(a, r->consumer);
    call->turn = pp_arena_strdup(a, call->turn);
    for (size_t i = 0; skip && i < r->n_skip; i++)
        if (!(skip[i] = pp_arena_strdup(a, r->skip[i])))
            return false;
    if (hand && call->n_hand > 0)
        memcpy(hand, call->hand, call->n_hand * sizeof *hand);
    r->skip = skip;
    call->hand = hand;
    return skip && hand && r->consumer && call->turn;
}
