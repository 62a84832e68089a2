/* ingest_run.c: the operations of the ingest queue in memory, except take. */
#include "adapter/memory/ingest_data.h"

#include <stdio.h>
#include <string.h>

enum pp_err pp_mi_copy_entry(struct pp_arena *a, const struct pp_mi_row *row, bool payload,
                             struct pp_ingest_entry *out)
{
    const struct pp_ingest_entry *e = &row->body->e;

    *out = *e;
    out->batch_id = pp_arena_strdup(a, row->batch_id);
    out->client = pp_arena_strdup(a, e->client);
    out->label = e->label ? pp_arena_strdup(a, e->label) : NULL;
    out->payload = payload ? pp_arena_copy(a, e->payload, e->payload_n) : NULL;
    out->payload_n = payload ? e->payload_n : 0;
    out->cancelled = row->v.cancelled;
    out->given_up = row->v.given_up;
    out->deliveries = row->v.deliveries;
    bool ok = out->batch_id && out->client && (out->label || !e->label) && (out->payload || !payload);
    return ok ? PP_OK : PP_ENOMEM;
}

/* Returns the row of an entry, which is not acked; NULL: there is none. */
static struct pp_mi_row *entry_of(struct pp_memory_ingest *s, const char *batch_id)
{
    struct pp_mi_row *row = pp_mi_find(s, batch_id);

    pp_assert(!row || row->body || row->v.state == PP_MI_DONE, "an entry has no body");
    return row && row->v.state != PP_MI_DONE ? row : NULL;
}

/* --- append --- */

static enum pp_err check_key(struct pp_memory_ingest *s, struct pp_ingest_append *r)
{
    const struct pp_mi_key *k = r->key ? pp_mi_key(s, r->entry.client, r->key) : NULL;

    if (!k)
        return PP_OK;
    if (memcmp(k->body_hash, r->body_hash, sizeof k->body_hash) != 0)
        return PP_EMISMATCH;
    r->old_answer = pp_arena_copy(r->req.arena, k->answer, k->answer_n);
    r->old_answer_n = r->old_answer ? k->answer_n : 0;
    return r->old_answer ? PP_EEXISTS : PP_ENOMEM;
}

static bool has_all_keys(struct pp_memory_ingest *s, const struct pp_ingest_append *r)
{
    struct pp_mi_client *c = r->key && r->max_keys ? pp_mi_client(s, r->entry.client, false) : NULL;
    const struct pp_mi_hour *h =
        c ? pp_mi_hour(c, pp_mi_call_of(&r->req)->ms / PP_KEYS_HOUR_MS, pp_mi_now(s)) : NULL;

    return h && h->n >= r->max_keys;
}

enum pp_err pp_mi_run_append(struct pp_memory_ingest *s, struct pp_ingest_append *r)
{
    r->old_answer = NULL;
    r->old_answer_n = 0;
    enum pp_err err = check_key(s, r);
    if (err != PP_OK)
        return err;
    if (pp_mi_find(s, r->entry.batch_id))
        return PP_EEXISTS;
    if (r->only_key)
        return PP_OK;
    if ((r->high_water && s->weight >= r->high_water) || (r->max_bytes && s->bytes >= r->max_bytes))
        return PP_EFULL;
    if (has_all_keys(s, r))
        return PP_EBUSY;
    err = pp_mi_add(s, r);
    if (err == PP_OK)
        pp_mi_wake(s);
    return err;
}

bool pp_mi_copy_append(struct pp_ingest_append *r, struct pp_arena *a)
{
    struct pp_ingest_entry *e = &r->entry;

    e->batch_id = pp_arena_strdup(a, e->batch_id);
    e->client = pp_arena_strdup(a, e->client);
    bool no_label = !e->label;
    e->label = no_label ? NULL : pp_arena_strdup(a, e->label);
    e->payload = pp_arena_copy(a, e->payload ? e->payload : "", e->payload_n);
    r->answer = pp_arena_copy(a, r->answer ? r->answer : "", r->answer_n);
    bool no_key = !r->key;
    r->key = no_key ? NULL : pp_arena_strdup(a, r->key);
    return e->batch_id && e->client && (no_label || e->label) && e->payload && r->answer &&
           (no_key || r->key);
}

/* --- ack, poison, put back, cancel --- */

/* Wakes a planner if it may take the client's next entry, now that one has left. */
static void wake_for(struct pp_memory_ingest *s, const struct pp_mi_client *c)
{
    bool waits = false, taken = false;

    pp_list_each (node, &c->live) {
        const struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, in_client);
        waits |= row->v.state == PP_MI_WAITING;
        taken |= row->v.state == PP_MI_TAKEN;
    }
    if (waits && !taken)
        pp_mi_wake(s);
}

/* Changes the row to `v`, of which the caller has set what is new, in the state `to`. */
static bool take_out_as(struct pp_memory_ingest *s, struct pp_mi_row *row, struct pp_mi_vary *v,
                        enum pp_mi_state to)
{
    v->state = to;
    v->planner = NULL;
    if (!pp_mi_change(s, row, v))
        return false;
    wake_for(s, row->client);
    return true;
}

static bool take_out(struct pp_memory_ingest *s, struct pp_mi_row *row, enum pp_mi_state to)
{
    struct pp_mi_vary v = row->v;

    return take_out_as(s, row, &v, to);
}

/* Remembers also ids that are not there: the server may have lost the entry while the planner
 * planned it, and a journal must not append it again. */
enum pp_err pp_mi_run_ack(struct pp_memory_ingest *s, struct pp_ingest_ack *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_mi_row *row = pp_mi_find(s, r->batch_ids[i]);
        bool ok = true;
        if (!row)
            ok = pp_mi_add_done(s, r->batch_ids[i]);
        else if (row->v.state != PP_MI_DONE)
            ok = take_out(s, row, PP_MI_DONE);
        if (!ok)
            return PP_ENOMEM;
    }
    return PP_OK;
}

bool pp_mi_copy_ack(struct pp_ingest_ack *r, struct pp_arena *a)
{
    const char **ids = pp_arena_array(a, r->n, sizeof *ids);

    for (size_t i = 0; ids && i < r->n; i++)
        if (!(ids[i] = pp_arena_strdup(a, r->batch_ids[i])))
            return false;
    r->batch_ids = ids;
    return ids;
}

enum pp_err pp_mi_run_poison(struct pp_memory_ingest *s, struct pp_ingest_poison *r)
{
    struct pp_mi_row *row = entry_of(s, r->batch_id);
    struct pp_list *aside = &s->rows[PP_MI_ASIDE];

    if (!row)
        return PP_ENOTFOUND;
    if (row->v.state == PP_MI_ASIDE)
        return PP_OK;
    struct pp_mi_vary v = row->v;
    v.aside_date_ms = r->date_ms;
    snprintf(v.reason, sizeof(v.reason), "%s", r->reason);
    if (!take_out_as(s, row, &v, PP_MI_ASIDE))
        return PP_ENOMEM;
    while (aside->n > PP_MI_ASIDE_MAX)
        if (!take_out(s, pp_container_of(aside->head.next, struct pp_mi_row, node), PP_MI_DONE))
            return PP_ENOMEM;
    return PP_OK;
}

bool pp_mi_copy_poison(struct pp_ingest_poison *r, struct pp_arena *a)
{
    r->batch_id = pp_arena_strdup(a, r->batch_id);
    r->reason = pp_arena_strdup(a, r->reason ? r->reason : "");
    return r->batch_id && r->reason;
}

enum pp_err pp_mi_run_put_back(struct pp_memory_ingest *s, struct pp_ingest_put_back *r)
{
    struct pp_mi_row *row = entry_of(s, r->batch_id);

    if (!row || row->v.state != PP_MI_ASIDE)
        return PP_ENOTFOUND;
    struct pp_mi_vary v = {.state = PP_MI_WAITING, .cancelled = row->v.cancelled, .given_up = r->give_up};
    if (!pp_mi_change(s, row, &v))
        return PP_ENOMEM;
    pp_mi_wake(s);
    return PP_OK;
}

bool pp_mi_copy_put_back(struct pp_ingest_put_back *r, struct pp_arena *a)
{
    r->batch_id = pp_arena_strdup(a, r->batch_id);
    return r->batch_id;
}

enum pp_err pp_mi_run_cancel(struct pp_memory_ingest *s, struct pp_ingest_cancel *r)
{
    struct pp_mi_row *row = entry_of(s, r->batch_id);

    if (!row)
        return PP_ENOTFOUND;
    struct pp_mi_vary v = row->v;
    v.cancelled = true;
    return pp_mi_change(s, row, &v) ? PP_OK : PP_ENOMEM;
}

bool pp_mi_copy_cancel(struct pp_ingest_cancel *r, struct pp_arena *a)
{
    r->batch_id = pp_arena_strdup(a, r->batch_id);
    return r->batch_id;
}

/* --- clean --- */

enum pp_err pp_mi_run_clean(struct pp_memory_ingest *s, struct pp_ingest_clean *r)
{
    int64_t before = pp_mi_call_of(&r->req)->ms;

    return before == s->valid_ms || pp_mi_set_valid(s, before) ? PP_OK : PP_ENOMEM;
}

bool pp_mi_copy_clean(struct pp_ingest_clean *r, struct pp_arena *a)
{
    (void)r, (void)a;
    return true;
}

/* --- heartbeats, and giving back --- */

static struct pp_mi_row *held(struct pp_memory_ingest *s, const char *planner, uint64_t num)
{
    pp_list_each (node, &s->rows[PP_MI_TAKEN]) {
        struct pp_mi_row *row = pp_container_of(node, struct pp_mi_row, node);
        if (row->num == num)
            return strcmp(row->v.planner->name, planner) == 0 ? row : NULL;
    }
    return NULL;
}

/* A heartbeat needs no undo: after a loss, the planner only counts as silent a little sooner. */
enum pp_err pp_mi_run_refresh(struct pp_memory_ingest *s, struct pp_mi_hold *r)
{
    r->n_gone = 0;
    r->gone = pp_arena_array(r->req.arena, r->n, sizeof *r->gone);
    if (!r->gone)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        struct pp_mi_row *row = held(s, r->consumer, r->nums[i]);
        if (row)
            row->v.alive_ms = pp_mi_now(s);
        else
            r->gone[r->n_gone++] = r->nums[i];
    }
    return PP_OK;
}

enum pp_err pp_mi_run_back(struct pp_memory_ingest *s, struct pp_mi_hold *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_mi_row *row = held(s, r->consumer, r->nums[i]);
        if (!row)
            continue;
        struct pp_mi_vary v = row->v;
        v.state = PP_MI_WAITING;
        v.planner = NULL;
        pp_assert(v.deliveries > 0, "an entry is taken that was never delivered");
        v.deliveries--; /* it counts planners that the entry may have killed */
        if (!pp_mi_change(s, row, &v))
            return PP_ENOMEM;
        pp_mi_wake(s);
    }
    return PP_OK;
}

static bool copy_hold(struct pp_mi_hold *r, struct pp_arena *a)
{
    uint64_t *nums = pp_arena_array(a, r->n, sizeof *nums);

    if (nums && r->n > 0)
        memcpy(nums, r->nums, r->n * sizeof *nums);
    r->consumer = pp_arena_strdup(a, r->consumer);
    r->nums = nums;
    return nums && r->consumer;
}

bool pp_mi_copy_refresh(struct pp_mi_hold *r, struct pp_arena *a)
{
    return copy_hold(r, a);
}

bool pp_mi_copy_back(struct pp_mi_hold *r, struct pp_arena *a)
{
    return copy_hold(r, a);
}

/* --- reading --- */

enum pp_err pp_mi_run_get(struct pp_memory_ingest *s, struct pp_ingest_get *r)
{
    const struct pp_mi_row *row = entry_of(s, r->batch_id);

    if (!row || (r->client && strcmp(r->client, row->client->name) != 0))
        return PP_ENOTFOUND;
    return pp_mi_copy_entry(r->req.arena, row, false, &r->entry);
}

enum pp_err pp_mi_run_list(struct pp_memory_ingest *s, struct pp_ingest_list *r)
{
    size_t i = r->after ? pp_mi_place(s, r->after) : s->n_sorted;
    size_t most = r->limit < i ? r->limit : i;

    r->n = 0;
    r->more = false;
    r->entries = pp_arena_array(r->req.arena, most, sizeof *r->entries);
    if (!r->entries)
        return PP_ENOMEM;
    while (i-- > 0) {
        const struct pp_mi_row *row = s->sorted[i];
        if (r->client && strcmp(r->client, row->client->name) != 0)
            continue;
        if (r->n == most) {
            r->more = true;
            break;
        }
        enum pp_err err = pp_mi_copy_entry(r->req.arena, row, false, &r->entries[r->n++]);
        if (err != PP_OK)
            return err;
    }
    return PP_OK;
}

enum pp_err pp_mi_run_list_aside(struct pp_memory_ingest *s, struct pp_ingest_list_aside *r)
{
    size_t i = r->after ? pp_mi_place(s, r->after) : s->n_sorted, aside = s->rows[PP_MI_ASIDE].n;
    size_t most = r->limit < aside ? r->limit : aside;
    struct pp_arena *a = r->req.arena;

    r->n = 0;
    r->more = false;
    r->entries = pp_arena_array(a, most, sizeof *r->entries);
    if (!r->entries)
        return PP_ENOMEM;
    while (i-- > 0) {
        const struct pp_mi_row *row = s->sorted[i];
        if (row->v.state != PP_MI_ASIDE)
            continue;
        if (r->n == most) {
            r->more = true;
            break;
        }
        struct pp_ingest_aside *to = &r->entries[r->n++];
        to->since_ms = row->v.aside_date_ms;
        to->reason = pp_arena_strdup(a, row->v.reason);
        if (!to->reason || pp_mi_copy_entry(a, row, false, &to->entry) != PP_OK)
            return PP_ENOMEM;
    }
    return PP_OK;
}

enum pp_err pp_mi_run_stats(struct pp_memory_ingest *s, struct pp_ingest_stats *r)
{
    const struct pp_mi_row *oldest = NULL;

    for (int state = PP_MI_WAITING; state <= PP_MI_TAKEN; state++) {
        if (pp_list_empty(&s->rows[state]))
            continue;
        const struct pp_mi_row *row = pp_container_of(s->rows[state].head.next, struct pp_mi_row, node);
        if (!oldest || row->num < oldest->num)
            oldest = row;
    }
    pp_assert((oldest == NULL) == (s->entries == 0), "the number of entries is wrong");
    r->entries = s->entries;
    r->photos = s->photos;
    r->poisoned = s->rows[PP_MI_ASIDE].n;
    r->oldest_ms = oldest ? oldest->body->e.created_at : 0;
    return PP_OK;
}

enum pp_err pp_mi_run_check(struct pp_memory_ingest *s, struct pp_ingest_check *r)
{
    r->states = pp_arena_array(r->req.arena, r->n, sizeof *r->states);
    if (!r->states)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_mi_row *row = pp_mi_find(s, r->batch_ids[i]);
        bool live = row && pp_mi_is_live(row->v.state);
        r->states[i] = !row ? PP_INGEST_UNKNOWN : live ? PP_INGEST_WAITING : PP_INGEST_PLANNED;
    }
    return PP_OK;
}

enum pp_err pp_mi_run_read(struct pp_memory_ingest *s, struct pp_ingest_read *r)
{
    const struct pp_mi_row *row = entry_of(s, r->batch_id);
    struct pp_ingest_append *out = &r->append;
    struct pp_arena *a = r->req.arena;

    *out = (struct pp_ingest_append){.key = NULL};
    if (!row)
        return PP_ENOTFOUND;
    enum pp_err err = pp_mi_copy_entry(a, row, true, &out->entry);
    const struct pp_mi_key *k = row->body->key ? pp_mi_key(s, row->client->name, row->body->key) : NULL;
    if (err != PP_OK || !k || k->num != row->num) /* no key, or its record was cleaned */
        return err;
    memcpy(out->body_hash, k->body_hash, sizeof out->body_hash);
    out->key = pp_arena_strdup(a, k->key);
    out->answer = pp_arena_copy(a, k->answer, k->answer_n);
    out->answer_n = k->answer_n;
    out->now_ms = k->now_ms;
    return out->key && out->answer ? PP_OK : PP_ENOMEM;
}

static void show(const struct pp_mi_row *row, void (*cb)(void *data, const struct pp_memory_ingest_row *row),
                 void *data)
{
    struct pp_ingest_entry e = row->body->e;

    e.cancelled = row->v.cancelled;
    e.given_up = row->v.given_up;
    e.deliveries = row->v.deliveries;
    cb(data, &(struct pp_memory_ingest_row){.entry = &e,
                                            .planner = row->v.planner ? row->v.planner->name : NULL,
                                            .aside = row->v.state == PP_MI_ASIDE});
}

void pp_memory_ingest_each(const struct pp_memory_ingest *s,
                           void (*cb)(void *data, const struct pp_memory_ingest_row *row), void *data)
{
    const struct pp_list *waiting = &s->rows[PP_MI_WAITING], *taken = &s->rows[PP_MI_TAKEN];
    const struct pp_node *w = waiting->head.next, *t = taken->head.next;

    while (w != &waiting->head || t != &taken->head) { /* merges the two lists by number */
        const struct pp_mi_row *a = w == &waiting->head ? NULL : pp_container_of(w, struct pp_mi_row, node);
        const struct pp_mi_row *b = t == &taken->head ? NULL : pp_container_of(t, struct pp_mi_row, node);
        bool first = !b || (a && a->num < b->num);
        show(first ? a : b, cb, data);
        w = first ? w->next : w;
        t = first ? t : t->next;
    }
    pp_list_each (node, (struct pp_list *)&s->rows[PP_MI_ASIDE])
        show(pp_container_of(node, struct pp_mi_row, node), cb, data);
}
