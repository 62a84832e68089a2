/* store_rows.c: finds the rows of the task store, makes them, and frees them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* Finds the row with this text in `table`. If there is none and `make` is true, adds a new one. */
#define FIND_OR_MAKE(table, row, text_member, text, make)                     \
    do {                                                                      \
        size_t n_ = strlen(text);                                             \
        HASH_FIND(hh, (table), (text), (unsigned)n_, (row));                  \
        if ((row) || !(make))                                                 \
            break;                                                            \
        (row) = calloc(1, sizeof *(row) + n_ + 1);                            \
        if (!(row))                                                           \
            break;                                                            \
        memcpy((row)->text_member, (text), n_ + 1);                           \
        if (!PP_HASH_ADD((table), (row)->text_member, (unsigned)n_, (row))) { \
            free(row);                                                        \
            (row) = NULL;                                                     \
        }                                                                     \
    } while (0)

/* Removes a row from its table and frees it. */
#define DROP(table, row)             \
    do {                             \
        HASH_DELETE(hh, table, row); \
        free(row);                   \
    } while (0)

struct pp_ms_client *pp_ms_client(struct pp_memory_store *s, const char *name, bool make)
{
    struct pp_ms_client *c = NULL;
    FIND_OR_MAKE(s->clients, c, name, name, make);
    return c;
}

struct pp_ms_domain *pp_ms_domain(struct pp_ms_client *c, const char *name, bool make)
{
    struct pp_ms_domain *d = NULL;
    FIND_OR_MAKE(c->domains, d, name, name, make);
    if (d && !d->tasks.head.next)
        pp_list_init(&d->tasks);
    return d;
}

struct pp_ms_name *pp_ms_name(struct pp_ms_client *c, const char *id, bool make)
{
    struct pp_ms_name *name = NULL;
    FIND_OR_MAKE(c->names, name, id, id, make);
    return name;
}

struct pp_ms_photo *pp_ms_photo(struct pp_ms_client *c, const struct pp_key *key, bool make)
{
    struct pp_ms_photo *p = NULL;
    HASH_FIND(hh, c->photos, key, sizeof *key, p);
    if (p || !make)
        return p;
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->client = c;
    p->key = *key;
    if (PP_HASH_ADD(c->photos, &p->key, sizeof p->key, p))
        return p;
    free(p);
    return NULL;
}

void pp_ms_record_drop(struct pp_photo *record)
{
    pp_ms_text_drop(record->etag);
    pp_ms_text_drop(record->last_modified);
    pp_ms_text_drop(record->fail_detail);
}

/* --- objects --- */

struct pp_ms_object *pp_ms_object(struct pp_ms_client *c, const struct pp_object *object)
{
    struct pp_ms_object *o = NULL;
    HASH_FIND(hh, c->objects, object->sha256, sizeof object->sha256, o);
    if (!o) {
        o = calloc(1, sizeof *o);
        if (!o)
            return NULL;
        o->object = *object;
        if (!PP_HASH_ADD(c->objects, o->object.sha256, sizeof o->object.sha256, o)) {
            free(o);
            return NULL;
        }
    }
    o->photos++;
    return o;
}

void pp_ms_object_drop(struct pp_ms_client *c, struct pp_ms_object *object)
{
    pp_assert(!object || object->photos > 0, "an object is dropped that no photo has");
    (void)c; /* the client keeps it: results may name it (pp_store_object.former) */
    if (object)
        object->photos--;
}

/* --- workers --- */

struct pp_ms_worker *pp_ms_worker(struct pp_memory_store *s, const char *name, bool make)
{
    struct pp_ms_worker *w = NULL;
    FIND_OR_MAKE(s->workers, w, name, name, make);
    if (w && !w->held.head.next)
        pp_list_init(&w->held);
    return w;
}

void pp_ms_worker_check(struct pp_memory_store *s, struct pp_ms_worker *w)
{
    if (pp_list_empty(&w->held))
        DROP(s->workers, w);
}

/* --- batches --- */

int pp_ms_by_batch_id(const void *key, const void *element)
{
    return strcmp(key, ((const struct pp_ms_batch *)element)->id);
}

struct pp_ms_batch *pp_ms_batch(struct pp_memory_store *s, const char *id)
{
    struct pp_ms_batch *b = NULL;
    FIND_OR_MAKE(s->batches, b, id, id, false);
    return b;
}

struct pp_ms_batch *pp_ms_batch_new(struct pp_memory_store *s, const char *id, struct pp_ms_client *c,
                                    const char *label)
{
    struct pp_ms_batch *b = NULL;
    pp_assert(strlen(id) < PP_BATCH_ID_MAX, "a batch id is too long");
    if (!pp_memory_sorted_reserve(&s->by_id, s->by_id.n + 1))
        return NULL;
    FIND_OR_MAKE(s->batches, b, id, id, true);
    if (!b)
        return NULL;
    b->client = c;
    snprintf(b->label, sizeof b->label, "%s", label ? label : "");
    b->after_seq = s->last_seq;
    pp_list_init(&b->open);
    pp_memory_sorted_insert(&s->by_id, pp_memory_sorted_place(&s->by_id, id, pp_ms_by_batch_id), b);
    return b;
}

static void free_batch(struct pp_memory_store *s, struct pp_ms_batch *b)
{
    free(b->errors);
    free(b->done.at);
    pp_memory_sorted_free(&b->parts);
    DROP(s->batches, b);
}

void pp_ms_batch_free(struct pp_memory_store *s, struct pp_ms_batch *b)
{
    pp_assert(b->finished_at && b->done.n == 0, "a batch is deleted before its items");
    pp_list_remove(&s->finished, &b->in_finished);
    pp_memory_sorted_remove(&s->by_id, pp_memory_sorted_place(&s->by_id, b->id, pp_ms_by_batch_id));
    free_batch(s, b);
}

/* --- the end --- */

static void free_photo(struct pp_ms_client *c, struct pp_ms_photo *photo)
{
    pp_ms_record_drop(&photo->record);
    free(photo->ended);
    DROP(c->photos, photo);
}

static void free_client(struct pp_memory_store *s, struct pp_ms_client *c)
{
    struct pp_ms_photo *photo, *next_photo;
    struct pp_ms_object *object, *next_object;
    struct pp_ms_domain *domain, *next_domain;
    struct pp_ms_name *name, *next_name;
    HASH_ITER (hh, c->photos, photo, next_photo) {
        free_photo(c, photo);
    }
    HASH_ITER (hh, c->objects, object, next_object) {
        DROP(c->objects, object);
    }
    HASH_ITER (hh, c->domains, domain, next_domain) {
        DROP(c->domains, domain);
    }
    HASH_ITER (hh, c->names, name, next_name) {
        DROP(c->names, name);
    }
    DROP(s->clients, c);
}

void pp_ms_forget(struct pp_memory_store *s, const struct pp_ms_item *it)
{
    struct pp_ms_client *c = pp_ms_client(s, it->item.client, false);

    for (uint32_t i = 0; i < it->item.n_photos; i++) {
        struct pp_ms_photo *photo = pp_ms_photo(c, &it->item.photos[i].key, false);
        if (!photo || photo->task)
            continue;
        struct pp_ms_object *object = photo->object;
        if (object && --object->photos == 0)
            DROP(c->objects, object);
        free_photo(c, photo);
    }
    if (!it->name->newest)
        DROP(c->names, it->name);
    if (!c->names && !c->photos)
        free_client(s, c);
}

void pp_ms_rows_free(struct pp_memory_store *s)
{
    struct pp_ms_client *client, *next_client;
    struct pp_ms_worker *worker, *next_worker;
    struct pp_ms_batch *batch, *next_batch;
    HASH_ITER (hh, s->workers, worker, next_worker) {
        DROP(s->workers, worker);
    }
    HASH_ITER (hh, s->batches, batch, next_batch) {
        free_batch(s, batch);
    }
    HASH_ITER (hh, s->clients, client, next_client) {
        free_client(s, client);
    }
    free(s->by_id.at);
    free(s->by_seq.at);
}
