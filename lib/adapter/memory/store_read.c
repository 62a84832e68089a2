/* store_read.c: reads photos, queues, items and the outbox. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "photopool/code.h"
#include "store_data.h"

/* --- photos --- */

static bool read_record(struct pp_arena *a, const struct pp_photo *from, struct pp_photo *to)
{
    *to = *from;
    to->etag = from->etag ? pp_arena_strdup(a, from->etag) : NULL;
    to->last_modified = from->last_modified ? pp_arena_strdup(a, from->last_modified) : NULL;
    to->fail_detail = from->fail_detail ? pp_arena_strdup(a, from->fail_detail) : NULL;
    return (to->etag || !from->etag) && (to->last_modified || !from->last_modified) &&
           (to->fail_detail || !from->fail_detail);
}

enum pp_err pp_ms_run_lookup(struct pp_memory_store *s, struct pp_store_lookup *r)
{
    struct pp_ms_client *c = pp_ms_client(s, r->client, false);
    r->photos = pp_arena_array(r->req.arena, r->n, sizeof *r->photos);
    if (!r->photos)
        return PP_ENOMEM;
    for (size_t i = 0; c && i < r->n; i++) {
        const struct pp_ms_photo *photo = pp_ms_photo(c, &r->keys[i], false);
        if (photo && !read_record(r->req.arena, &photo->record, &r->photos[i]))
            return PP_ENOMEM;
    }
    return PP_OK;
}

static bool read_attempts(struct pp_store_photo *r, const struct pp_ms_photo *photo)
{
    r->ended = pp_arena_array(r->req.arena, photo->n_ended, sizeof *r->ended);
    for (uint32_t i = 0; r->ended && i < photo->n_ended; i++) {
        const struct pp_ms_attempt *from = &photo->ended[i];
        char address[PP_ADDRESS_MAX];
        r->ended[i] = (struct pp_attempt){.at = from->at,
                                          .ms = from->ms,
                                          .code = from->code,
                                          .http_status = from->http_status,
                                          .tier = from->tier};
        if (from->family == 0 || !inet_ntop(from->family, from->address, address, sizeof address))
            continue;
        r->ended[i].address = pp_arena_strdup(r->req.arena, address);
        if (!r->ended[i].address)
            return false;
    }
    r->n_ended = photo->n_ended;
    return r->ended;
}

enum pp_err pp_ms_run_photo(struct pp_memory_store *s, struct pp_store_photo *r)
{
    struct pp_ms_client *c = pp_ms_client(s, r->client, false);
    const struct pp_ms_photo *photo = c ? pp_ms_photo(c, &r->key, false) : NULL;
    const struct pp_ms_task *t = photo ? photo->task : NULL;
    r->named = photo;
    r->photo = (struct pp_photo){0};
    r->ended = NULL;
    r->n_ended = 0;
    r->open = t;
    r->claimed = t && t->state == PP_TASK_CLAIMED;
    r->parked = t && t->times.own_ms != 0;
    r->tier = t ? t->tier : 0;
    r->losses = t ? t->losses : 0;
    r->attempts = t ? t->attempts : 0;
    r->last_code = t ? t->last_code : 0;
    r->due_ms = t ? pp_ms_our_time(&r->req, t->times.due_ms) : 0;
    r->wait_until_ms = t ? pp_ms_our_time_or_0(&r->req, t->times.wait_until_ms) : 0;
    if (!photo)
        return PP_OK;
    return read_record(r->req.arena, &photo->record, &r->photo) && read_attempts(r, photo) ? PP_OK
                                                                                           : PP_ENOMEM;
}

/* Asks each client in turn: an object belongs to a client, and the request may be for any. */
enum pp_err pp_ms_run_object(struct pp_memory_store *s, struct pp_store_object *r)
{
    struct pp_ms_client *c, *next;
    HASH_ITER (hh, s->clients, c, next) {
        struct pp_ms_object *o = NULL;
        if (!r->client || !strcmp(r->client, c->name))
            HASH_FIND(hh, c->objects, r->sha256, sizeof r->sha256, o);
        if (!o || (o->photos == 0 && (!r->former || r->client)))
            continue;
        r->object = o->photos > 0 ? o->object : (struct pp_object){0};
        memcpy(r->object.sha256, r->sha256, sizeof r->sha256);
        return PP_OK;
    }
    return PP_ENOTFOUND;
}

/* --- queues --- */

enum pp_err pp_ms_run_backlog(struct pp_memory_store *s, struct pp_store_backlog *r)
{
    struct pp_ms_client *c, *next;
    size_t n = 0;
    HASH_ITER (hh, s->clients, c, next) {
        for (size_t q = 0; q < PP_QUEUES; q++)
            n += c->queues[q].n > 0;
    }
    r->n = 0;
    r->rows = pp_arena_array(r->req.arena, n, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    HASH_ITER (hh, s->clients, c, next) {
        const char *name = NULL;
        for (uint8_t q = 0; q < PP_QUEUES; q++) {
            if (c->queues[q].n == 0)
                continue;
            name = name ? name : pp_arena_strdup(r->req.arena, c->name);
            if (!name)
                return PP_ENOMEM;
            int64_t due_ms = pp_ms_our_time(&r->req, pp_ms_queue_due(&c->queues[q]));
            r->rows[r->n++] = (struct pp_backlog_row){.client = name, .queue = q, .due_ms = due_ms};
        }
    }
    return PP_OK;
}

enum pp_err pp_ms_run_queue(struct pp_memory_store *s, struct pp_store_queue *r)
{
    struct pp_ms_client *c, *next;
    int64_t due_ms[PP_QUEUES];
    r->claimed = s->claimed;
    for (uint8_t q = 0; q < PP_QUEUES; q++)
        due_ms[q] = INT64_MAX;
    HASH_ITER (hh, s->clients, c, next) {
        for (uint8_t q = 0; q < PP_QUEUES; q++) {
            int64_t first_ms = pp_ms_queue_due(&c->queues[q]);
            due_ms[q] = first_ms < due_ms[q] ? first_ms : due_ms[q];
        }
    }
    for (uint8_t q = 0; q < PP_QUEUES; q++) {
        r->counts[q] = (struct pp_queue_count){.queue = q, .photos = s->waiting[q]};
        if (due_ms[q] != INT64_MAX)
            r->counts[q].oldest_ms = pp_ms_our_time(&r->req, due_ms[q]);
    }
    return PP_OK;
}

/* --- items --- */

enum pp_err pp_ms_run_item(struct pp_memory_store *s, struct pp_store_item *r)
{
    struct pp_ms_client *c = pp_ms_client(s, r->client, false);
    const struct pp_ms_name *name = c ? pp_ms_name(c, r->id, false) : NULL;
    if (!name || !name->newest || !pp_ms_item_newest(name->newest))
        return PP_ENOTFOUND;
    return pp_ms_item_read(&r->req, name->newest, &r->item) ? PP_OK : PP_ENOMEM;
}

static int by_id(const void *a, const void *b)
{
    return strcmp((*(const struct pp_ms_name *const *)a)->id, (*(const struct pp_ms_name *const *)b)->id);
}

/* Lists the names of the client behind `after`, in order. Returns NULL if out of memory. */
static struct pp_ms_name **list_names(const struct pp_store_items *r, struct pp_ms_client *c, size_t *n)
{
    struct pp_ms_name *name, *next;
    struct pp_ms_name **names = pp_arena_array(r->req.arena, c ? HASH_COUNT(c->names) : 0, sizeof *names);
    *n = 0;
    if (!names || !c)
        return names;
    HASH_ITER (hh, c->names, name, next) {
        if ((!r->after || strcmp(name->id, r->after) > 0) &&
            (!r->prefix || strncmp(name->id, r->prefix, strlen(r->prefix)) == 0))
            names[(*n)++] = name;
    }
    qsort(names, *n, sizeof *names, by_id);
    return names;
}

static bool item_matches(const struct pp_store_items *r, const struct pp_ms_item *it)
{
    bool code = r->code == 0;
    for (uint32_t i = 0; i < it->item.n_photos; i++) {
        const struct pp_outcome *o = &it->item.photos[i].outcome;
        code = code || (pp_outcome_has_code(o->kind) && pp_code_in(o->code, r->code));
    }
    return code && (r->status < 0 || r->status == (int)it->item.status);
}

enum pp_err pp_ms_run_items(struct pp_memory_store *s, struct pp_store_items *r)
{
    size_t n;
    struct pp_ms_name **names = list_names(r, pp_ms_client(s, r->client, false), &n);
    const char *end = NULL;
    pp_assert(r->limit > 0 && r->scan > 0, "a page of items is empty, or reads nothing");
    r->items = pp_arena_array(r->req.arena, r->limit < n ? r->limit : n, sizeof *r->items);
    r->n = 0;
    r->more = false;
    if (!names || !r->items)
        return PP_ENOMEM;
    for (size_t i = 0; i < n && !r->more; i++) {
        struct pp_ms_item *it = names[i]->newest;
        r->more = r->n == r->limit || i == r->scan;
        if (r->more)
            break;
        end = names[i]->id;
        if (it && pp_ms_item_newest(it) && item_matches(r, it) &&
            !pp_ms_item_read(&r->req, it, &r->items[r->n++]))
            return PP_ENOMEM;
    }
    r->end = r->more ? pp_arena_strdup(r->req.arena, end) : NULL;
    return r->end || !r->more ? PP_OK : PP_ENOMEM;
}

/* --- the outbox --- */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static enum pp_err read_those(const struct pp_memory_store *s, struct pp_store_outbox *r)
{
    uint64_t *seqs = (uint64_t *)(void *)pp_arena_copy(r->req.arena, r->seqs, r->n_seqs * sizeof *seqs);
    r->items = pp_arena_array(r->req.arena, r->n_seqs, sizeof *r->items);
    if (!seqs || !r->items)
        return PP_ENOMEM;
    qsort(seqs, r->n_seqs, sizeof *seqs, ascending);
    for (size_t i = 0; i < r->n_seqs; i++) {
        struct pp_ms_item *it = pp_memory_sorted_find(&s->by_seq, &seqs[i], pp_ms_by_seq);
        if (!it || (i > 0 && seqs[i] == seqs[i - 1]))
            continue;
        if (!pp_ms_item_read(&r->req, it, &r->items[r->n++]))
            return PP_ENOMEM;
    }
    return PP_OK;
}

/* Returns the place of the first finished item with a higher seq. */
static size_t place_after(const struct pp_memory_sorted *items, uint64_t seq)
{
    uint64_t next = seq + 1;
    return seq == UINT64_MAX ? items->n : pp_memory_sorted_place(items, &next, pp_ms_by_seq);
}

enum pp_err pp_ms_run_outbox(struct pp_memory_store *s, struct pp_store_outbox *r)
{
    size_t from = place_after(&s->by_seq, r->after_seq), left = s->by_seq.n - from;
    r->n = 0;
    r->end = s->last_seq;
    if (r->n_seqs > 0)
        return read_those(s, r);
    size_t limit = r->limit < left ? r->limit : left;
    r->items = pp_arena_array(r->req.arena, limit, sizeof *r->items);
    if (!r->items)
        return PP_ENOMEM;
    for (; r->n < limit; r->n++)
        if (!pp_ms_item_read(&r->req, s->by_seq.at[from + r->n], &r->items[r->n]))
            return PP_ENOMEM;
    return PP_OK;
}

enum pp_err pp_ms_run_outbox_counts(struct pp_memory_store *s, struct pp_store_outbox_counts *r)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t from = place_after(&s->by_seq, r->counts[i].after_seq);
        const struct pp_ms_item *first = from < s->by_seq.n ? s->by_seq.at[from] : NULL;
        r->counts[i].messages = s->by_seq.n - from;
        r->counts[i].oldest_at = first ? first->item.finished_at : 0;
    }
    return PP_OK;
}
