/* s3_clients.c: the clients that have something to do here, and their settings. Their slots are in
 * s3_slots.c. See s3_claim.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/s3_internal.h"

/* After the store has failed. */
#define TRY_AGAIN_MS 1000

struct settings_load {
    struct pp_store_clients r; /* `ids` are in the arena: their clients may go meanwhile */
    struct pp_arena arena;
    struct pp_s3 *s3;
};

struct s3_client *s3_client_find(const struct pp_s3 *s3, const char *id)
{
    struct s3_client *c;
    HASH_FIND_STR(s3->clients, id, c);
    return c;
}

struct s3_client *s3_client_get(struct pp_s3 *s3, const char *id)
{
    struct s3_client *c = s3_client_find(s3, id);
    if (c || strlen(id) > PP_CLIENT_MAX)
        return c;
    c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->s3 = s3;
    c->stale = true;
    memcpy(c->id, id, strlen(id) + 1);
    pp_list_init(&c->hops);
    pp_ratelimit_init(&c->rate, 0);
    c->active_ms = s3_now(s3);
    HASH_ADD_STR(s3->clients, id, c);
    return c;
}

void s3_client_free(struct s3_client *c)
{
    assert(c->unsettled == 0 && pp_list_empty(&c->hops));
    HASH_DEL(c->s3->clients, c);
    pp_headers_unref(c->headers);
    pp_ratelimit_fini(&c->rate);
    free(c->late);
    free(c);
}

void s3_clients_free(struct pp_s3 *s3)
{
    struct s3_client *c, *next;
    HASH_ITER (hh, s3->clients, c, next)
        s3_client_free(c);
}

void s3_unblock_in(struct s3_client *c, int64_t ms)
{
    int64_t due = s3_wall(c->s3) + ms;
    for (uint8_t q = 0; c->blocked != 0 && q < PP_QUEUES; q++)
        if ((c->blocked & (1u << q)) && pp_backlog_put(c->s3->backlog, c->id, q, due) == PP_OK)
            c->blocked &= ~(1u << q);
    s3_wake(c->s3);
}

/* --- settings --- */

static void apply(struct s3_client *c, const struct pp_client *settings)
{
    const struct pp_params *params = c->s3->p->params;
    char bad[65];

    c->own_rpm = settings && settings->rpm_set;
    c->own_concurrency = settings && settings->concurrency > 0;
    c->rpm = params->client_rpm;
    c->concurrency = params->client_concurrency;
    c->weight = 1;
    c->paused = false;
    pp_headers_unref(c->headers);
    c->headers = NULL;
    if (!settings)
        return;
    if (c->own_rpm)
        c->rpm = settings->rpm_unlimited ? 0 : settings->rpm;
    if (c->own_concurrency)
        c->concurrency = settings->concurrency;
    if (settings->weight > 0)
        c->weight = settings->weight;
    c->paused = settings->paused;
    if (pp_headers_parse(settings->headers, &c->headers, bad) != PP_OK)
        pp_log(c->s3->p->log, PP_LOG_WARN, "client headers left out", "client", c->id, "header", bad, NULL);
}

void s3_client_take_whole(struct s3_client *c)
{
    if (c->shares == 1 && s3_shares(c->s3, c) == 1) {
        c->share_concurrency = c->concurrency;
        pp_ratelimit_set_rpm(&c->rate, c->rpm);
    } else if (c->rpm != c->cut_rpm || c->concurrency != c->cut_concurrency) {
        c->leaving = true; /* others have shares of the old cut */
    }
}

/* New settings for a client that may hold a slot. */
static void settings_in_force(struct s3_client *c)
{
    if (c->state == S3_LOADING) {
        c->state = S3_WANTED;
        c->refused_until_ms = s3_wall(c->s3) + s3_after_you_ms(c);
    } else if (c->state == S3_HELD) {
        s3_client_take_whole(c);
    }
    s3_permits_freed(c);
    s3_unblock_in(c, 0);
}

/* An answer for this client, NULL: it has no settings of its own. What has been said of it since it was asked
 * for is newer. */
static void loaded_one(struct s3_client *c, const struct pp_client *settings)
{
    c->loading = false;
    if (!c->superseded)
        apply(c, settings);
    c->superseded = false;
    settings_in_force(c);
}

static void load_failed(struct s3_client *c)
{
    c->loading = false;
    if (c->superseded) {
        c->superseded = false;
        settings_in_force(c);
        return;
    }
    c->stale = true;
    s3_unblock_in(c, TRY_AGAIN_MS);
}

static void settings_loaded(struct pp_req *req)
{
    struct settings_load *load = req->data;
    struct pp_s3 *s3 = load->s3;

    s3->requests--;
    if (req->err == PP_ECORRUPT && load->r.n_ids > 1) {
        pp_log(s3->p->log, PP_LOG_ERROR, "settings of a client can't be read: from now on one by one", NULL);
        s3->load_singly = true;
    }
    for (size_t i = 0; req->err == PP_OK && i < load->r.n; i++) {
        struct s3_client *c = s3_client_find(s3, load->r.clients[i].id);
        if (c && c->loading)
            loaded_one(c, &load->r.clients[i]);
    }
    for (size_t i = 0; i < load->r.n_ids; i++) {
        struct s3_client *c = s3_client_find(s3, load->r.ids[i]);
        if (c && c->loading && req->err == PP_OK)
            loaded_one(c, NULL);
        else if (c && c->loading)
            load_failed(c);
    }
    pp_arena_fini(&load->arena);
    free(load);
}

static bool name_them(struct settings_load *load, struct s3_client *const *clients, size_t n)
{
    const char **ids = pp_arena_array(&load->arena, n, sizeof(*ids));

    for (size_t i = 0; ids && i < n; i++)
        if (!(ids[i] = pp_arena_strdup(&load->arena, clients[i]->id)))
            return false;
    load->r = (struct pp_store_clients){
        .req = {.done = settings_loaded, .data = load, .arena = &load->arena}, .ids = ids, .n_ids = n};
    return ids;
}

static void load_some(struct pp_s3 *s3, struct s3_client *const *clients, size_t n)
{
    struct pp_task_store *store = s3->p->store;
    struct settings_load *load = calloc(1, sizeof(*load));
    bool sent = false;

    if (load) {
        load->s3 = s3;
        pp_arena_init(&load->arena, 16 << 20);
        sent = name_them(load, clients, n) && store->ops->clients(store, &load->r) == PP_OK;
    }
    if (load && !sent) {
        pp_arena_fini(&load->arena);
        free(load);
    }
    for (size_t i = 0; i < n; i++) {
        clients[i]->stale = !sent;
        clients[i]->loading = sent;
        if (!sent)
            s3_unblock_in(clients[i], TRY_AGAIN_MS);
    }
    s3->requests += sent;
}

void s3_clients_load(struct pp_s3 *s3, struct s3_client *const *clients, size_t n)
{
    size_t each = s3->load_singly ? 1 : n;
    for (size_t i = 0; i < n; i += each)
        load_some(s3, clients + i, each);
}

void pp_s3_client_changed(struct pp_s3 *s3, const struct pp_client *client)
{
    struct s3_client *c = s3_client_find(s3, client->id);
    if (!c)
        return;
    apply(c, client);
    c->stale = false;
    c->superseded = c->loading;
    settings_in_force(c);
}

void pp_s3_client_stale(struct pp_s3 *s3, const char *client)
{
    struct s3_client *batch[S3_CYCLE_CLIENTS], *c, *next;
    size_t n = 0;

    HASH_ITER (hh, s3->clients, c, next) {
        if (client[0] && strcmp(client, c->id) != 0)
            continue;
        c->stale = true;
        if (c->loading || c->state == S3_LOADING || s3->draining)
            continue; /* read when it is next served */
        batch[n++] = c;
        if (n == S3_CYCLE_CLIENTS) {
            s3_clients_load(s3, batch, n);
            n = 0;
        }
    }
    if (n > 0)
        s3_clients_load(s3, batch, n);
}

void pp_s3_reloaded(struct pp_s3 *s3)
{
    const struct pp_params *params = s3->p->params;
    struct s3_client *c, *next;

    HASH_ITER (hh, s3->clients, c, next) {
        if (c->state == S3_LOADING || (c->own_rpm && c->own_concurrency))
            continue;
        if (!c->own_rpm)
            c->rpm = params->client_rpm;
        if (!c->own_concurrency)
            c->concurrency = params->client_concurrency;
        settings_in_force(c);
    }
}

bool pp_s3_view(struct pp_s3 *s3, const char *client, struct pp_s3_view *view)
{
    struct s3_client *c = s3_client_find(s3, client);
    if (!c)
        return false;
    int64_t now = s3_now(s3);
    *view = (struct pp_s3_view){.rpm = c->rpm,
                                .concurrency = c->concurrency,
                                .in_flight = c->in_flight,
                                .permits = pp_ratelimit_permits(&c->rate, now),
                                .share = c->share,
                                .shares = c->shares,
                                .next_permit_ms = pp_ratelimit_next_ms(&c->rate, now),
                                .paused = c->paused,
                                .held = c->state == S3_HELD};
    return true;
}
