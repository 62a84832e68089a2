/* store_park.c: parks the tasks of a host and unparks them, by the rules of photopool/task_rules.h;
 * lists the clients of a host; forgets recorded failures. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* --- park, unpark --- */

/* Changes the times of a task, which are by the server's clock. Returns false if they stay. */
typedef bool change_fn(struct pp_task_times *times, const void *how, const struct pp_req *req);

struct changing {
    struct pp_memory_store *s;
    const struct pp_req *req;
    uint64_t tasks, most;           /* number of tasks that changed; at most this many may */
    struct pp_backlog_row *backlog; /* has room for all queues of the clients */
    size_t n_backlog;
};

static bool park_task(struct pp_task_times *times, const void *how, const struct pp_req *req)
{
    const struct pp_park_row *row = how;
    int64_t until = row->pause ? 0 : pp_ms_server_time_or_0(req, row->wait_until_ms);
    return pp_task_park(times, pp_ms_server_time(req, row->due_ms), until);
}

static bool unpark_task(struct pp_task_times *times, const void *how, const struct pp_req *req)
{
    return pp_task_unpark(times, pp_ms_server_time(req, *(const int64_t *)how));
}

static bool probe_task(struct pp_task_times *times, const void *how, const struct pp_req *req)
{
    return pp_task_probe(times, pp_ms_server_time(req, *(const int64_t *)how));
}

/* Changes a task, if it waits. Returns false if out of memory. */
static bool change_task(struct changing *c, struct pp_ms_task *t, change_fn *change, const void *how)
{
    struct pp_task_times times = t->times;
    if (t->state != PP_TASK_WAITING || !change(&times, how, c->req))
        return true;
    if (!pp_ms_backlog_add(c->backlog, &c->n_backlog, c->req->arena, t->photo->client->name, t->queue,
                           pp_ms_our_time(c->req, times.due_ms)))
        return false;
    pp_ms_task_requeue(c->s, t, t->queue, times);
    c->tasks++;
    return true;
}

/* Changes the waiting tasks of all clients on all hosts. Returns false if out of memory. */
static bool change_all(struct changing *c, change_fn *change, const void *how)
{
    bool ok = true;
    pp_list_each (at, &c->s->tasks)
        ok = ok && change_task(c, pp_container_of(at, struct pp_ms_task, node), change, how);
    return ok;
}

/* Changes the waiting tasks of a client on a host. Returns false if out of memory. */
static bool change_tasks(struct changing *c, const char *client, const char *domain, change_fn *change,
                         const void *how)
{
    struct pp_ms_client *owner = pp_ms_client(c->s, client, false);
    struct pp_ms_domain *d = owner ? pp_ms_domain(owner, domain, false) : NULL;
    bool ok = true;
    struct pp_node *at = d ? d->tasks.head.next : NULL;
    for (; d && ok && c->tasks < c->most && at != &d->tasks.head; at = at->next)
        ok = change_task(c, pp_container_of(at, struct pp_ms_task, in_domain), change, how);
    return ok;
}

enum pp_err pp_ms_run_park(struct pp_memory_store *s, struct pp_store_park *r)
{
    struct changing c = {.s = s, .req = &r->req, .most = UINT64_MAX};
    bool ok = true;
    r->backlog = c.backlog = pp_arena_array(r->req.arena, r->n * PP_QUEUES, sizeof *c.backlog);
    if (!c.backlog)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n && ok; i++)
        ok = change_tasks(&c, r->rows[i].client, r->rows[i].domain, park_task, &r->rows[i]);
    r->tasks = c.tasks;
    r->n_backlog = c.n_backlog;
    return ok ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_ms_run_unpark(struct pp_memory_store *s, struct pp_store_unpark *r)
{
    struct changing c = {.s = s, .req = &r->req, .most = r->probes ? r->probes : UINT64_MAX};
    size_t clients = r->domain ? r->n : HASH_COUNT(s->clients);
    pp_assert(r->domain || (r->n == 0 && r->probes == 0), "clients or probes without a host");
    r->backlog = c.backlog = pp_arena_array(r->req.arena, clients * PP_QUEUES, sizeof *c.backlog);
    if (!c.backlog)
        return PP_ENOMEM;
    bool ok = r->domain || change_all(&c, unpark_task, &r->now_ms);
    for (size_t i = 0; i < r->n && ok; i++)
        ok = change_tasks(&c, r->clients[i], r->domain, r->probes ? probe_task : unpark_task, &r->now_ms);
    r->tasks = c.tasks;
    r->n_backlog = c.n_backlog;
    return ok ? PP_OK : PP_ENOMEM;
}

/* --- clients of a host --- */

/* Returns how many tasks of the client wait on the host, but at most `max`. */
static uint64_t waiting(struct pp_ms_client *c, const char *domain, uint64_t max)
{
    const struct pp_ms_domain *d = pp_ms_domain(c, domain, false);
    uint64_t n = 0;
    for (const struct pp_node *at = d ? d->tasks.head.next : NULL; d && at != &d->tasks.head; at = at->next) {
        if (n == max)
            break;
        n += pp_container_of(at, struct pp_ms_task, in_domain)->state == PP_TASK_WAITING;
    }
    return n;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Pages are in order of the clients' names. */
enum pp_err pp_ms_run_host_clients(struct pp_memory_store *s, struct pp_store_host_clients *r)
{
    struct pp_ms_client *c, *next;
    size_t n = 0;
    const char **all = pp_arena_array(r->req.arena, HASH_COUNT(s->clients), sizeof *all);
    r->n = 0;
    r->tasks = 0;
    r->more = false;
    if (!all)
        return PP_ENOMEM;
    HASH_ITER (hh, s->clients, c, next) {
        r->tasks += waiting(c, r->domain, r->count_max - r->tasks);
        if ((!r->after || strcmp(c->name, r->after) > 0) && waiting(c, r->domain, 1) > 0)
            all[n++] = c->name;
    }
    qsort(all, n, sizeof *all, by_name);
    r->clients = all;
    r->more = n > r->limit;
    for (size_t end = r->more ? r->limit : n; r->n < end; r->n++) {
        all[r->n] = pp_arena_strdup(r->req.arena, all[r->n]);
        if (!all[r->n])
            return PP_ENOMEM;
    }
    return PP_OK;
}

/* --- recorded failures --- */

static bool forget(struct pp_ms_photo *photo, const char *domain)
{
    struct pp_photo *record = &photo->record;
    if (!record->fail_code || (domain && (!photo->failed_at || strcmp(photo->failed_at->name, domain) != 0)))
        return false;
    pp_ms_text_drop(record->fail_detail);
    record->fail_detail = NULL;
    record->fail_code = record->fail_streak = record->skips = 0;
    record->failed_at = 0;
    record->found = record->object.type != 0;
    photo->failed_at = NULL;
    return true;
}

enum pp_err pp_ms_run_forget_failures(struct pp_memory_store *s, struct pp_store_forget_failures *r)
{
    struct pp_ms_client *c, *next_client;
    struct pp_ms_photo *photo, *next_photo;
    r->photos = 0;
    HASH_ITER (hh, s->clients, c, next_client) {
        if (r->client && strcmp(c->name, r->client) != 0)
            continue;
        HASH_ITER (hh, c->photos, photo, next_photo) {
            r->photos += forget(photo, r->domain);
        }
    }
    return PP_OK;
}
