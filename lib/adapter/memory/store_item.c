/* store_item.c: items and batches: how items finish, what batches count, and how items are read. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

int pp_ms_by_seq(const void *key, const void *element)
{
    uint64_t a = *(const uint64_t *)key, b = ((const struct pp_ms_item *)element)->item.seq;
    return (a > b) - (a < b);
}

struct pp_item_photo *pp_ms_slot_photo(const struct pp_ms_slot *slot)
{
    return &slot->item->item.photos[slot - slot->item->slots];
}

/* --- what batches count --- */

bool pp_ms_errors_reserve(struct pp_ms_batch *b, size_t more)
{
    size_t cap = b->n_errors + more;
    if (cap <= b->errors_cap)
        return true;
    struct pp_code_count *errors = realloc(b->errors, cap * sizeof *errors);
    if (!errors)
        return false;
    b->errors = errors;
    b->errors_cap = cap;
    return true;
}

static void count_error(struct pp_ms_batch *b, uint16_t code)
{
    for (size_t i = 0; i < b->n_errors; i++) {
        if (b->errors[i].code == code) {
            b->errors[i].n++;
            return;
        }
    }
    pp_assert(b->n_errors < b->errors_cap, "a batch has no room for another code");
    b->errors[b->n_errors++] = (struct pp_code_count){.code = code, .n = 1};
}

/* Returns what the present call reports about the batch, or NULL if it reports nothing. */
static struct pp_batch_delta *delta_of(const struct pp_memory_store *s, const struct pp_ms_batch *b)
{
    return b->call == s->call ? b->delta : NULL;
}

static void count_photo(struct pp_memory_store *s, struct pp_ms_batch *b, const struct pp_outcome *o)
{
    struct pp_batch_delta *delta = delta_of(s, b);
    b->photos[o->kind]++;
    if (pp_outcome_has_code(o->kind))
        count_error(b, o->code);
    if (delta)
        delta->photos++;
}

void pp_ms_batch_check(struct pp_memory_store *s, struct pp_ms_batch *b, int64_t date_ms)
{
    struct pp_batch_delta *delta = delta_of(s, b);
    struct pp_node *last = s->finished.head.prev;
    if (!b->planned || b->finished_at || b->items[PP_ITEM_OPEN])
        return;
    b->finished_at = date_ms;
    while (last != &s->finished.head &&
           pp_container_of(last, struct pp_ms_batch, in_finished)->finished_at > date_ms)
        last = last->prev;
    pp_list_insert(&s->finished, last, &b->in_finished);
    if (delta)
        delta->finished = true;
}

/* --- how items begin and end --- */

bool pp_ms_item_reserve(struct pp_memory_store *s, struct pp_ms_batch *b, uint32_t n_photos)
{
    return pp_memory_sorted_reserve(&s->by_seq, s->by_seq.n + s->open_items + 1) &&
           pp_memory_sorted_reserve(&b->done, b->done.n + b->open.n + 1) && pp_ms_errors_reserve(b, n_photos);
}

static void tell(const struct pp_memory_store *s, const struct pp_ms_item *it, enum pp_item_status from)
{
    const struct pp_memory_observer *o = s->options.observer;
    if (o)
        o->item(o->data, &it->item, from);
}

static void finish(struct pp_memory_store *s, struct pp_ms_item *it, enum pp_item_status status,
                   int64_t date_ms)
{
    struct pp_ms_batch *b = it->batch;
    struct pp_batch_delta *delta = delta_of(s, b);
    pp_assert(it->item.status == PP_ITEM_OPEN && status != PP_ITEM_OPEN, "an item finishes twice");
    pp_list_remove(&b->open, &it->in_batch);
    s->open_items--;
    enum pp_item_status from = it->item.status;
    it->item.status = status;
    tell(s, it, from);
    it->item.finished_at = date_ms;
    it->item.seq = ++s->last_seq;
    pp_memory_sorted_insert(&s->by_seq, s->by_seq.n, it);
    pp_memory_sorted_insert(&b->done, b->done.n, it);
    b->items[PP_ITEM_OPEN]--;
    b->items[status]++;
    s->items_finished++;
    if (delta)
        delta->items++;
    pp_ms_batch_check(s, b, date_ms);
}

void pp_ms_item_add(struct pp_memory_store *s, struct pp_ms_item *it, int64_t date_ms)
{
    struct pp_ms_batch *b = it->batch;
    pp_list_push(&s->items, &it->node);
    it->older = it->name->newest;
    if (it->older)
        it->older->newer = it;
    it->name->newest = it;
    it->name->revision = it->item.revision;
    for (uint32_t i = 0; i < it->item.n_photos; i++) {
        const struct pp_outcome *o = &it->item.photos[i].outcome;
        it->left += o->kind == PP_OUTCOME_OPEN;
        it->with_bytes += pp_outcome_has_bytes(o->kind);
        count_photo(s, b, o);
    }
    pp_list_push(&b->open, &it->in_batch);
    b->items[PP_ITEM_OPEN]++;
    s->open_items++;
    tell(s, it, PP_ITEM_STATUS_COUNT);
    pp_assert(!b->cancelled || it->left == 0, "an item of a cancelled batch has an open photo");
    if (it->left == 0)
        finish(s, it, b->cancelled ? PP_ITEM_CANCELLED : pp_item_status(it->item.n_photos, it->with_bytes),
               date_ms);
}

static void set_outcome(struct pp_memory_store *s, struct pp_ms_slot *slot, const struct pp_outcome *o)
{
    struct pp_item_photo *photo = pp_ms_slot_photo(slot);
    pp_assert(photo->outcome.kind == PP_OUTCOME_OPEN && o->kind != PP_OUTCOME_OPEN,
              "a photo gets a second outcome, or none");
    enum pp_outcome_kind from = photo->outcome.kind;
    photo->outcome = *o;
    if (s->options.observer)
        s->options.observer->photo(s->options.observer->data, &slot->item->item,
                                   (uint32_t)(slot - slot->item->slots), from);
    pp_ms_text_hold(o->detail);
    photo->claimed = false;
    photo->tier = 0;
    photo->due_ms = 0;
    slot->item->batch->photos[PP_OUTCOME_OPEN]--;
    count_photo(s, slot->item->batch, o);
}

void pp_ms_slot_settle(struct pp_memory_store *s, struct pp_ms_slot *slot, const struct pp_outcome *o,
                       int64_t date_ms)
{
    struct pp_ms_item *it = slot->item;
    set_outcome(s, slot, o);
    pp_assert(it->left > 0, "an open photo of an item that has none left");
    it->left--;
    it->with_bytes += pp_outcome_has_bytes(o->kind);
    if (it->left == 0)
        finish(s, it, pp_item_status(it->item.n_photos, it->with_bytes), date_ms);
}

uint32_t pp_ms_item_close(struct pp_memory_store *s, struct pp_ms_item *it, enum pp_item_status status,
                          int64_t date_ms)
{
    const struct pp_outcome cancelled = {.kind = PP_OUTCOME_CANCELLED};
    uint32_t n = it->left;
    pp_assert(status == PP_ITEM_SUPERSEDED || status == PP_ITEM_CANCELLED, "not how an item is closed");
    for (uint32_t i = 0; i < it->item.n_photos; i++) {
        if (it->item.photos[i].outcome.kind != PP_OUTCOME_OPEN)
            continue;
        pp_ms_task_leave(s, &it->slots[i]);
        set_outcome(s, &it->slots[i], &cancelled);
        it->left--;
    }
    pp_assert(it->left == 0, "an item's open photos are not as many as counted");
    finish(s, it, status, date_ms);
    return n;
}

void pp_ms_item_free(struct pp_memory_store *s, struct pp_ms_item *it)
{
    if (it->newer)
        it->newer->older = it->older;
    else
        it->name->newest = it->older;
    if (it->older)
        it->older->newer = it->newer;
    pp_list_remove(&s->items, &it->node);
    if (s->options.forgets)
        pp_ms_forget(s, it);
    for (uint32_t i = 0; i < it->item.n_photos; i++)
        pp_ms_text_drop(it->item.photos[i].outcome.detail);
    free(it);
}

/* --- reading --- */

void pp_ms_item_refresh(struct pp_ms_item *it)
{
    for (uint32_t i = 0; it->left > 0 && i < it->item.n_photos; i++) {
        struct pp_item_photo *photo = &it->item.photos[i];
        if (photo->outcome.kind != PP_OUTCOME_OPEN)
            continue;
        const struct pp_ms_task *t = it->slots[i].photo->task;
        photo->claimed = t->state == PP_TASK_CLAIMED;
        photo->tier = t->tier;
        photo->attempts = t->attempts;
        photo->last_code = t->last_code;
        photo->due_ms = t->times.due_ms;
        photo->wait_until_ms = t->times.wait_until_ms;
        photo->parked = t->times.own_ms != 0;
    }
}

static bool read_photo(const struct pp_req *req, struct pp_item_photo *p)
{
    p->url = pp_arena_copy(req->arena, p->url, p->url_n);
    if (p->outcome.kind == PP_OUTCOME_OPEN) {
        p->due_ms = pp_ms_our_time(req, p->due_ms);
        p->wait_until_ms = pp_ms_our_time_or_0(req, p->wait_until_ms);
    }
    if (p->outcome.detail)
        p->outcome.detail = pp_arena_strdup(req->arena, p->outcome.detail);
    return p->url;
}

bool pp_ms_item_read(const struct pp_req *req, struct pp_ms_item *it, struct pp_item *out)
{
    struct pp_arena *a = req->arena;
    bool ok = true;
    pp_ms_item_refresh(it);
    *out = it->item;
    out->client = pp_arena_strdup(a, out->client);
    out->id = pp_arena_strdup(a, out->id);
    out->batch_id = pp_arena_strdup(a, out->batch_id);
    out->meta = out->meta ? pp_arena_strdup(a, out->meta) : NULL;
    out->photos = pp_arena_array(a, out->n_photos, sizeof *out->photos);
    for (uint32_t i = 0; out->photos && i < out->n_photos; i++) {
        out->photos[i] = it->item.photos[i];
        ok &= read_photo(req, &out->photos[i]);
        ok &= !it->item.photos[i].outcome.detail || out->photos[i].outcome.detail;
    }
    return ok && out->client && out->id && out->batch_id && out->photos && (out->meta || !it->item.meta);
}
