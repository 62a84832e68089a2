/* dedupe_shards.c: divides requests of the dedupe port by servers.
 *
 *   request --> keys that have moved --> their previous servers --+
 *           \                                                     v
 *            +--> all keys ---------------------------> their current servers --> done
 *
 * Invariants: `parts` counts the requests to servers that have not ended; the caller's rows are
 * only written when a part ends. A server that fails makes no decision for its keys: the request
 * fails only if all its servers fail. */
#include "runtime/dedupe_shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/list.h"
#include "base/shard_map.h"

enum { SERVERS_MAX = 64 };

enum shard_op { SHARD_ask, SHARD_replace, SHARD_tell };

struct shard_server {
    char *name;
    struct pp_dedupe *port;
};

struct shards {
    struct pp_dedupe base;
    struct pp_loop *loop;
    pp_dedupe_open_server *open_server;
    void *data;
    struct pp_shard_map map;
    struct shard_server servers[SERVERS_MAX];
    size_t n;
    struct pp_timer *turn; /* fires for requests that no server took */
    struct pp_list failed; /* such requests, by struct shard_job */
    size_t in_flight;
};

/* A request on its way, in the arena of the request. */
struct shard_job {
    struct pp_node node;
    struct shards *shards;
    struct pp_req *req;
    enum shard_op op;
    char *rows; /* the caller's rows: n of row_size bytes; each begins with its key */
    size_t n, row_size;
    bool previous; /* the parts go to the previous servers */
    size_t parts;
    bool answered;
    enum pp_err err; /* of a server that failed */
};

/* The part of a request for one server. All requests of the port begin like this one. */
struct shard_part {
    union {
        struct pp_req req;
        struct pp_dedupe_ask ask;
        struct pp_dedupe_replace replace;
        struct pp_dedupe_tell tell;
    } r;
    struct shard_job *job;
    uint32_t *index; /* numbers of the caller's rows */
    char *rows;      /* copies of them */
    size_t n;
};

static void run(struct shard_job *job);

static uint64_t hash_of(const char *row)
{
    uint64_t h;

    memcpy(&h, row + 8, sizeof h);
    return h;
}

/* --- answers --- */

static void take_row(const struct shard_job *job, char *to, const char *from)
{
    if (job->op == SHARD_ask) {
        struct pp_dedupe_row *row = (struct pp_dedupe_row *)to;
        const struct pp_dedupe_row *answer = (const struct pp_dedupe_row *)from;
        if (row->other) /* the previous server has decided */
            return;
        row->other = answer->other;
        row->outcome = answer->outcome;
        row->outcome_n = answer->outcome_n;
        row->age_ms = answer->age_ms;
    } else if (job->op == SHARD_replace) {
        struct pp_dedupe_change *row = (struct pp_dedupe_change *)to;
        if (!row->other)
            row->other = ((const struct pp_dedupe_change *)from)->other;
    }
}

static void end(struct shard_job *job)
{
    struct pp_req *req = job->req;

    if (job->op == SHARD_ask) {
        struct pp_dedupe_ask *r = (struct pp_dedupe_ask *)req;
        r->duplicates = 0;
        for (size_t i = 0; i < r->n; i++)
            r->duplicates += r->rows[i].other != 0;
    }
    job->shards->in_flight--;
    pp_req_end(req, job->answered || job->n == 0 ? PP_OK : job->err);
}

static void on_part(struct pp_req *req)
{
    struct shard_part *part = req->data;
    struct shard_job *job = part->job;

    if (req->err == PP_OK)
        for (size_t i = 0; i < part->n; i++)
            take_row(job, job->rows + part->index[i] * job->row_size, part->rows + i * job->row_size);
    else
        job->err = req->err;
    job->answered |= req->err == PP_OK && !job->previous;
    pp_assert(job->parts > 0, "a part of a request ends twice");
    if (--job->parts > 0)
        return;
    if (!job->previous) {
        end(job);
        return;
    }
    job->previous = false;
    run(job);
}

/* --- requests --- */

/* Copies a row into a part. Where the previous server has named another owner, the current one
 * records that owner. */
static void put_row(const struct shard_job *job, struct shard_part *part, size_t i)
{
    char *copy = part->rows + part->n * job->row_size;

    memcpy(copy, job->rows + i * job->row_size, job->row_size);
    if (job->op == SHARD_ask && ((struct pp_dedupe_row *)copy)->other)
        ((struct pp_dedupe_row *)copy)->owner = ((struct pp_dedupe_row *)copy)->other;
    part->index[part->n++] = (uint32_t)i;
}

static enum pp_err submit(struct shard_part *part, struct pp_dedupe *to)
{
    const struct shard_job *job = part->job;

    part->r.req = (struct pp_req){.done = on_part, .data = part, .arena = job->req->arena};
    switch (job->op) {
    case SHARD_ask:
        part->r.ask.rows = (struct pp_dedupe_row *)part->rows;
        part->r.ask.n = part->n;
        return to->ops->ask(to, &part->r.ask);
    case SHARD_replace:
        part->r.replace.rows = (struct pp_dedupe_change *)part->rows;
        part->r.replace.n = part->n;
        return to->ops->replace(to, &part->r.replace);
    case SHARD_tell:
        part->r.tell.rows = (const struct pp_dedupe_outcome *)part->rows;
        part->r.tell.n = part->n;
        return to->ops->tell(to, &part->r.tell);
    }
    return PP_EINVAL;
}

/* Returns false if the row has no part in this step. */
static bool place_of(const struct shard_job *job, size_t i, uint8_t *server)
{
    const struct shards *s = job->shards;
    const char *row = job->rows + i * job->row_size;

    /* A key that its previous owner's server did not change must not change at the current one. */
    if (!job->previous && job->op == SHARD_replace && ((const struct pp_dedupe_change *)row)->other)
        return false;
    if (job->previous)
        return pp_shard_before(&s->map, hash_of(row), pp_loop_now(s->loop), server);
    *server = pp_shard_of(&s->map, hash_of(row));
    return true;
}

static struct shard_part *new_part(struct shard_job *job, size_t n)
{
    struct pp_arena *a = job->req->arena;
    struct shard_part *part = pp_arena_alloc(a, sizeof *part);

    if (!part)
        return NULL;
    part->job = job;
    part->index = pp_arena_array(a, n, sizeof *part->index);
    part->rows = pp_arena_array(a, n, job->row_size);
    return part->index && part->rows ? part : NULL;
}

/* Divides the rows of this step. Returns false when out of memory. */
static bool divide(struct shard_job *job, struct shard_part *parts[SERVERS_MAX])
{
    size_t counts[SERVERS_MAX] = {0};
    uint8_t server;

    for (size_t i = 0; i < job->n; i++)
        if (place_of(job, i, &server))
            counts[server]++;
    for (size_t k = 0; k < job->shards->n; k++) {
        parts[k] = counts[k] ? new_part(job, counts[k]) : NULL;
        if (counts[k] && !parts[k])
            return false;
    }
    for (size_t i = 0; i < job->n; i++)
        if (place_of(job, i, &server) && parts[server])
            put_row(job, parts[server], i);
    return true;
}

static void on_turn(void *data)
{
    struct shards *s = data;
    struct pp_list failed;
    struct pp_node *node;

    pp_list_init(&failed);
    pp_list_splice(&failed, &s->failed);
    while ((node = pp_list_pop(&failed)))
        end(pp_container_of(node, struct shard_job, node));
}

/* Ends the job in the loop's next turn, because nothing is in flight for it. */
static void end_later(struct shard_job *job)
{
    pp_timer_start(job->shards->turn, 0, 0);
    pp_list_push(&job->shards->failed, &job->node);
}

/* Begins the job's step. */
static void run(struct shard_job *job)
{
    struct shard_part *parts[SERVERS_MAX] = {0};
    struct shards *s = job->shards;
    bool ok = divide(job, parts);

    job->parts = 1; /* so that no part that ends meanwhile ends the step */
    for (size_t k = 0; ok && k < s->n; k++) {
        enum pp_err err = parts[k] ? submit(parts[k], s->servers[k].port) : PP_OK;
        if (err != PP_OK)
            job->err = err;
        else if (parts[k])
            job->parts++;
    }
    if (!ok)
        job->err = PP_ENOMEM;
    if (--job->parts > 0)
        return;
    if (job->previous && ok) {
        job->previous = false;
        run(job);
        return;
    }
    job->answered |= ok && job->err == PP_OK;
    end_later(job);
}

static enum pp_err begin(struct pp_dedupe *d, enum shard_op op, struct pp_req *req, void *rows, size_t n,
                         size_t row_size)
{
    struct shards *s = (struct shards *)d;

    if (s->n == 0)
        return PP_EIO;
    struct shard_job *job = pp_arena_alloc(req->arena, sizeof *job);
    if (!job)
        return PP_ENOMEM;
    *job = (struct shard_job){
        .shards = s, .req = req, .op = op, .rows = rows, .n = n, .row_size = row_size, .previous = true};
    s->in_flight++;
    run(job);
    return PP_OK;
}

static enum pp_err ask(struct pp_dedupe *d, struct pp_dedupe_ask *r)
{
    if (!pp_dedupe_ask_valid(r))
        return PP_EINVAL;
    for (size_t i = 0; i < r->n; i++) {
        r->rows[i].other = 0;
        r->rows[i].outcome = NULL;
        r->rows[i].outcome_n = 0;
        r->rows[i].age_ms = 0;
    }
    return begin(d, SHARD_ask, &r->req, r->rows, r->n, sizeof *r->rows);
}

static enum pp_err replace(struct pp_dedupe *d, struct pp_dedupe_replace *r)
{
    if (!pp_dedupe_replace_valid(r))
        return PP_EINVAL;
    for (size_t i = 0; i < r->n; i++)
        r->rows[i].other = 0;
    return begin(d, SHARD_replace, &r->req, r->rows, r->n, sizeof *r->rows);
}

static enum pp_err tell(struct pp_dedupe *d, struct pp_dedupe_tell *r)
{
    if (!pp_dedupe_tell_valid(r))
        return PP_EINVAL;
    /* take_row() does not write to these rows */
    return begin(d, SHARD_tell, &r->req, (void *)(uintptr_t)r->rows, r->n, sizeof *r->rows);
}

/* --- servers --- */

/* Sets *id to the number of a server's port, which is opened if need be. */
static enum pp_err server_of(struct shards *s, const char *name, uint8_t *id)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->servers[i].name, name) == 0) {
            *id = (uint8_t)i;
            return PP_OK;
        }
    if (s->n >= SERVERS_MAX)
        return PP_EFULL;
    struct shard_server server = {.name = strdup(name)};
    enum pp_err err = server.name ? s->open_server(s->data, name, &server.port) : PP_ENOMEM;
    if (err != PP_OK) {
        free(server.name);
        return err;
    }
    *id = (uint8_t)s->n;
    s->servers[s->n++] = server;
    return PP_OK;
}

static bool is_same(const struct pp_shard_map *m, const uint8_t *ids, size_t n)
{
    bool same = n == m->current.n;

    for (size_t i = 0; same && i < n; i++)
        same = memchr(m->current.ids, ids[i], n) != NULL;
    return same;
}

static enum pp_err set_servers(struct pp_dedupe *d, const char *const *names, size_t n)
{
    struct shards *s = (struct shards *)d;
    uint8_t ids[PP_SHARDS_MAX];

    if (n > PP_SHARDS_MAX)
        return PP_EFULL;
    for (size_t i = 0; i < n; i++) {
        enum pp_err err = server_of(s, names[i], &ids[i]);
        if (err != PP_OK)
            return err;
    }
    if (n > 0 && is_same(&s->map, ids, n))
        return PP_OK;
    return pp_shard_map_set(&s->map, names, ids, n, pp_loop_now(s->loop));
}

static bool roundtrips(struct pp_dedupe *d, size_t i, const char **name, uint64_t *n)
{
    struct shards *s = (struct shards *)d;
    uint64_t sum = 0;

    for (size_t k = 0; k < s->n; k++) {
        struct pp_dedupe *port = s->servers[k].port;
        if (!port->ops->roundtrips(port, i, name, n))
            return false;
        sum += *n;
    }
    *n = sum;
    return s->n > 0;
}

static void close_port(struct pp_dedupe *d)
{
    struct shards *s = (struct shards *)d;

    pp_assert(s->in_flight == 0, "a port is closed with requests in flight");
    for (size_t i = 0; i < s->n; i++) {
        s->servers[i].port->ops->close(s->servers[i].port);
        free(s->servers[i].name);
    }
    pp_timer_close(s->turn);
    free(s);
}

static const struct pp_dedupe_ops ops = {
    .ask = ask,
    .replace = replace,
    .tell = tell,
    .servers = set_servers,
    .roundtrips = roundtrips,
    .close = close_port,
};

enum pp_err pp_dedupe_shards_open(struct pp_loop *loop, int64_t young_ms, pp_dedupe_open_server *open_server,
                                  void *data, struct pp_dedupe **out)
{
    struct shards *s = calloc(1, sizeof *s);

    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->loop = loop;
    s->open_server = open_server;
    s->data = data;
    s->turn = pp_timer_open(loop, on_turn, s);
    if (!s->turn) {
        free(s);
        return PP_ENOMEM;
    }
    pp_list_init(&s->failed);
    pp_shard_map_init(&s->map, young_ms);
    *out = &s->base;
    return PP_OK;
}
