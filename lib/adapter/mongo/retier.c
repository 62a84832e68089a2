/* retier.c: a domain's tasks that were never tried move to another tier. README.md, "retier".
 *
 * The client's waiting tasks are read once, and changed a slice at a time by _id while they still are what
 * they were. A crash in between leaves some of them where they were; a task that is claimed meanwhile stays
 * in its tier. */
#include "tasks.h"

struct moving {
    struct pp_mg_thread *t;
    const struct pp_store_retier *r;
    struct pp_key *keys; /* the slice */
    size_t n;
    uint64_t moved;
};

/* Suspects have been tried. */
static void put_untried(const struct pp_store_retier *r, bson_t *b)
{
    bson_t sub;
    BSON_APPEND_UTF8(b, F_CLIENT, r->client);
    BSON_APPEND_INT32(b, F_T_STATE, PP_MG_WAITING);
    BSON_APPEND_DOCUMENT_BEGIN(b, F_T_QUEUE, &sub);
    BSON_APPEND_INT32(&sub, "$lt", PP_QUEUE_SUSPECT);
    bson_append_document_end(b, &sub);
    pp_mg_put_text(b, F_T_DOMAIN, r->domain);
    BSON_APPEND_INT32(b, F_T_ATTEMPTS, 0);
}

static enum pp_err update(struct moving *m)
{
    bson_t sub, filter = BSON_INITIALIZER, change = BSON_INITIALIZER;
    struct pp_mg_many done;
    put_untried(m->r, &filter);
    pp_mg_put_keys_in(&filter, F_ID, m->keys, m->n);
    BSON_APPEND_DOCUMENT_BEGIN(&change, "$set", &sub);
    BSON_APPEND_INT32(&sub, F_T_QUEUE, m->r->tier);
    BSON_APPEND_INT32(&sub, F_T_TIER, m->r->tier);
    BSON_APPEND_INT64(&sub, F_T_DUE, m->r->due_ms);
    BSON_APPEND_INT64(&sub, F_T_SECOND, pp_mg_second(m->r->due_ms));
    bson_append_document_end(&change, &sub);
    enum pp_err err = pp_mg_update_many_hint(m->t, PP_MG_PHOTOS, &filter, &change, "_id_", &done);
    bson_destroy(&filter);
    bson_destroy(&change);
    m->moved += err == PP_OK ? done.matched : 0;
    return err;
}

/* Repeating it changes nothing, so an unknown outcome is asked for again. */
static enum pp_err move_slice(struct moving *m)
{
    enum pp_err err = PP_OK;
    if (m->n > 0)
        err = update(m);
    if (err == PP_EUNKNOWN)
        err = update(m);
    m->n = 0;
    return err;
}

static struct pp_mg_rows find_untried(struct moving *m)
{
    bson_t sub, filter = BSON_INITIALIZER, opts = BSON_INITIALIZER;
    put_untried(m->r, &filter);
    BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &sub);
    BSON_APPEND_INT32(&sub, F_T_TIER, 1);
    BSON_APPEND_INT32(&sub, F_T_DUE, 1);
    bson_append_document_end(&opts, &sub);
    BSON_APPEND_UTF8(&opts, "hint", "claim");
    struct pp_mg_rows rows = pp_mg_find(m->t, PP_MG_PHOTOS, &filter, &opts);
    bson_destroy(&filter);
    bson_destroy(&opts);
    return rows;
}

static enum pp_err move_all(struct moving *m)
{
    const bson_t *doc;
    bson_iter_t it;
    enum pp_err err = PP_OK, end;
    struct pp_mg_rows rows = find_untried(m);
    while (err == PP_OK && (doc = pp_mg_next(&rows))) {
        if (pp_mg_doc_int(doc, F_T_TIER) == m->r->tier && pp_mg_doc_int(doc, F_T_DUE) == m->r->due_ms)
            continue;
        err = bson_iter_init_find(&it, doc, F_ID) ? pp_mg_read_key(&it, &m->keys[m->n++]) : PP_ECORRUPT;
        if (err == PP_OK && m->n == PP_MG_COMMAND_DOCS)
            err = move_slice(m);
    }
    end = pp_mg_rows_end(&rows);
    if (err == PP_OK)
        err = end;
    return err == PP_OK ? move_slice(m) : err;
}

enum pp_err pp_mg_retier(struct pp_mg_thread *t, struct pp_store_retier *r)
{
    struct moving m = {.t = t, .r = r};
    r->n = 0;
    if (r->tier >= PP_QUEUE_SUSPECT)
        return PP_EINVAL;
    m.keys = pp_arena_array(&t->tmp, PP_MG_COMMAND_DOCS, sizeof *m.keys);
    if (!m.keys)
        return PP_ENOMEM;
    enum pp_err err = move_all(&m);
    r->n = m.moved;
    return err;
}
