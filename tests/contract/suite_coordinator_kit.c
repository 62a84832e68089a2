/* suite_coordinator_kit.c: helpers of the tests of the coordinator. Each sends one request and
 * waits for its answer. */
#include "suite_coordinator_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_loop.h"

static const struct pp_coord_subject *subject;

void ck_use(const struct pp_coord_subject *s)
{
    subject = s;
}

void ck_until(struct coord_kit *k, bool (*cond)(void *k))
{
    pp_test_until(k->loop, cond, k, 30000);
}

void ck_at(struct coord_kit *k, int64_t now)
{
    if (k->subject->at)
        k->subject->at(now);
}

static bool is_known(void *arg)
{
    struct pp_coordinator *c = *(struct pp_coordinator **)arg;
    return c->ops->dataset(c)[0] != '\0';
}

static void on_notice(void *data, const struct pp_notice *n)
{
    struct coord_kit *k = data;

    if (n->kind == PP_NOTICE_CLIENT && n->a[0] == '\0') {
        k->losses++;
        return;
    }
    k->notices++;
    k->notice = *n;
    (void)snprintf(k->notice_a, sizeof(k->notice_a), "%s", n->a);
    (void)snprintf(k->notice_b, sizeof(k->notice_b), "%s", n->b ? n->b : "");
}

static void open_one(struct coord_kit *k, struct pp_coordinator **c)
{
    assert_string_equal(pp_err_text(k->subject->open(k->loop, k->place, c)), pp_err_text(PP_OK));
    if (c == &k->c)
        (*c)->ops->watch_notices(*c, CK_ALL_NOTICES, on_notice, k);
    pp_test_until(k->loop, is_known, c, 30000);
}

int ck_open_lost(void **state)
{
    struct coord_kit *k = calloc(1, sizeof *k);

    k->subject = subject;
    k->place = subject->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    ck_at(k, CK_T0);
    open_one(k, &k->c);
    *state = k;
    return 0;
}

int ck_open(void **state)
{
    int result = ck_open_lost(state);
    struct coord_kit *k = *state;

    k->c->ops->first(k->c, k->c->ops->dataset(k->c));
    return result;
}

void ck_close_ports(struct coord_kit *k)
{
    k->c->ops->close(k->c);
    if (k->d)
        k->d->ops->close(k->d);
    for (size_t i = 0; i < k->n_workers; i++) {
        k->workers[i]->c->ops->close(k->workers[i]->c);
        free(k->workers[i]);
    }
}

int ck_close(void **state)
{
    struct coord_kit *k = *state;

    ck_close_ports(k);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

void ck_crash(struct coord_kit *k)
{
    k->c->ops->close(k->c);
    open_one(k, &k->c);
}

void ck_open_other(struct coord_kit *k)
{
    open_one(k, &k->d);
}

/* --- requests --- */

static void on_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_done(void *done)
{
    return *(bool *)done;
}

struct pp_req ck_request(struct coord_kit *k)
{
    k->done = false;
    return (struct pp_req){.done = on_done, .data = &k->done, .arena = &k->arena};
}

void ck_wait(struct coord_kit *k, enum pp_err submitted, struct pp_req *req, enum pp_err expected)
{
    assert_string_equal(pp_err_text(submitted), pp_err_text(PP_OK));
    assert_false(k->done); /* A port must not call done() before the request's function returns. */
    pp_test_until(k->loop, is_done, &k->done, 30000);
    assert_string_equal(pp_err_text(req->err), pp_err_text(expected));
}

void ck_acquire_all(struct coord_kit *k, const char *worker, struct pp_slot_want *wants, size_t n,
                    int64_t now)
{
    struct pp_coord_acquire r = {.req = ck_request(k),
                                 .worker = worker,
                                 .lease_ms = CK_LEASE_MS,
                                 .now_ms = now,
                                 .wants = wants,
                                 .n = n};
    ck_at(k, now);
    ck_wait(k, k->c->ops->acquire(k->c, &r), &r.req, PP_OK);
}

struct pp_slot_want ck_acquire(struct coord_kit *k, const char *worker, struct pp_slot_want want, int64_t now)
{
    ck_acquire_all(k, worker, &want, 1, now);
    return want;
}

struct pp_slot_want ck_granted(struct coord_kit *k, const char *client, uint32_t rpm, int64_t now)
{
    struct pp_slot_want w = {.client = client, .rpm = rpm, .concurrency = 8};

    w = ck_acquire(k, "w1", w, now);
    assert_true(w.granted);
    return w;
}

void ck_renew_all(struct coord_kit *k, const char *worker, struct pp_slot_renewal *renewals, size_t n,
                  int64_t now)
{
    struct pp_coord_renew r = {.req = ck_request(k),
                               .worker = worker,
                               .lease_ms = CK_LEASE_MS,
                               .now_ms = now,
                               .renewals = renewals,
                               .n = n};
    ck_at(k, now);
    ck_wait(k, k->c->ops->renew(k->c, &r), &r.req, PP_OK);
}

bool ck_renew(struct coord_kit *k, const char *worker, struct pp_slot_renewal renewal, int64_t now)
{
    ck_renew_all(k, worker, &renewal, 1, now);
    return renewal.lost;
}

void ck_release(struct coord_kit *k, const char *worker, struct pp_slot_renewal renewal, int64_t now)
{
    struct pp_coord_release r = {
        .req = ck_request(k), .worker = worker, .now_ms = now, .renewals = &renewal, .n = 1};

    ck_at(k, now);
    ck_wait(k, k->c->ops->release(k->c, &r), &r.req, PP_OK);
}

void ck_secret(struct coord_kit *k, struct pp_coordinator *c, const char *text, char out[PP_COORD_SECRET_MAX])
{
    struct pp_coord_secret r = {.req = ck_request(k)};

    snprintf(r.secret, sizeof(r.secret), "%s", text);
    ck_wait(k, c->ops->secret(c, &r), &r.req, PP_OK);
    memcpy(out, r.secret, sizeof(r.secret));
}

bool ck_elect(struct coord_kit *k, struct pp_coordinator *c, const char *worker, int64_t lease_ms,
              int64_t now)
{
    struct pp_coord_elect r = {
        .req = ck_request(k), .name = "reaper", .worker = worker, .lease_ms = lease_ms};

    ck_at(k, now);
    ck_wait(k, c->ops->elect(c, &r), &r.req, PP_OK);
    return r.leader;
}

struct pp_coord_backlog ck_backlog(struct coord_kit *k, struct pp_coordinator *c, bool rebuilt)
{
    struct pp_coord_backlog r = {.req = ck_request(k), .rebuilt = rebuilt};

    ck_wait(k, c->ops->backlog(c, &r), &r.req, PP_OK);
    return r;
}

int64_t ck_due(const struct pp_coord_backlog *b, const char *client, uint8_t queue)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->rows[i].client, client) == 0 && b->rows[i].queue == queue && b->rows[i].due_ms < due)
            due = b->rows[i].due_ms;
    return due;
}

struct pp_coord_workers ck_list(struct coord_kit *k, struct pp_coordinator *c, int64_t silent_ms, int64_t now)
{
    struct pp_coord_workers r = {.req = ck_request(k), .now_ms = now, .silent_ms = silent_ms};

    ck_at(k, now);
    ck_wait(k, c->ops->workers(c, &r), &r.req, PP_OK);
    return r;
}

bool ck_drain(struct coord_kit *k, struct pp_coordinator *c, const char *worker)
{
    struct pp_coord_drain r = {.req = ck_request(k), .worker = worker};

    ck_wait(k, c->ops->drain(c, &r), &r.req, PP_OK);
    return r.found;
}

uint32_t ck_told(const struct pp_slot_want *w, int64_t now)
{
    uint32_t sum = w->spent;

    for (size_t i = 0; i < w->n_marks; i++) {
        assert_true(i == 0 || w->marks[i].at_ms >= w->marks[i - 1].at_ms);
        assert_true(w->marks[i].at_ms <= now);
        sum += w->marks[i].at_ms > now - CK_WINDOW_MS ? w->marks[i].n : 0;
    }
    return sum;
}

/* --- watching --- */

static bool is_listening(void *arg)
{
    /* The coordinator reports a loss to its watcher when its subscription begins. */
    return ((struct coord_kit *)arg)->losses > 0;
}

void ck_listen(struct coord_kit *k)
{
    if (k->subject->many)
        ck_until(k, is_listening);
}

static void on_backlog(void *data, const struct pp_backlog_row *rows, size_t n)
{
    struct coord_kit *k = data;

    assert_true(n > 0);
    k->announced++;
    for (size_t i = 0; i < n; i++) {
        assert_true(k->n_rows < sizeof(k->rows) / sizeof(k->rows[0]));
        char *client = k->clients[k->n_rows];
        (void)snprintf(client, sizeof(k->clients[0]), "%s", rows[i].client);
        k->rows[k->n_rows] = rows[i];
        k->rows[k->n_rows++].client = client;
    }
}

static void on_drain(void *data, const char *worker)
{
    struct coord_kit *k = data;

    k->drains++;
    (void)snprintf(k->drained, sizeof(k->drained), "%s", worker ? worker : "*");
}

void ck_watch(struct coord_kit *k)
{
    k->c->ops->watch(k->c, on_backlog, k);
    k->c->ops->watch_drain(k->c, on_drain, k);
}

struct hearing {
    struct coord_kit *k;
    const char *client;
    uint8_t queue;
    int64_t due_ms;
};

static bool is_heard(void *arg)
{
    struct hearing *h = arg;
    bool found = false;

    for (size_t i = 0; i < h->k->n_rows && !found; i++) {
        found = strcmp(h->k->rows[i].client, h->client) == 0 && h->k->rows[i].queue == h->queue;
        h->due_ms = h->k->rows[i].due_ms;
        h->k->heard_known = h->k->rows[i].known;
    }
    h->k->n_rows = 0;
    return found;
}

int64_t ck_heard(struct coord_kit *k, const char *client, uint8_t queue)
{
    struct hearing h = {k, client, queue, 0};

    pp_test_until(k->loop, is_heard, &h, 30000);
    return h.due_ms;
}

/* --- more workers --- */

static void worker_on_rows(void *data, const struct pp_backlog_row *rows, size_t n)
{
    struct ck_worker *w = data;

    assert_true(n > 0);
    w->rows += (int)n;
    w->row = rows[n - 1];
    (void)snprintf(w->client, sizeof(w->client), "%s", w->row.client);
    w->row.client = w->client;
}

static void worker_on_notice(void *data, const struct pp_notice *n)
{
    struct ck_worker *w = data;

    if (n->kind == PP_NOTICE_CLIENT && n->a[0] == '\0')
        w->losses++;
    else
        w->notices[n->kind]++;
}

static void worker_on_drain(void *data, const char *worker)
{
    struct ck_worker *w = data;

    w->drains++;
    (void)snprintf(w->drained, sizeof(w->drained), "%s", worker ? worker : "*");
}

struct ck_worker *ck_worker_open(struct coord_kit *k, const char *id, const char *tiers, uint32_t kinds)
{
    struct ck_worker *w = calloc(1, sizeof *w);

    assert_true(w && k->n_workers < CK_WORKERS);
    k->workers[k->n_workers++] = w;
    w->k = k;
    (void)snprintf(w->id, sizeof(w->id), "%s", id);
    w->info = (struct pp_worker_info){.id = w->id,
                                      .host = "host",
                                      .tiers = tiers,
                                      .pid = 77,
                                      .capacity = 100,
                                      .in_flight = 7,
                                      .clients = 3,
                                      .started_at = CK_T0 - 5000,
                                      .seen_at = CK_T0};
    assert_string_equal(pp_err_text(k->subject->open(k->loop, k->place, &w->c)), pp_err_text(PP_OK));
    w->c->ops->watch_notices(w->c, kinds, worker_on_notice, w);
    w->c->ops->watch(w->c, worker_on_rows, w);
    w->c->ops->watch_drain(w->c, worker_on_drain, w);
    return w;
}

static bool all_listen(void *arg)
{
    struct coord_kit *k = arg;

    for (size_t i = 0; i < k->n_workers; i++)
        if (k->workers[i]->losses == 0 || !is_known(&k->workers[i]->c))
            return false;
    return true;
}

void ck_workers_listen(struct coord_kit *k)
{
    ck_until(k, all_listen);
}

void ck_beat(struct coord_kit *k, int64_t now)
{
    ck_at(k, now);
    for (size_t i = 0; i < k->n_workers; i++) {
        struct ck_worker *w = k->workers[i];
        w->info.seen_at = now;
        if (!w->silent)
            w->c->ops->heartbeat(w->c, &w->info);
    }
}

static bool all_are_on_the_ring(void *arg)
{
    struct coord_kit *k = arg;

    for (size_t i = 0; i < k->n_workers; i++)
        if (k->workers[i]->c->ops->ring_size(k->workers[i]->c) == 0)
            return false;
    return true;
}

static bool all_know_the_ring(void *arg)
{
    struct coord_kit *k = arg;

    for (size_t i = 0; i < k->n_workers; i++)
        if (k->workers[i]->c->ops->ring_size(k->workers[i]->c) != k->n_workers)
            return false;
    return true;
}

void ck_join(struct coord_kit *k, int64_t now)
{
    ck_workers_listen(k);
    ck_beat(k, now);
    ck_until(k, all_are_on_the_ring);
    ck_hear_all(k);
    ck_beat(k, now + 2000);
    ck_until(k, all_know_the_ring);
    ck_hear_all(k);
    ck_forget(k);
}

void ck_forget(struct coord_kit *k)
{
    for (size_t i = 0; i < k->n_workers; i++) {
        struct ck_worker *w = k->workers[i];
        w->rows = w->drains = 0;
        memset(w->notices, 0, sizeof w->notices);
    }
}

static bool all_have_the_notice(void *arg)
{
    struct coord_kit *k = arg;

    for (size_t i = 0; i < k->n_workers; i++)
        if (k->workers[i]->notices[PP_NOTICE_WEBHOOK] == 0)
            return false;
    return true;
}

void ck_hear_all(struct coord_kit *k)
{
    const struct pp_notice last = {.kind = PP_NOTICE_WEBHOOK, .a = "last", .b = ""};

    /* The server has answered the earlier requests of each process, and then those that it sent
     * because of these answers. */
    for (size_t i = 0; i < 2 * k->n_workers; i++)
        (void)ck_backlog(k, k->workers[i / 2]->c, false);
    for (size_t i = 0; i < k->n_workers; i++)
        k->workers[i]->notices[PP_NOTICE_WEBHOOK] = 0;
    k->c->ops->notify(k->c, &last, 1);
    ck_until(k, all_have_the_notice);
}
