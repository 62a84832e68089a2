/* retier.c: moves a domain's tasks that were never tried to another tier. README.md, "retier".
 *
 * The client's waiting tasks are read once, and changed by _id in slices, each task only if it
 * is still untried. A crash leaves some tasks in their tier. A task that is claimed meanwhile
 * stays in its tier. */
#include "steps.h"

/* Moves the tasks. If the outcome is unknown, moves them a second time, which does not change tasks
 * that have moved. */
static void move(struct pp_mg_thread *t, struct pp_store_retier *r, enum pp_mg_command command,
                 int64_t due_ms, const struct pp_key *keys, size_t n)
{
    for (int try = 0; n > 0 && try < 2; try++) {
        if (try > 0 && t->err != PP_EUNKNOWN)
            return;
        t->err = PP_OK;
        struct pp_mg_done done = pp_mg_write(t, command, "ssKdii", r->client, r->domain, PP_MG_LIST(keys, n),
                                             r->tier, due_ms, pp_mg_second(due_ms));
        r->n += t->err == PP_OK ? done.matched : 0;
    }
}

/* A slice of tasks to move, of those that are parked or of those that are not. */
struct moving {
    enum pp_mg_command command;
    struct pp_key *keys;
    size_t n;
};

void pp_mg_retier(struct pp_mg_thread *t, struct pp_store_retier *r)
{
    struct moving slices[2] = {{.command = MQ_RETIER}, {.command = MQ_RETIER_PARKED}};
    int64_t due_ms = pp_mg_server_ms(t, r->due_ms);
    r->n = 0;
    pp_mg_require(t, r->tier < PP_QUEUE_SUSPECT, PP_EINVAL);
    for (size_t i = 0; i < 2; i++)
        slices[i].keys = pp_mg_array(t, PP_MG_COMMAND_DOCS, sizeof *slices[i].keys);
    pp_mg_query(t, MQ_RETIER_FIND, "ss", r->client, r->domain);
    for (const bson_t *row; (row = pp_mg_next(t));) {
        bool parked = pp_mg_doc_int(row, "t.pk") != 0;
        struct moving *m = &slices[parked];
        if (pp_mg_doc_int(row, "t.tier") == r->tier &&
            pp_mg_doc_int(row, parked ? "t.pk" : "t.due") == due_ms)
            continue;
        pp_assert(m->n < PP_MG_COMMAND_DOCS, "a slice of tasks holds more than a command takes");
        m->keys[m->n++] = pp_mg_id_key(t, row);
        if (m->n < PP_MG_COMMAND_DOCS || t->err != PP_OK)
            continue;
        move(t, r, m->command, due_ms, m->keys, m->n);
        m->n = 0;
    }
    for (size_t i = 0; i < 2 && t->err == PP_OK; i++)
        move(t, r, slices[i].command, due_ms, slices[i].keys, slices[i].n);
}
