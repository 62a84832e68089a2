/* store_change.c: the other operations that write: cancelling a batch, moving tasks to another
 * tier, deleting old batches, or one item; numbers by name, the coordinator's data set, the
 * installation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* --- cancel --- */

/* Finds the batch. If nothing of the batch is planned yet, but the caller says that it exists
 * (created_at and owner are set), adds it. Sets *err if it does neither. */
static struct pp_ms_batch *batch_to_cancel(struct pp_memory_store *s, const struct pp_store_cancel *r,
                                           enum pp_err *err)
{
    struct pp_ms_batch *b = pp_ms_batch(s, r->batch_id);
    const char *owner = b ? b->client->name : r->created_at ? r->owner : NULL;
    *err = PP_ENOTFOUND;
    if (!owner || (r->client && strcmp(r->client, owner) != 0))
        return NULL;
    if (b)
        return b;
    *err = PP_ENOMEM;
    struct pp_ms_client *c = pp_ms_client(s, owner, true);
    b = c ? pp_ms_batch_new(s, r->batch_id, c, r->label) : NULL;
    if (!b)
        return NULL;
    b->refresh = r->refresh;
    b->created_at = r->created_at;
    b->items_total = r->items;
    b->photos_total = r->photos;
    b->items_rejected = r->rejected;
    return b;
}

enum pp_err pp_ms_run_cancel(struct pp_memory_store *s, struct pp_store_cancel *r)
{
    enum pp_err err;
    struct pp_ms_batch *b = batch_to_cancel(s, r, &err);
    r->items_cancelled = r->photos_cancelled = 0;
    if (!b)
        return err;
    b->cancelled |= !b->finished_at;
    while (!pp_list_empty(&b->open)) {
        struct pp_ms_item *it = pp_container_of(b->open.head.next, struct pp_ms_item, in_batch);
        r->photos_cancelled += pp_ms_item_close(s, it, PP_ITEM_CANCELLED, r->date_ms);
        r->items_cancelled++;
    }
    pp_ms_batch_check(s, b, r->date_ms);
    return PP_OK;
}

/* --- retier --- */

enum pp_err pp_ms_run_retier(struct pp_memory_store *s, struct pp_store_retier *r)
{
    struct pp_ms_client *c = pp_ms_client(s, r->client, false);
    struct pp_ms_domain *d = c ? pp_ms_domain(c, r->domain, false) : NULL;
    int64_t due_ms = pp_ms_server_time(&r->req, r->due_ms);
    r->n = 0;
    if (r->tier >= PP_QUEUE_SUSPECT)
        return PP_EINVAL;
    for (struct pp_node *at = d ? d->tasks.head.next : NULL; d && at != &d->tasks.head; at = at->next) {
        struct pp_ms_task *t = pp_container_of(at, struct pp_ms_task, in_domain);
        struct pp_task_times times = t->times;
        bool same = t->tier == r->tier && (times.own_ms ? times.own_ms : times.due_ms) == due_ms;
        if (t->state != PP_TASK_WAITING || t->attempts > 0 || same)
            continue;
        t->tier = r->tier;
        pp_task_retime(&times, due_ms);
        pp_ms_task_requeue(s, t, pp_queue_of(r->tier, t->losses), times);
        r->n++;
    }
    return PP_OK;
}

/* --- clean --- */

/* Marks up to `limit` items of a batch as deleted, the last finished first. Returns how many;
 * widens *first..*last to their numbers. */
static size_t mark_items(struct pp_ms_batch *b, size_t limit, uint64_t *first, uint64_t *last)
{
    size_t n = b->done.n < limit ? b->done.n : limit;

    for (size_t i = 0; i < n; i++) {
        struct pp_ms_item *it = b->done.at[--b->done.n];
        it->batch = NULL;
        *first = it->item.seq < *first ? it->item.seq : *first;
        *last = it->item.seq > *last ? it->item.seq : *last;
    }
    return n;
}

/* Takes the marked items out of the outbox, and frees them. */
static void sweep(struct pp_memory_store *s, uint64_t first, uint64_t last)
{
    struct pp_memory_sorted *all = &s->by_seq;
    size_t from = pp_memory_sorted_place(all, &first, pp_ms_by_seq), to = from;

    for (; from < all->n && ((struct pp_ms_item *)all->at[from])->item.seq <= last; from++) {
        struct pp_ms_item *it = all->at[from];
        if (it->batch)
            all->at[to++] = it;
        else
            pp_ms_item_free(s, it);
    }
    memmove(&all->at[to], &all->at[from], (all->n - from) * sizeof *all->at);
    all->n -= from - to;
}

enum pp_err pp_ms_run_clean(struct pp_memory_store *s, struct pp_store_clean *r)
{
    uint64_t first = UINT64_MAX, last = 0;

    r->items = 0;
    while (r->items < r->limit && !pp_list_empty(&s->finished)) {
        struct pp_ms_batch *b = pp_container_of(s->finished.head.next, struct pp_ms_batch, in_finished);
        if (b->finished_at >= r->finished_before_ms)
            break;
        r->items += mark_items(b, r->limit - r->items, &first, &last);
        if (b->done.n == 0)
            pp_ms_batch_free(s, b);
    }
    if (r->items > 0)
        sweep(s, first, last);
    return PP_OK;
}

/* --- forgetting an item --- */

/* Returns why the item's revisions, from `it` on, may not be deleted; PP_OK: they may. */
static enum pp_err refusal(const struct pp_store_forget_item *r, const struct pp_ms_item *it)
{
    enum pp_err err = it ? PP_OK : PP_ENOTFOUND;

    for (; it; it = it->older) {
        if (it->item.status == PP_ITEM_OPEN || !it->batch->finished_at)
            return PP_EBUSY;
        if (it->item.finished_at >= r->finished_before_ms || it->item.seq > r->upto_seq)
            err = PP_ESTALE;
    }
    return err;
}

/* Takes a finished item out of a list in order of seq. */
static void take_out(struct pp_memory_sorted *list, const struct pp_ms_item *it)
{
    size_t i = pp_memory_sorted_place(list, &it->item.seq, pp_ms_by_seq);
    pp_assert(i < list->n && list->at[i] == it, "a finished item is not in its list");
    pp_memory_sorted_remove(list, i);
}

enum pp_err pp_ms_run_forget_item(struct pp_memory_store *s, struct pp_store_forget_item *r)
{
    struct pp_ms_client *c = pp_ms_client(s, r->client, false);
    const struct pp_ms_name *name = c ? pp_ms_name(c, r->id, false) : NULL;
    struct pp_ms_item *it = name ? name->newest : NULL, *older;
    enum pp_err err = refusal(r, it);

    r->revisions = 0;
    for (; err == PP_OK && it; it = older) {
        older = it->older;
        take_out(&it->batch->done, it);
        take_out(&s->by_seq, it);
        pp_ms_item_free(s, it);
        r->revisions++;
    }
    return err;
}

/* --- numbers --- */

struct numbers {
    uint64_t last;
    char name[];
};

static int by_name(const void *key, const void *element)
{
    return strcmp(key, ((const struct numbers *)element)->name);
}

enum pp_err pp_ms_run_numbers(struct pp_memory_store *s, struct pp_store_numbers *r)
{
    struct numbers *numbers = pp_memory_sorted_find(&s->numbers, r->name, by_name);
    pp_assert(r->n > 0, "no numbers are asked for");
    if (!numbers) {
        size_t n = strlen(r->name) + 1;
        numbers = calloc(1, sizeof *numbers + n);
        if (!numbers)
            return PP_ENOMEM;
        memcpy(numbers->name, r->name, n);
        if (!pp_memory_sorted_put(&s->numbers, r->name, by_name, numbers))
            return PP_ENOMEM;
    }
    r->first = numbers->last + 1;
    numbers->last += r->n;
    return PP_OK;
}

/* --- the coordinator's data set, the installation --- */

enum pp_err pp_ms_run_generation(struct pp_memory_store *s, struct pp_store_generation *r)
{
    if (!s->dataset)
        s->dataset = strdup(r->dataset);
    if (!s->dataset)
        return PP_ENOMEM;
    r->first = !strcmp(s->dataset, r->dataset);
    return PP_OK;
}

enum pp_err pp_ms_run_installation(struct pp_memory_store *s, struct pp_store_installation *r)
{
    if (!s->installation)
        s->installation = strdup(r->mine);
    if (!s->installation)
        return PP_ENOMEM;
    snprintf(r->id, sizeof r->id, "%s", s->installation);
    return PP_OK;
}
