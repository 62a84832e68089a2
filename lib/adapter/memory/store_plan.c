/* store_plan.c: plans items, and opens tasks for their open photos.
 *
 * An item is first built: one block of memory with its photos, and tasks for the open photos that
 * need one. If that fails, everything is taken back. Then it is added: its open photos become
 * waiters, its new tasks wait in their queues, and the older revision is superseded. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

struct plan_state {
    struct pp_memory_store *s;
    struct pp_store_plan *r;
    struct pp_ms_client *client;
    struct pp_ms_batch *batch;
};

/* --- building an item --- */

static char *put_text(char **to, const void *p, size_t n)
{
    char *s = *to;
    if (n > 0)
        memcpy(s, p, n);
    s[n] = '\0';
    *to += n + 1;
    return s;
}

/* Allocates an item with its slots, and with copies of its texts. */
static struct pp_ms_item *new_item(const struct plan_state *p, const struct pp_plan_item *from,
                                   struct pp_ms_name *name)
{
    size_t n = from->n_photos, bytes = from->meta ? strlen(from->meta) + 1 : 0;
    for (size_t i = 0; i < n; i++)
        bytes += (size_t)from->photos[i].url_n + 1;
    struct pp_ms_item *it = calloc(1, sizeof *it + n * (sizeof *it->slots + sizeof *it->item.photos) + bytes);
    if (!it)
        return NULL;
    it->slots = (struct pp_ms_slot *)(it + 1);
    struct pp_item_photo *photos = (struct pp_item_photo *)(it->slots + n);
    char *texts = (char *)(photos + n);
    it->name = name;
    it->batch = p->batch;
    it->item = (struct pp_item){.client = p->client->name,
                                .id = name->id,
                                .revision = from->revision,
                                .batch_id = p->batch->id,
                                .created_at = p->r->date_ms,
                                .index = from->index,
                                .photos = photos,
                                .n_photos = from->n_photos};
    if (from->meta)
        it->item.meta = put_text(&texts, from->meta, strlen(from->meta));
    for (size_t i = 0; i < n; i++) {
        const struct pp_plan_photo *f = &from->photos[i];
        photos[i].url = put_text(&texts, f->url, f->url_n);
        photos[i].url_n = f->url_n;
        photos[i].key = f->key;
        it->slots[i].item = it;
    }
    return it;
}

/* Finds the slot's photo, and makes sure that it has a task if it needs one. */
static bool build_open(const struct plan_state *p, struct pp_ms_slot *slot, const struct pp_plan_photo *f,
                       struct pp_outcome *o)
{
    slot->photo = pp_ms_photo(p->client, &f->key, true);
    if (!slot->photo)
        return false;
    if (slot->photo->task)
        return true;
    *o = pp_plan_photo_late(f, &slot->photo->record);
    if (o->kind != PP_OUTCOME_OPEN)
        return true;
    struct pp_ms_task *t = pp_ms_task_new(p->s, slot->photo, f, slot->domain);
    if (t)
        t->times = pp_task_times_of(pp_ms_server_time(&p->r->req, f->due_ms),
                                    pp_ms_server_time_or_0(&p->r->req, f->park_ms),
                                    pp_ms_server_time_or_0(&p->r->req, f->wait_until_ms));
    return t;
}

static bool build_slot(const struct plan_state *p, struct pp_ms_slot *slot, const struct pp_plan_photo *f)
{
    struct pp_outcome o = f->outcome, *to = &pp_ms_slot_photo(slot)->outcome;
    const char *detail;
    if (f->domain && *f->domain) {
        slot->domain = pp_ms_domain(p->client, f->domain, true);
        if (!slot->domain)
            return false;
    }
    if (o.kind == PP_OUTCOME_OPEN && p->batch->cancelled)
        o = (struct pp_outcome){.kind = PP_OUTCOME_CANCELLED};
    if (o.kind == PP_OUTCOME_OPEN && !build_open(p, slot, f, &o))
        return false;
    if (!pp_ms_text_new(&detail, o.detail))
        return false;
    *to = o;
    to->detail = detail;
    return true;
}

static void take_back(struct pp_memory_store *s, struct pp_ms_item *it)
{
    for (uint32_t i = 0; i < it->item.n_photos; i++) {
        struct pp_ms_photo *photo = it->slots[i].photo;
        if (photo && photo->task && photo->task->state == PP_TASK_STATE_COUNT)
            pp_ms_task_free(s, photo->task);
        pp_ms_text_drop(it->item.photos[i].outcome.detail);
    }
    free(it);
}

static struct pp_ms_item *build(const struct plan_state *p, const struct pp_plan_item *from,
                                struct pp_ms_name *name)
{
    struct pp_ms_item *it = new_item(p, from, name);
    bool ok = it && pp_ms_item_reserve(p->s, p->batch, from->n_photos);
    for (uint32_t i = 0; ok && i < from->n_photos; i++)
        ok = build_slot(p, &it->slots[i], &from->photos[i]);
    if (ok || !it)
        return it;
    take_back(p->s, it);
    return NULL;
}

/* --- adding it --- */

static bool open_task(struct plan_state *p, struct pp_ms_task *t, const struct pp_plan_photo *f)
{
    struct pp_store_plan *r = p->r;
    pp_ms_task_open(p->s, t);
    r->tasks_opened++;
    return pp_ms_backlog_add(r->backlog, &r->n_backlog, r->req.arena, r->client, f->tier,
                             pp_ms_our_time(&r->req, t->times.due_ms));
}

/* Counts one more import that was answered from the photo's record. A URL that the item has twice
 * counts once. */
static void count_skip(const struct plan_state *p, const struct pp_plan_item *item, uint32_t idx)
{
    const struct pp_key *key = &item->photos[idx].key;
    for (uint32_t i = 0; i < idx; i++) {
        if (item->photos[i].outcome.kind == PP_OUTCOME_SKIPPED &&
            !memcmp(&item->photos[i].key, key, sizeof *key))
            return;
    }
    struct pp_ms_photo *photo = pp_ms_photo(p->client, key, false);
    if (photo && photo->record.fail_code && photo->record.skips < UINT16_MAX)
        photo->record.skips++;
}

static enum pp_err add(struct plan_state *p, struct pp_ms_item *it, const struct pp_plan_item *from)
{
    struct pp_ms_item *older = it->name->newest;
    bool ok = true;
    for (uint32_t i = 0; i < from->n_photos; i++) {
        const struct pp_plan_photo *f = &from->photos[i];
        enum pp_outcome_kind kind = it->item.photos[i].outcome.kind;
        if (kind == PP_OUTCOME_SKIPPED && !p->batch->cancelled)
            count_skip(p, from, i);
        if (kind != PP_OUTCOME_OPEN)
            continue;
        struct pp_ms_task *t = it->slots[i].photo->task;
        pp_list_push(&t->waiters, &it->slots[i].wait);
        t->always |= f->always;
        if (t->state == PP_TASK_STATE_COUNT)
            ok &= open_task(p, t, f);
    }
    pp_ms_item_add(p->s, it, p->r->date_ms);
    if (older && older->item.status == PP_ITEM_OPEN)
        pp_ms_item_close(p->s, older, PP_ITEM_SUPERSEDED, p->r->date_ms);
    return ok ? PP_OK : PP_ENOMEM;
}

/* Returns true if the item, and so each older revision of it, was planned before the batch. An item
 * may have thousands of older revisions. */
static bool is_earlier(const struct pp_ms_item *it, const struct pp_ms_batch *b)
{
    return it->item.status != PP_ITEM_OPEN && it->item.seq <= b->after_seq;
}

static enum pp_err plan_item(struct plan_state *p, struct pp_plan_item *item)
{
    struct pp_ms_name *name = pp_ms_name(p->client, item->id, true);
    if (!name)
        return PP_ENOMEM;
    item->repeated = false;
    item->revision = name->revision + 1;
    for (const struct pp_ms_item *it = name->newest; it && !is_earlier(it, p->batch); it = it->older) {
        if (it->batch != p->batch)
            continue;
        item->repeated = true;
        item->revision = it->item.revision;
        return PP_OK;
    }
    if (p->batch->finished_at) { /* it has all its items: this one was deleted since */
        item->repeated = true;
        item->revision = name->revision;
        return PP_OK;
    }
    struct pp_ms_item *it = build(p, item, name);
    return it ? add(p, it, item) : PP_ENOMEM;
}

/* --- the operation --- */

int pp_ms_by_number(const void *key, const void *element)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct pp_ms_part *)element)->number;
    return (a > b) - (a < b);
}

static enum pp_err keep_part(struct pp_ms_batch *b, const struct pp_rejected_part *from)
{
    struct pp_ms_part *part = malloc(sizeof *part + from->n);
    if (!part)
        return PP_ENOMEM;
    part->number = from->number;
    part->n = from->n;
    if (from->n > 0)
        memcpy(part->bytes, from->bytes, from->n);
    return pp_memory_sorted_put(&b->parts, &from->number, pp_ms_by_number, part) ? PP_OK : PP_ENOMEM;
}

static bool find_batch(struct plan_state *p)
{
    const struct pp_store_plan *r = p->r;
    p->client = pp_ms_client(p->s, r->client, true);
    p->batch = pp_ms_batch(p->s, r->batch_id);
    if (p->client && !p->batch)
        p->batch = pp_ms_batch_new(p->s, r->batch_id, p->client, r->label);
    if (!p->client || !p->batch)
        return false;
    p->batch->refresh = r->refresh;
    p->batch->created_at = r->batch_created_at;
    p->batch->items_total = r->batch_items;
    p->batch->photos_total = r->batch_photos;
    p->batch->items_rejected = r->batch_rejected;
    return true;
}

enum pp_err pp_ms_run_plan(struct pp_memory_store *s, struct pp_store_plan *r)
{
    struct plan_state p = {.s = s, .r = r};
    enum pp_err err = PP_OK;
    r->tasks_opened = 0;
    r->n_backlog = 0;
    r->backlog = pp_arena_array(r->req.arena, PP_QUEUES, sizeof *r->backlog);
    if (!r->backlog || !find_batch(&p))
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n && err == PP_OK; i++)
        err = plan_item(&p, &r->items[i]);
    for (size_t i = 0; i < r->n_rejected && err == PP_OK; i++)
        err = keep_part(p.batch, &r->rejected[i]);
    if (err != PP_OK)
        return err;
    p.batch->planned |= r->last;
    pp_ms_batch_check(s, p.batch, r->date_ms);
    r->items_finished = s->items_finished;
    return PP_OK;
}
