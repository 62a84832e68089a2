/* store_batch.c: reads batches, and their finished items page by page. */
#include <string.h>

#include "photopool/code.h"
#include "store_data.h"

/* --- batches --- */

static enum pp_batch_state state_of(const struct pp_ms_batch *b)
{
    if (b->cancelled)
        return PP_BATCH_CANCELLED;
    return b->finished_at ? PP_BATCH_FINISHED : PP_BATCH_RUNNING;
}

/* Returns how many of `total` items or photos are open, including those that are not planned yet.
 * `counts` are numbers by state, the open ones first. */
static uint64_t open_of(uint64_t total, const uint64_t *counts, size_t n)
{
    uint64_t closed = 0;
    for (size_t i = 1; i < n; i++)
        closed += counts[i];
    uint64_t open = total > closed ? total - closed : 0;
    return open > counts[0] ? open : counts[0];
}

static bool read_batch(struct pp_arena *a, const struct pp_ms_batch *b, struct pp_batch *out)
{
    *out = (struct pp_batch){.id = pp_arena_strdup(a, b->id),
                             .client = pp_arena_strdup(a, b->client->name),
                             .label = b->label[0] ? pp_arena_strdup(a, b->label) : NULL,
                             .state = state_of(b),
                             .refresh = b->refresh,
                             .created_at = b->created_at,
                             .finished_at = b->finished_at,
                             .items_total = b->items_total,
                             .photos_total = b->photos_total,
                             .items_rejected = b->items_rejected,
                             .errors = pp_arena_array(a, b->n_errors, sizeof *out->errors),
                             .n_errors = b->n_errors};
    if (!out->id || !out->client || (b->label[0] && !out->label) || !out->errors)
        return false;
    if (b->n_errors > 0)
        memcpy(out->errors, b->errors, b->n_errors * sizeof *out->errors);
    memcpy(out->items, b->items, sizeof out->items);
    memcpy(out->photos, b->photos, sizeof out->photos);
    out->items[PP_ITEM_OPEN] = open_of(b->items_total, out->items, PP_ITEM_STATUS_COUNT);
    out->photos[PP_OUTCOME_OPEN] = open_of(b->photos_total, out->photos, PP_OUTCOME_COUNT);
    return true;
}

enum pp_err pp_ms_run_batch(struct pp_memory_store *s, struct pp_store_batch *r)
{
    const struct pp_ms_batch *b = pp_ms_batch(s, r->batch_id);
    if (!b || (r->client && strcmp(r->client, b->client->name) != 0))
        return PP_ENOTFOUND;
    return read_batch(r->req.arena, b, &r->batch) ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_ms_run_batches(struct pp_memory_store *s, struct pp_store_batches *r)
{
    const struct pp_memory_sorted *all = &s->by_id;
    size_t i = r->after ? pp_memory_sorted_place(all, r->after, pp_ms_by_batch_id) : all->n;
    r->n = 0;
    r->more = false;
    r->batches = pp_arena_array(r->req.arena, r->limit < i ? r->limit : i, sizeof *r->batches);
    if (!r->batches)
        return PP_ENOMEM;
    while (i-- > 0) {
        const struct pp_ms_batch *b = all->at[i];
        if ((r->client && strcmp(r->client, b->client->name) != 0) ||
            (r->label && strcmp(r->label, b->label) != 0) || (r->state >= 0 && r->state != (int)state_of(b)))
            continue;
        r->more = r->n == r->limit;
        if (r->more)
            break;
        if (!read_batch(r->req.arena, b, &r->batches[r->n++]))
            return PP_ENOMEM;
    }
    return PP_OK;
}

static void add_waiting(const struct pp_req *req, const struct pp_ms_item *it, struct pp_waits *waits,
                        int64_t now_ms)
{
    for (uint32_t i = 0; i < it->item.n_photos; i++) {
        const struct pp_ms_task *t = it->slots[i].photo ? it->slots[i].photo->task : NULL;
        if (it->item.photos[i].outcome.kind != PP_OUTCOME_OPEN || !t)
            continue;
        const struct pp_wait_task task = {.claimed = t->state == PP_TASK_CLAIMED,
                                          .queue = t->queue,
                                          .attempts = t->attempts,
                                          .due_ms = pp_ms_our_time(req, t->times.due_ms),
                                          .parked = t->times.own_ms != 0,
                                          .wait_until_ms = pp_ms_our_time_or_0(req, t->times.wait_until_ms)};
        pp_waits_add(waits, &task, 1, now_ms);
    }
}

enum pp_err pp_ms_run_waiting(struct pp_memory_store *s, struct pp_store_waiting *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_wait_row *row = &r->rows[i];
        const struct pp_ms_batch *b = pp_ms_batch(s, row->batch_id);
        row->waits = (struct pp_waits){.photos = 0};
        if (!b || strcmp(row->client, b->client->name) != 0)
            continue;
        pp_list_each (node, &b->open) {
            row->waits.more = row->waits.photos >= r->limit;
            if (row->waits.more)
                break;
            add_waiting(&r->req, pp_container_of(node, struct pp_ms_item, in_batch), &row->waits, r->now_ms);
        }
    }
    return PP_OK;
}

enum pp_err pp_ms_run_rejected(struct pp_memory_store *s, struct pp_store_rejected *r)
{
    const struct pp_ms_batch *b = pp_ms_batch(s, r->batch_id);
    size_t i = b ? pp_memory_sorted_place(&b->parts, &r->from, pp_ms_by_number) : 0;
    size_t n = b ? b->parts.n - i : 0;
    r->n = 0;
    n = n < r->limit ? n : r->limit;
    r->parts = pp_arena_array(r->req.arena, n, sizeof *r->parts);
    if (!r->parts)
        return PP_ENOMEM;
    for (; r->n < n; i++) {
        const struct pp_ms_part *part = b->parts.at[i];
        const char *bytes = pp_arena_copy(r->req.arena, part->bytes, part->n);
        if (!bytes)
            return PP_ENOMEM;
        r->parts[r->n++] = (struct pp_rejected_part){.number = part->number, .bytes = bytes, .n = part->n};
    }
    return PP_OK;
}

/* --- finished items --- */

/* A filter: an item matches if one of its failed or skipped photos does. */
struct match {
    const uint16_t *codes;
    size_t n_codes; /* 0: any code matches */
    const char *const *domains;
    size_t n_domains; /* 0: any domain matches */
};

static bool photo_matches(const struct match *m, const struct pp_ms_item *it, uint32_t i)
{
    const struct pp_outcome *o = &it->item.photos[i].outcome;
    bool code = m->n_codes == 0, domain = m->n_domains == 0;
    if (!pp_outcome_has_code(o->kind) || o->code == 0)
        return false;
    for (size_t k = 0; k < m->n_codes; k++)
        code |= pp_code_in(o->code, m->codes[k]);
    for (size_t k = 0; k < m->n_domains; k++)
        domain |= it->slots[i].domain && !strcmp(m->domains[k], it->slots[i].domain->name);
    return code && domain;
}

static uint64_t matching_photos(const struct match *m, const struct pp_ms_item *it)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < it->item.n_photos; i++)
        n += photo_matches(m, it, i);
    return n;
}

/* A page of the finished items of a batch with a seq above `after_seq`. */
struct page {
    const struct pp_req *req;
    const char *batch_id;
    int status;              /* only items with this status; -1: any status */
    const struct match *any; /* NULL: every item matches */
    bool newest_only;
    uint64_t after_seq;
    size_t limit;
    /* The members below are results. */
    struct pp_item *items;
    size_t n;
    uint64_t photos;
    bool more;
};

static enum pp_err read_page(struct pp_memory_store *s, struct page *p)
{
    const struct pp_ms_batch *b = pp_ms_batch(s, p->batch_id);
    uint64_t next = p->after_seq + 1;
    if (!b)
        return PP_ENOTFOUND;
    size_t i = pp_memory_sorted_place(&b->done, &next, pp_ms_by_seq), left = b->done.n - i;
    p->items = pp_arena_array(p->req->arena, p->limit < left ? p->limit : left, sizeof *p->items);
    if (!p->items)
        return PP_ENOMEM;
    for (; i < b->done.n; i++) {
        struct pp_ms_item *it = b->done.at[i];
        uint64_t photos = p->any ? matching_photos(p->any, it) : 0;
        if ((p->any && photos == 0) || (p->status >= 0 && p->status != (int)it->item.status) ||
            (p->newest_only && !pp_ms_item_newest(it)))
            continue;
        p->more = p->n == p->limit;
        if (p->more)
            break;
        p->photos += photos;
        if (!pp_ms_item_read(p->req, it, &p->items[p->n++]))
            return PP_ENOMEM;
    }
    return PP_OK;
}

enum pp_err pp_ms_run_results(struct pp_memory_store *s, struct pp_store_results *r)
{
    const struct match code = {.codes = &r->code, .n_codes = 1};
    struct page page = {.req = &r->req,
                        .batch_id = r->batch_id,
                        .status = r->status,
                        .any = r->code ? &code : NULL,
                        .after_seq = r->after_seq,
                        .limit = r->limit};
    enum pp_err err = read_page(s, &page);
    r->items = page.items;
    r->n = page.n;
    r->more = page.more;
    return err;
}

enum pp_err pp_ms_run_replay(struct pp_memory_store *s, struct pp_store_replay *r)
{
    const struct match match = {
        .codes = r->codes, .n_codes = r->n_codes, .domains = r->domains, .n_domains = r->n_domains};
    struct page page = {.req = &r->req,
                        .batch_id = r->batch_id,
                        .status = -1,
                        .any = &match,
                        .newest_only = true,
                        .after_seq = r->after_seq,
                        .limit = r->limit};
    enum pp_err err = read_page(s, &page);
    r->items = page.items;
    r->n = page.n;
    r->photos = page.photos;
    r->more = page.more;
    return err;
}
