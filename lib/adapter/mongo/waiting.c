/* waiting.c: counts the open photos of batches by the states of their tasks.
 *
 * Two queries a batch: its open items give the keys of their open photos, and the documents of
 * these photos give the tasks. A photo whose task is settled, or gone, is counted as claimed: its
 * outcome is on its way to the item. */
#include <string.h>

#include "steps.h"

struct open_photos {
    struct pp_key *keys; /* a photo that several items wait for is there several times */
    size_t n, room;
};

/* Adds the keys of an item's open photos. */
static void add_item(struct pp_mg_thread *t, const bson_t *item, struct open_photos *o)
{
    bson_iter_t photos = pp_mg_list(t, item, "ph"), photo, key;
    while (bson_iter_next(&photos) && t->err == PP_OK) {
        if (!bson_iter_recurse(&photos, &photo) || bson_iter_find(&photo, "o"))
            continue;
        if (!pp_mg_grow(t, &t->tmp, &o->keys, sizeof *o->keys, o->n, &o->room))
            return;
        if (bson_iter_recurse(&photos, &key) && bson_iter_find(&key, "k"))
            pp_mg_fail(t, pp_mg_read_key(&key, &o->keys[o->n++]));
    }
}

static int by_key(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct pp_key));
}

/* Reads the tasks of the photos, and counts them. Changes `keys`. */
static void count_tasks(struct pp_mg_thread *t, const struct pp_store_waiting *r, struct pp_wait_row *row,
                        struct open_photos *o)
{
    uint32_t *times = pp_mg_array(t, o->n, sizeof *times); /* how many photos have the key */
    size_t n = 0;
    if (!times || o->n == 0)
        return;
    qsort(o->keys, o->n, sizeof *o->keys, by_key);
    for (size_t i = 0; i < o->n; i++) {
        if (n == 0 || memcmp(&o->keys[n - 1], &o->keys[i], sizeof *o->keys) != 0) {
            times[n] = 0;
            o->keys[n++] = o->keys[i];
        }
        times[n - 1]++;
    }
    pp_mg_query(t, MQ_WAITING_TASKS, "sK", row->client, PP_MG_LIST(o->keys, n));
    for (const bson_t *doc; (doc = pp_mg_next(t));) {
        struct pp_key key = pp_mg_id_key(t, doc);
        size_t at = pp_mg_keys_at(o->keys, n, &key);
        int64_t state = pp_mg_doc_int(doc, "t.s"), queue = pp_mg_doc_int(doc, "t.q");
        if (at == n || (state != PP_MG_WAITING && state != PP_MG_CLAIMED) || queue < 0 || queue >= PP_QUEUES)
            continue;
        const struct pp_wait_task task = {.claimed = state == PP_MG_CLAIMED,
                                          .queue = (uint8_t)queue,
                                          .attempts = (uint32_t)pp_mg_doc_int(doc, "t.at"),
                                          .due_ms = pp_mg_our_ms(t, pp_mg_doc_int(doc, "t.due")),
                                          .parked = pp_mg_doc_int(doc, "t.pk") != 0,
                                          .wait_until_ms = pp_mg_our_ms_or_0(t, pp_mg_doc_int(doc, "t.wu"))};
        pp_waits_add(&row->waits, &task, times[at], r->now_ms);
        times[at] = 0;
    }
    for (size_t i = 0; i < n && t->err == PP_OK; i++)
        if (times[i] > 0)
            pp_waits_add(&row->waits, &(struct pp_wait_task){.claimed = true, .due_ms = r->now_ms}, times[i],
                         r->now_ms);
}

void pp_mg_waiting(struct pp_mg_thread *t, struct pp_store_waiting *r)
{
    for (size_t i = 0; i < r->n && t->err == PP_OK; i++) {
        struct pp_wait_row *row = &r->rows[i];
        struct open_photos o = {.n = 0};
        bool more = false;
        row->waits = (struct pp_waits){.photos = 0};
        pp_mg_query(t, MQ_WAITING_ITEMS, "ssi", row->client, row->batch_id, (int64_t)r->limit + 1);
        for (const bson_t *item; (item = pp_mg_next(t));) {
            more = more || o.n >= r->limit;
            if (!more)
                add_item(t, item, &o);
        }
        row->waits.more = more;
        count_tasks(t, r, row, &o);
    }
}
