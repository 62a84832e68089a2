/* retier.c: moves a domain's tasks that were never tried to another tier. README.md, "retier".
 *
 * The client's waiting tasks are read once, and changed by _id in slices, each task only if it
 * is still untried. A crash leaves some tasks in their tier. A task that is claimed meanwhile
 * stays in its tier. */
#include "ops.h"

struct moving {
    struct pp_mg_thread *t;
    struct pp_store_retier *r;
    struct pp_key *keys; /* keys of the slice's tasks */
    size_t n;
};

static enum pp_err move(struct moving *m)
{
    const struct pp_store_retier *r = m->r;
    struct pp_mg_done done;
    enum pp_err err = pp_mg_write(m->t, MQ_RETIER, &done, "ssKdii", r->client, r->domain, m->keys, m->n,
                                  r->tier, r->due_ms, pp_mg_second(r->due_ms));
    m->r->n += err == PP_OK ? done.matched : 0;
    return err;
}

/* Moves the slice. If the outcome is unknown, moves it a second time, which does not change tasks
 * that have moved. */
static enum pp_err move_slice(struct moving *m)
{
    enum pp_err err = m->n > 0 ? move(m) : PP_OK;
    if (err == PP_EUNKNOWN)
        err = move(m);
    m->n = 0;
    return err;
}

static enum pp_err on_untried(void *data, const bson_t *doc)
{
    struct moving *m = data;
    if (pp_mg_doc_int(doc, "t.tier") == m->r->tier && pp_mg_doc_int(doc, "t.due") == m->r->due_ms)
        return PP_OK;
    pp_assert(m->n < PP_MG_COMMAND_DOCS, "a slice of tasks holds more than a command takes");
    enum pp_err err = pp_mg_doc_key(doc, &m->keys[m->n++]);
    return err == PP_OK && m->n == PP_MG_COMMAND_DOCS ? move_slice(m) : err;
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
    enum pp_err err = pp_mg_each(t, MQ_RETIER_FIND, on_untried, &m, "ss", r->client, r->domain);
    return err == PP_OK ? move_slice(&m) : err;
}
