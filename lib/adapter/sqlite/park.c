/* park.c: parks the tasks of a host and unparks them, by the rules of photopool/task_rules.h; lists
 * the clients of a host; forgets recorded failures.
 *
 * The operations that write are cut into slices (cancel.c). The index tasks_host gives the tasks of
 * a client on a host in the order of planning, the table itself those of all hosts; a slice
 * continues after the last task that the one before it read. */
#include "base/check.h"
#include "store.h"

/* A slice reads at most PARK_SCAN tasks, and changes at most PARK_CHANGES rows. */
enum { PARK_SCAN = 20000, PARK_CHANGES = 1000 };

/* --- park, unpark --- */

/* A waiting task, from a row of PP_Q_TASK_ON_HOST or PP_Q_TASK_AFTER, with its new times. */
struct parked {
    int64_t num, client;
    uint8_t queue;
    struct pp_task_times times;
};

/* A slice of either operation. */
struct slice {
    struct pp_sw *w;
    struct pp_arena *arena;
    struct parked *found;
    size_t seen, n; /* numbers of tasks that were read, and that change */
    uint64_t most;  /* at most this many tasks change in all slices */
    uint64_t tasks; /* number of tasks that this slice and those before it have changed */
    /* Number of the pair (client, domain) that the slice is at. All hosts together are one pair. */
    size_t at;
    int64_t last; /* number of the last task of this pair that was read */
    struct pp_sw_rows *rows;
};

/* Changes the times of a task; returns false if they stay. */
typedef bool change_fn(struct pp_task_times *times, const void *how, int64_t now_ms);

static bool park_task(struct pp_task_times *times, const void *how, int64_t now_ms)
{
    const struct pp_park_row *row = how;
    (void)now_ms;
    return pp_task_park(times, row->due_ms, row->pause ? 0 : row->wait_until_ms);
}

static bool unpark_task(struct pp_task_times *times, const void *how, int64_t now_ms)
{
    (void)how;
    return pp_task_unpark(times, now_ms);
}

static bool probe_task(struct pp_task_times *times, const void *how, int64_t now_ms)
{
    (void)how;
    return pp_task_probe(times, now_ms);
}

/* Returns how many more tasks the slice may read. */
static int64_t room(const struct slice *s)
{
    return (int64_t)(PARK_SCAN - s->seen);
}

/* Collects the tasks of the pair, which are the rows of `st`, that `change` changes. Returns true
 * if all tasks of the pair have been read. */
static bool collect(struct slice *s, sqlite3_stmt *st, change_fn *change, const void *how, int64_t now_ms)
{
    size_t seen = s->seen;
    s->n = 0;
    while (s->n < PARK_CHANGES && s->tasks + s->n < s->most && pp_sq_row(&s->w->db, st)) {
        struct parked *p = &s->found[s->n];
        seen++;
        s->last = pp_sq_col(st, 0);
        *p = (struct parked){s->last,
                             pp_sq_col(st, 8),
                             (uint8_t)pp_sq_col(st, 2),
                             {pp_sq_col(st, 5), pp_sq_col(st, 6), pp_sq_col(st, 7)}};
        s->n += pp_sq_is_null(st, 1) && change(&p->times, how, now_ms);
    }
    pp_sq_done(st);
    s->seen = seen;
    return s->tasks + s->n == s->most || (s->n < PARK_CHANGES && seen < PARK_SCAN);
}

/* Stores the new times of the tasks that were collected. */
static void change_found(struct slice *s)
{
    struct pp_sw *w = s->w;
    for (size_t i = 0; i < s->n && w->db.err == PP_OK; i++) {
        const struct parked *p = &s->found[i];
        pp_sq_run(&w->db, PP_Q_TASK_TIMES, "iiii", p->num, p->times.due_ms, p->times.own_ms,
                  p->times.wait_until_ms);
        pp_sw_rows_add(w, s->rows, s->arena, pp_sq_name_text(&w->names, p->client), p->queue,
                       p->times.due_ms);
    }
    s->tasks += s->n;
}

/* Changes the tasks of one pair. Returns true if all of them have been read. */
static bool change_pair(struct slice *s, const char *client, const char *domain, change_fn *change,
                        const void *how, int64_t now_ms)
{
    struct pp_sw *w = s->w;
    int64_t client_num = pp_sq_name_num(&w->names, PP_NAME_CLIENT, client);
    int64_t domain_num = pp_sq_name_num(&w->names, PP_NAME_DOMAIN, domain);
    if (!client_num || !domain_num)
        return true;
    bool all =
        collect(s, pp_sq_bind(&w->db, PP_Q_TASK_ON_HOST, "iiii", domain_num, client_num, s->last, room(s)),
                change, how, now_ms);
    change_found(s);
    return all;
}

/* Unparks the tasks of all clients on all hosts. Returns true if all tasks have been read. */
static bool unpark_all(struct slice *s, int64_t now_ms)
{
    bool all =
        collect(s, pp_sq_bind(&s->w->db, PP_Q_TASK_AFTER, "ii", s->last, room(s)), unpark_task, NULL, now_ms);
    change_found(s);
    return all;
}

static bool begin_slice(struct slice *s)
{
    const struct pp_sq_call *call = s->w->group.call;
    s->at = (size_t)call->carry[0];
    s->last = (int64_t)call->carry[1];
    s->tasks = call->carry[2];
    s->found = pp_sq_array(&s->w->db, &s->w->tmp, PARK_CHANGES, sizeof *s->found);
    return s->found;
}

/* Goes to the next pair, after all tasks of the present one have been read. */
static void next_pair(struct slice *s)
{
    s->at++;
    s->last = 0;
}

static void end_slice(struct slice *s, size_t n_pairs)
{
    struct pp_sq_call *call = s->w->group.call;
    pp_assert(s->at <= n_pairs, "a slice is at a pair that was not asked for");
    call->again = s->at < n_pairs;
    call->next[0] = s->at;
    call->next[1] = (uint64_t)s->last;
    call->next[2] = s->tasks;
}

enum pp_err pp_sw_park(struct pp_sw *w, struct pp_store_park *r)
{
    struct pp_sw_rows rows = {0};
    struct slice s = {.w = w, .arena = r->req.arena, .most = UINT64_MAX, .rows = &rows};
    if (!begin_slice(&s))
        return w->db.err;
    if (s.at > 0 || s.last > 0)
        rows = (struct pp_sw_rows){r->backlog, r->n_backlog, r->n_backlog};
    while (s.at < r->n && s.seen < PARK_SCAN && w->db.err == PP_OK) {
        const struct pp_park_row *row = &r->rows[s.at];
        if (!change_pair(&s, row->client, row->domain, park_task, row, r->now_ms))
            break;
        next_pair(&s);
    }
    end_slice(&s, r->n);
    r->tasks = s.tasks;
    r->backlog = rows.rows;
    r->n_backlog = rows.n;
    return w->db.err;
}

enum pp_err pp_sw_unpark(struct pp_sw *w, struct pp_store_unpark *r)
{
    struct pp_sw_rows rows = {0};
    struct slice s = {.w = w, .arena = r->req.arena, .rows = &rows};
    s.most = r->probes ? r->probes : UINT64_MAX;
    change_fn *change = r->probes ? probe_task : unpark_task;
    size_t n_pairs = r->domain ? r->n : 1;
    pp_assert(r->domain || (r->n == 0 && r->probes == 0), "clients or probes without a host");
    if (!begin_slice(&s))
        return w->db.err;
    if (s.at > 0 || s.last > 0)
        rows = (struct pp_sw_rows){r->backlog, r->n_backlog, r->n_backlog};
    while (s.at < n_pairs && s.seen < PARK_SCAN && w->db.err == PP_OK) {
        bool all = r->domain ? change_pair(&s, r->clients[s.at], r->domain, change, NULL, r->now_ms)
                             : unpark_all(&s, r->now_ms);
        if (!all)
            break;
        next_pair(&s);
    }
    end_slice(&s, n_pairs);
    r->tasks = s.tasks;
    r->backlog = rows.rows;
    r->n_backlog = rows.n;
    return w->db.err;
}

/* --- clients of a host --- */

/* Steps along the index from one client to the next: one look-up each, however many tasks wait. */
enum pp_err pp_sr_host_clients(struct pp_sq_db *db, struct pp_store_host_clients *r)
{
    int64_t domain = pp_sq_name_find(db, PP_NAME_DOMAIN, r->domain);
    int64_t client = r->after ? pp_sq_name_find(db, PP_NAME_CLIENT, r->after) : 0;
    r->n = 0;
    r->more = false;
    r->clients = pp_sq_array(db, r->req.arena, r->limit, sizeof *r->clients);
    while (domain && r->clients && !r->more) {
        sqlite3_stmt *st = pp_sq_bind(db, PP_Q_TASK_HOST_CLIENT, "ii", domain, client);
        if (!pp_sq_page(db, st, r->n, r->limit, &r->more))
            break;
        client = pp_sq_col(st, 0);
        r->clients[r->n++] = pp_sq_text(db, r->req.arena, st, 1);
        pp_sq_done(st);
    }
    r->tasks = 0;
    if (domain && r->count_max > 0) {
        sqlite3_stmt *st = pp_sq_bind(db, PP_Q_TASK_HOST_COUNT, "ii", domain, (int64_t)r->count_max);
        r->tasks = pp_sq_row(db, st) ? (uint64_t)pp_sq_col(st, 0) : 0;
        pp_sq_done(st);
    }
    return db->err;
}

/* --- recorded failures --- */

/* A photo with a recorded failure. */
struct failed {
    int64_t num, client;
    struct pp_photo record;
};

/* Reads the next photos with a failure, in order of client. */
static size_t find_failed(struct pp_sw *w, int64_t from, int64_t to, int64_t domain, struct failed *found)
{
    size_t n = 0;
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_PHOTO_FAILED, "iiii", from, to, domain, (int64_t)PARK_CHANGES);
    while (n < PARK_CHANGES && pp_sq_row(&w->db, st)) {
        struct failed *f = &found[n++];
        f->num = pp_sq_col(st, 0);
        f->client = pp_sq_col(st, 1);
        pp_sq_fail(&w->db, pp_unpack_photo(pp_sq_bytes(st, 2), &w->tmp, &f->record));
    }
    pp_sq_done(st);
    return n;
}

static void forget(struct pp_sw *w, struct failed *f)
{
    f->record.fail_code = 0;
    pp_buf_reset(&w->buf);
    pp_pack_photo(&w->buf, &f->record);
    if (w->buf.failed)
        pp_sq_fail(&w->db, PP_ENOMEM);
    pp_sq_run(&w->db, PP_Q_PHOTO_FORGET, "ib", f->num, w->buf.n ? w->buf.p : NULL, w->buf.n);
}

enum pp_err pp_sw_forget_failures(struct pp_sw *w, struct pp_store_forget_failures *r)
{
    struct pp_sq_call *call = w->group.call;
    int64_t client = r->client ? pp_sq_name_num(&w->names, PP_NAME_CLIENT, r->client) : 0;
    int64_t domain = r->domain ? pp_sq_name_num(&w->names, PP_NAME_DOMAIN, r->domain) : -1;
    r->photos = call->carry[1];
    if ((r->client && !client) || (r->domain && !domain))
        return w->db.err;
    struct failed *found = pp_sq_array(&w->db, &w->tmp, PARK_CHANGES, sizeof *found);
    int64_t from = r->client ? client : (int64_t)call->carry[0];
    size_t n = found ? find_failed(w, from, r->client ? client : INT64_MAX, domain, found) : 0;
    for (size_t i = 0; i < n && w->db.err == PP_OK; i++)
        forget(w, &found[i]);
    r->photos += n;
    call->again = n == PARK_CHANGES;
    call->next[0] = n > 0 ? (uint64_t)found[n - 1].client : 0;
    call->next[1] = r->photos;
    return w->db.err;
}
