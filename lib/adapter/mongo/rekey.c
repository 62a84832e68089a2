/* rekey.c: gives the photos of an older database the keys of their canonical URLs. Up to version 5
 * each spelling of a URL was a photo of its own, so several photos may become one.
 *
 * Runs while the schema is migrated, page by page of items. meta/rekey has the _id of the last item
 * that is done (`after`), and which keys of the page after it change (`todo`), written before the
 * first of them changes. After a crash the next process repeats the page: each step can be
 * repeated. For each key that changes:
 *
 *   a settled task of the old key: finish it
 *   items that wait for the old key: wait for the new one, under which they get the outcome
 *   the page's other items: the new key
 *   the photo's document: insert it under the new key, or merge it into the one that is there;
 *     a task moves with it, unless that one has a task; a claimed one waits again
 *   remove the old document
 *
 * A process of an older version may work meanwhile. What it settles under an old key that is gone
 * is stale, and the photo is fetched again. Photos that it plans after their page was done keep
 * their keys, as do photos whose items were all deleted: an import fetches them again. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "steps.h"

/* ID_MAX: size of the _id of an item, CLIENT/ITEM/REVISION, with its NUL. */
enum { PAGE_ITEMS = 200, PAGE_KEYS = 2000, REKEY_TRIES = 5, ID_MAX = PP_CLIENT_MAX + 256 + 16 };

/* A key that changes. */
struct rekey {
    const char *client;
    struct pp_key was, key;
};

struct rekeying {
    struct pp_mg_thread *t;
    char after[ID_MAX]; /* the page is the items that follow this one, */
    const char *last;   /* up to this one; in t->tmp, as `todo` and its strings */
    struct rekey *todo;
    size_t n, cap;
    size_t items; /* number of items of the page */
};

/* --- what must change --- */

static void add_todo(struct rekeying *r, const char *client, const struct pp_key *was,
                     const struct pp_key *key)
{
    for (size_t i = 0; i < r->n; i++)
        if (!memcmp(&r->todo[i].was, was, sizeof *was) && !strcmp(r->todo[i].client, client))
            return;
    if (pp_mg_grow(r->t, &r->t->tmp, &r->todo, sizeof *r->todo, r->n, &r->cap))
        r->todo[r->n++] = (struct rekey){client, *was, *key};
}

static const struct pp_mg_field photo_fields[] = {PP_MG_FIELD_BYTES("u", struct pp_item_photo, url, url_n),
                                                  PP_MG_FIELD("k", struct pp_item_photo, key),
                                                  {NULL}};
static const struct pp_mg_field item_fields[] = {
    PP_MG_FIELD_TEXT("_id", struct pp_item, id),
    PP_MG_FIELD_TEXT("c", struct pp_item, client),
    PP_MG_FIELD_LIST("ph", struct pp_item, photos, n_photos, photo_fields),
    {NULL}};

/* Reads the next items, and finds the keys that change. The page ends before it has too many. */
static void read_page(struct rekeying *r)
{
    r->todo = NULL;
    r->n = r->cap = r->items = 0;
    r->last = r->after;
    pp_mg_query(r->t, MQ_REKEY_ITEMS, "si", r->after, (int64_t)PAGE_ITEMS);
    for (const bson_t *doc; r->n < PAGE_KEYS && (doc = pp_mg_next(r->t));) {
        struct pp_item item = {0};
        pp_mg_fail(r->t, pp_mg_read(doc, item_fields, &r->t->tmp, &item));
        if (r->t->err != PP_OK)
            return;
        for (uint32_t i = 0; i < item.n_photos; i++) {
            const struct pp_item_photo *p = &item.photos[i];
            struct pp_key key = r->t->m->key_of(item.client, p->url, p->url_n);
            if (memcmp(&key, &p->key, sizeof key) != 0)
                add_todo(r, item.client, &p->key, &key);
        }
        r->last = item.id;
        r->items++;
    }
}

/* --- meta/rekey --- */

static void write_state(struct rekeying *r, const char *after)
{
    bson_t todo = BSON_INITIALIZER;
    for (size_t i = 0; i < r->n; i++)
        pp_mg_append_item(r->t, MQ_REKEY_TODO, &todo, (uint32_t)i, "skk", r->todo[i].client, &r->todo[i].was,
                          &r->todo[i].key);
    pp_mg_write(r->t, MQ_REKEY_SET, "sA", after, &todo);
    bson_destroy(&todo);
}

static const struct pp_mg_field todo_fields[] = {PP_MG_FIELD_TEXT("c", struct rekey, client),
                                                 PP_MG_FIELD("was", struct rekey, was),
                                                 PP_MG_FIELD("key", struct rekey, key),
                                                 {NULL}};
struct state {
    const char *after;
    struct rekey *todo;
    uint32_t n;
};
static const struct pp_mg_field state_fields[] = {
    PP_MG_FIELD_TEXT("after", struct state, after),
    PP_MG_FIELD_LIST("todo", struct state, todo, n, todo_fields),
    {NULL}};

/* Reads how far an earlier process has come. */
static void read_state(struct rekeying *r)
{
    struct state state = {.after = ""};
    pp_mg_one(r->t, MQ_REKEY_STATE, state_fields, &r->t->tmp, &state, "");
    snprintf(r->after, sizeof r->after, "%s", state.after);
    r->todo = state.todo;
    r->n = r->cap = state.n;
}

/* --- one key --- */

/* Reads a photo's document, in scratch memory. If its task is settled, finishes it first. NULL:
 * there is none, or the operation has failed. */
static const bson_t *read_photo(struct pp_mg_thread *t, const char *client, const struct pp_key *key)
{
    for (int try = 0; try < REKEY_TRIES && t->err == PP_OK; try++) {
        const bson_t *row = pp_mg_first(t, MQ_PHOTO, "sk", client, key);
        if (!row)
            return NULL;
        if (pp_mg_doc_int(row, "t.s") != PP_MG_SETTLED) {
            uint8_t *bytes = pp_mg_array(t, row->len, 1);
            bson_t *doc = pp_mg_array(t, 1, sizeof *doc);
            if (!bytes || !doc)
                return NULL;
            memcpy(bytes, bson_get_data(row), row->len);
            pp_mg_require(t, bson_init_static(doc, bytes, row->len), PP_ECORRUPT);
            return t->err == PP_OK ? doc : NULL;
        }
        struct pp_mg_answer answer = {client, *key, pp_mg_settled_outcome(t, row), pp_mg_doc_int(row, "t.n")};
        pp_mg_finish_tasks(t, &answer, 1, pp_clock_date_ms());
    }
    pp_mg_fail(t, PP_EIO);
    return NULL;
}

/* Appends the task of a document to `out`, as it waits under its new key. */
static void copy_task(const bson_t *doc, const struct pp_key *key, bson_t *out)
{
    static const char *const claim[] = {"w", "n", "lu", "lv", "s", "h", NULL};
    bson_iter_t it, in;
    if (!pp_mg_find(doc, "t", &it) || !bson_iter_recurse(&it, &in))
        return;
    BSON_APPEND_INT32(out, "s", PP_MG_WAITING);
    BSON_APPEND_INT64(out, "h", pp_mg_hash(key));
    while (bson_iter_next(&in)) {
        bool ours = false;
        for (size_t i = 0; claim[i]; i++)
            ours |= !strcmp(bson_iter_key(&in), claim[i]);
        if (!ours)
            bson_append_iter(out, NULL, 0, &in);
    }
}

/* Inserts the document under its new key. Returns false if there is one. */
static bool insert_copy(struct pp_mg_thread *t, const bson_t *from, const struct pp_key *key)
{
    bson_t doc = BSON_INITIALIZER, task = BSON_INITIALIZER;
    bson_iter_t it;
    pp_mg_put_bytes(&doc, "_id", 3, key->b, sizeof key->b);
    for (bson_iter_init(&it, from); bson_iter_next(&it);)
        if (strcmp(bson_iter_key(&it), "_id") != 0 && strcmp(bson_iter_key(&it), "t") != 0)
            bson_append_iter(&doc, NULL, 0, &it);
    copy_task(from, key, &task);
    if (!bson_empty(&task))
        BSON_APPEND_DOCUMENT(&doc, "t", &task);
    struct pp_mg_done done = pp_mg_write(t, MQ_REKEY_INSERT, "D", &doc);
    bson_destroy(&task);
    bson_destroy(&doc);
    return done.n_dups == 0;
}

/* Writes the merged record into the document of the new key. */
static void merge_record(struct pp_mg_thread *t, const struct rekey *k, const bson_t *from, const bson_t *to)
{
    struct pp_photo a, b;
    pp_mg_fail(t, pp_mg_read_photo(from, &t->tmp, &a));
    pp_mg_fail(t, pp_mg_read_photo(to, &t->tmp, &b));
    if (t->err != PP_OK || !a.found)
        return;
    struct pp_photo p = pp_photo_merged(&a, &b);
    int64_t code = p.fail_code, streak = p.fail_streak, skips = p.skips;
    bool fails = p.fail_code != 0, bytes = p.object.type != 0;
    pp_mg_write(t, MQ_REKEY_RECORD, "ksOIssIIIIsyyyy", &k->key, k->client, &p.object,
                bytes ? &p.fetched_at : NULL, p.etag, p.last_modified, fails ? &code : NULL,
                fails ? &streak : NULL, fails ? &skips : NULL, fails ? &p.failed_at : NULL, p.fail_detail,
                !p.etag, !p.last_modified, !fails, !p.fail_detail);
}

/* Moves the task to the document of the new key, or lets its waiters join the task there. Returns
 * false if the document has changed meanwhile. */
static bool merge_task(struct pp_mg_thread *t, const struct rekey *k, const bson_t *from, const bson_t *to)
{
    bool ok = true;
    if (pp_mg_doc_int(from, "t.s") == 0)
        return true;
    if (pp_mg_doc_int(to, "t.s") != 0) {
        const void *key = &k->key;
        ok = pp_mg_write(t, MQ_TASK_JOIN, "sK", k->client, key, (size_t)1, sizeof k->key).matched == 1;
        if (ok && pp_mg_doc_int(from, "t.al"))
            pp_mg_write(t, MQ_TASK_ALWAYS, "sK", k->client, key, (size_t)1, sizeof k->key);
        return ok;
    }
    bson_t task = BSON_INITIALIZER;
    copy_task(from, &k->key, &task);
    ok = pp_mg_write(t, MQ_REKEY_TASK, "ksD", &k->key, k->client, &task).matched == 1;
    bson_destroy(&task);
    return ok;
}

/* Moves the photo's document to its new key. Returns false if it has changed meanwhile. */
static bool move_photo(struct pp_mg_thread *t, const struct rekey *k)
{
    const bson_t *from = read_photo(t, k->client, &k->was);
    if (!from)
        return true; /* it never existed, or an earlier try has moved it */
    const bson_t *to = read_photo(t, k->client, &k->key);
    if (!to && t->err == PP_OK && !insert_copy(t, from, &k->key))
        return false;
    if (to)
        merge_record(t, k, from, to);
    if (to && !merge_task(t, k, from, to))
        return false;
    return pp_mg_write(t, MQ_REKEY_REMOVE, "ksi", &k->was, k->client, pp_mg_doc_int(from, "e")).deleted == 1;
}

static void change_key(struct rekeying *r, const struct rekey *k)
{
    struct pp_mg_thread *t = r->t;
    read_photo(t, k->client, &k->was);
    pp_mg_write(t, MQ_REKEY_OPEN, "skk", k->client, &k->was, &k->key);
    if (r->last != r->after)
        pp_mg_write(t, MQ_REKEY_ITEM, "ssskk", r->after, r->last, k->client, &k->was, &k->key);
    for (int try = 0; t->err == PP_OK && !move_photo(t, k); try++)
        pp_mg_require(t, try < REKEY_TRIES, PP_EIO);
}

static void change_keys(struct rekeying *r)
{
    for (size_t i = 0; i < r->n && r->t->err == PP_OK; i++)
        change_key(r, &r->todo[i]);
}

/* --- together --- */

/* Records that the page is done, and frees what it took. */
static void end_page(struct rekeying *r)
{
    r->n = 0;
    write_state(r, r->last);
    snprintf(r->after, sizeof r->after, "%s", r->last);
    r->todo = NULL;
    r->last = r->after;
    r->t->moved = (struct pp_mg_moved){.arena = &r->t->tmp};
    pp_arena_fini(&r->t->tmp);
}

bool pp_mg_rekey(struct pp_mg_thread *t, bool (*keep)(struct pp_mg_thread *t, void *data), void *data)
{
    struct rekeying r = {.t = t};
    if (!t->m->key_of)
        return true;
    read_state(&r);
    r.last = r.after;
    change_keys(&r);
    while (t->err == PP_OK) {
        if (!keep(t, data))
            return false;
        read_page(&r);
        if (t->err != PP_OK || r.items == 0)
            break;
        if (r.n > 0) {
            write_state(&r, r.after);
            change_keys(&r);
        }
        end_page(&r);
    }
    pp_mg_write(t, MQ_REKEY_END, "");
    return t->err == PP_OK;
}
