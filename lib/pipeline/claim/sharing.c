/* sharing.c: asks who fetches a URL, and keeps the tasks that follow.
 *
 * Invariant: a follower is in the list of exactly one key in `keys`; a key without followers is
 * freed. At most one poll is in flight. A poll first asks for all followers (`ask`), then replaces
 * owners that were waited for in vain (`replace`). */
#include "pipeline/claim/sharing.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "format/ids.h"
#include "runtime/ask.h"

enum {
    SHARE_POLL_MS = 200,
    /* rows that wait for pp_sharing_send(); more are not told, which costs requests only */
    SHARE_TOLD_MAX = 512
};

/* The followers of one URL in this process. */
struct pp_sharing_key {
    UT_hash_handle hh;
    uint8_t key[PP_DEDUPE_KEY_BYTES];
    struct pp_list followers;
};

/* A question of a claim, in the claim's arena. */
struct share_question {
    struct pp_dedupe_ask ask;
    struct pp_sharing *share;
    struct pp_sharing_task **tasks; /* of the rows */
    struct pp_arena arena;
    void (*then)(void *data);
    void *data;
};

/* Outcomes and drops on their way. */
struct share_news {
    struct pp_arena arena;
    struct pp_sharing *share;
    struct pp_dedupe_tell tell;
    struct pp_dedupe_replace drop;
    struct pp_dedupe_outcome *told;
    struct pp_dedupe_change *dropped;
    size_t in_flight;
};

struct pp_sharing {
    struct pp_sharing_options o;
    struct pp_sharing_key *keys;
    size_t followers, in_flight;
    struct pp_timer *timer;
    struct pp_ask poll; /* pauses after failures; claims do not ask while it pauses */
    struct pp_dedupe_ask ask;
    struct pp_dedupe_replace replace;
    struct pp_sharing_task **polled; /* the followers of the poll's rows; NULL: it has ended */
    size_t n_polled;
    struct share_news *news; /* collected for the next send; NULL: none */
};

static void on_timer(void *data);

struct pp_sharing *pp_sharing_open(const struct pp_sharing_options *options)
{
    struct pp_sharing *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->o = *options;
    s->poll = (struct pp_ask){.loop = options->loop,
                              .log = options->log,
                              .failed = "no answer who fetches a URL: photos are fetched unshared",
                              .data = s};
    s->timer = pp_timer_open(options->loop, on_timer, s);
    if (!s->timer) {
        free(s);
        return NULL;
    }
    return s;
}

static void free_news(struct share_news *news)
{
    if (!news)
        return;
    pp_arena_fini(&news->arena);
    free(news);
}

void pp_sharing_close(struct pp_sharing *s)
{
    if (!s)
        return;
    pp_assert(s->followers == 0 && !s->keys && pp_sharing_busy(s) == 0, "closed while tasks follow");
    free_news(s->news);
    pp_timer_close(s->timer);
    free(s);
}

size_t pp_sharing_busy(const struct pp_sharing *s)
{
    return s ? s->in_flight + s->poll.in_flight : 0;
}

size_t pp_sharing_followers(const struct pp_sharing *s)
{
    return s ? s->followers : 0;
}

/* --- asking for claimed tasks --- */

void pp_sharing_init(struct pp_sharing_task *t, const struct pp_task *task, struct pp_arena *arena)
{
    struct pp_key key = pp_photo_key_sent("", task->url, strlen(task->url));

    *t = (struct pp_sharing_task){.task = task, .arena = arena, .asked = true};
    memcpy(t->row.key, key.b, sizeof t->row.key);
    memcpy(&t->row.owner, task->key.b + 8, sizeof t->row.owner);
    if (t->row.owner == 0)
        t->row.owner = 1;
}

static void nothing(void *data, enum pp_err err)
{
    (void)data, (void)err;
}

/* A claim's question has failed. It counts as a failed poll: a line in the log, and a pause. */
static void failed(struct pp_sharing *s, enum pp_err err)
{
    if (pp_ask_ready(&s->poll)) {
        (void)pp_ask_request(&s->poll, nothing);
        (void)pp_ask_submitted(&s->poll, err);
    }
}

/* Takes the answers to rows of the port: an owner owns, a follower has its answer in its row. */
static void take_row(struct pp_sharing_task *t, const struct pp_dedupe_row *row, int64_t now)
{
    t->row.other = row->other;
    t->row.age_ms = row->age_ms;
    t->row.outcome = NULL;
    t->owns = row->other == 0;
    t->follow = (struct pp_follow){.owner = row->other, .since_ms = now, .owner_since_ms = now};
    if (!row->outcome)
        return;
    t->row.outcome = pp_arena_copy(t->arena, row->outcome, row->outcome_n);
    t->row.outcome_n = row->outcome_n;
}

static void on_asked(struct pp_req *req)
{
    struct share_question *q = req->data;
    struct pp_sharing *s = q->share;
    int64_t now = pp_loop_now(s->o.loop);
    void (*then)(void *data) = q->then;
    void *data = q->data;

    s->in_flight--;
    if (req->err != PP_OK)
        failed(s, req->err);
    for (size_t i = 0; i < q->ask.n; i++)
        if (req->err == PP_OK)
            take_row(q->tasks[i], &q->ask.rows[i], now);
        else
            q->tasks[i]->asked = false;
    pp_arena_fini(&q->arena);
    free(q);
    then(data);
}

static struct share_question *new_question(struct pp_sharing *s, struct pp_sharing_task *tasks, size_t n)
{
    struct share_question *q = calloc(1, sizeof *q);

    if (!q)
        return NULL;
    pp_arena_init(&q->arena, 0);
    q->share = s;
    q->ask.rows = pp_arena_array(&q->arena, n, sizeof *q->ask.rows);
    q->tasks = pp_arena_array(&q->arena, n, sizeof(struct pp_sharing_task *));
    for (size_t i = 0; q->ask.rows && q->tasks && i < n && q->ask.n < PP_DEDUPE_ROWS_MAX; i++) {
        if (!tasks[i].asked)
            continue;
        q->ask.rows[q->ask.n] = tasks[i].row;
        q->tasks[q->ask.n++] = &tasks[i];
    }
    return q;
}

bool pp_sharing_ask(struct pp_sharing *s, struct pp_sharing_task *tasks, size_t n, void (*then)(void *data),
                    void *data)
{
    bool pausing = pp_ask_pause_left(&s->poll) > 0;
    struct share_question *q = n > 0 && !pausing ? new_question(s, tasks, n) : NULL;

    if (q && q->ask.n > 0) {
        q->then = then;
        q->data = data;
        q->ask.req = (struct pp_req){.done = on_asked, .data = q, .arena = &q->arena};
        enum pp_err err = s->o.dedupe->ops->ask(s->o.dedupe, &q->ask);
        if (err == PP_OK) {
            s->in_flight++;
            return true;
        }
        failed(s, err);
    }
    if (q)
        pp_arena_fini(&q->arena);
    free(q);
    for (size_t i = 0; i < n; i++)
        tasks[i].asked = false;
    return false;
}

/* --- following --- */

static enum pp_follow_next decide(struct pp_sharing *s, struct pp_sharing_task *t)
{
    const struct pp_params *p = s->o.params;
    struct pp_shared told;
    bool has = t->row.outcome && pp_shared_read(t->arena, t->row.outcome, t->row.outcome_n, &told) == PP_OK;
    /* A task whose latest failure was final was held back: what was told before may be the same
     * outage of its host. */
    bool anew = t->task->always || (t->task->last_code && pp_shared_may(t->task->last_code));
    const struct pp_follow_terms terms = {.timeout_ms = p->tiers[t->task->tier].timeout_ms,
                                          .lease_ms = p->lease_ms,
                                          .window_ms = anew ? 0 : p->share_window_ms};
    enum pp_follow_next next =
        pp_follow_decide(&t->follow, &terms, &t->row, has ? &told : NULL, pp_loop_now(s->o.loop));

    if (next == PP_FOLLOW_TAKE) {
        t->outcome = told;
        t->taken = true;
    } else if (next == PP_FOLLOW_FETCH) {
        t->owns = t->row.other == 0;
    }
    return next;
}

static bool join(struct pp_sharing *s, struct pp_sharing_task *t)
{
    struct pp_sharing_key *k;

    HASH_FIND(hh, s->keys, t->row.key, sizeof t->row.key, k);
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k)
            return false;
        memcpy(k->key, t->row.key, sizeof k->key);
        pp_list_init(&k->followers);
        if (!PP_HASH_ADD(s->keys, k->key, sizeof k->key, k)) {
            free(k);
            return false;
        }
    }
    pp_list_push(&k->followers, &t->node);
    t->key = k;
    s->followers++;
    return true;
}

static void leave(struct pp_sharing *s, struct pp_sharing_task *t)
{
    struct pp_sharing_key *k = t->key;

    pp_assert(k && s->followers > 0, "a task leaves that does not follow");
    pp_list_remove(&k->followers, &t->node);
    t->key = NULL;
    s->followers--;
    if (t->polled_at)
        s->polled[t->polled_at - 1] = NULL;
    t->polled_at = 0;
    if (!pp_list_empty(&k->followers))
        return;
    HASH_DEL(s->keys, k);
    free(k);
}

static void end_follower(struct pp_sharing *s, struct pp_sharing_task *t)
{
    leave(s, t);
    s->o.on_followed(s->o.data, t);
}

enum pp_follow_next pp_sharing_follow(struct pp_sharing *s, struct pp_sharing_task *t)
{
    enum pp_follow_next next = decide(s, t);

    if (next == PP_FOLLOW_FETCH || next == PP_FOLLOW_TAKE)
        return next;
    if (!join(s, t))
        return PP_FOLLOW_FETCH;
    pp_timer_sooner(s->timer, next == PP_FOLLOW_TAKE_OVER ? 0 : SHARE_POLL_MS);
    return PP_FOLLOW_WAIT;
}

void pp_sharing_give_up(struct pp_sharing *s, void (*each)(void *data, struct pp_sharing_task *t), void *data)
{
    while (s && s->keys) {
        struct pp_sharing_task *t =
            pp_container_of(s->keys->followers.head.next, struct pp_sharing_task, node);
        leave(s, t);
        each(data, t);
    }
}

/* --- the poll --- */

/* Ends the poll's part for the remaining followers, before its memory goes. */
static void forget_poll(struct pp_sharing *s)
{
    for (size_t i = 0; i < s->n_polled; i++)
        if (s->polled[i])
            s->polled[i]->polled_at = 0;
    s->n_polled = 0;
}

static void poll_ended(struct pp_sharing *s)
{
    forget_poll(s);
    if (s->followers > 0)
        pp_timer_sooner(s->timer, SHARE_POLL_MS);
}

/* Without the port nobody knows what the owners do, so all followers fetch. */
static void poll_failed(struct pp_sharing *s)
{
    poll_ended(s);
    while (s->keys) {
        struct pp_sharing_task *t =
            pp_container_of(s->keys->followers.head.next, struct pp_sharing_task, node);
        t->owns = false;
        end_follower(s, t);
    }
}

static void on_replaced(void *data, enum pp_err err)
{
    struct pp_sharing *s = data;
    size_t at = 0;

    if (err != PP_OK) {
        poll_failed(s);
        return;
    }
    for (size_t i = 0; i < s->n_polled && at < s->replace.n; i++) {
        struct pp_sharing_task *t = s->polled[i];
        /* the rows of followers that have left meanwhile are skipped by their key and owner */
        if (!t || !t->over)
            continue;
        while (at < s->replace.n && (s->replace.rows[at].next != t->row.owner ||
                                     memcmp(s->replace.rows[at].key, t->row.key, sizeof t->row.key) != 0))
            at++;
        if (at == s->replace.n)
            break;
        t->over = false;
        t->row.other = s->replace.rows[at++].other;
        t->row.outcome = NULL;
        if (decide(s, t) == PP_FOLLOW_FETCH)
            end_follower(s, t);
    }
    poll_ended(s);
}

/* Makes the marked followers the owners of their keys. Returns false if there are none. */
static bool take_over(struct pp_sharing *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_polled; i++)
        n += s->polled[i] && s->polled[i]->over;
    if (n == 0)
        return false;
    s->replace = (struct pp_dedupe_replace){.req = pp_ask_continue(&s->poll, on_replaced)};
    s->replace.rows = pp_arena_array(s->replace.req.arena, n, sizeof *s->replace.rows);
    for (size_t i = 0; s->replace.rows && i < s->n_polled; i++) {
        const struct pp_sharing_task *t = s->polled[i];
        if (!t || !t->over)
            continue;
        struct pp_dedupe_change *row = &s->replace.rows[s->replace.n++];
        memcpy(row->key, t->row.key, sizeof row->key);
        row->owner = t->follow.owner;
        row->next = t->row.owner;
    }
    enum pp_err err = s->replace.rows ? s->o.dedupe->ops->replace(s->o.dedupe, &s->replace) : PP_ENOMEM;
    if (err != PP_OK)
        forget_poll(s);
    if (!pp_ask_submitted(&s->poll, err))
        poll_failed(s);
    return true;
}

static void on_polled(void *data, enum pp_err err)
{
    struct pp_sharing *s = data;

    if (err != PP_OK) {
        poll_failed(s);
        return;
    }
    for (size_t i = 0; i < s->n_polled; i++) {
        struct pp_sharing_task *t = s->polled[i];
        const struct pp_dedupe_row *row = &s->ask.rows[i];
        if (!t)
            continue;
        t->row.other = row->other;
        t->row.age_ms = row->age_ms;
        t->row.outcome = row->outcome;
        t->row.outcome_n = row->outcome_n;
        enum pp_follow_next next = decide(s, t);
        t->row.outcome = NULL;
        t->over = next == PP_FOLLOW_TAKE_OVER;
        if (next == PP_FOLLOW_FETCH || next == PP_FOLLOW_TAKE)
            end_follower(s, t);
    }
    if (!take_over(s))
        poll_ended(s);
}

static void on_timer(void *data)
{
    struct pp_sharing *s = data;
    struct pp_sharing_key *k, *after;
    size_t n = s->followers < PP_DEDUPE_ROWS_MAX ? s->followers : PP_DEDUPE_ROWS_MAX;

    if (n == 0 || s->poll.in_flight)
        return;
    if (!pp_ask_ready(&s->poll)) { /* the port has failed for a claim */
        poll_failed(s);
        return;
    }
    s->ask = (struct pp_dedupe_ask){.req = pp_ask_request(&s->poll, on_polled)};
    s->ask.rows = pp_arena_array(&s->poll.arena, n, sizeof *s->ask.rows);
    s->polled = pp_arena_array(&s->poll.arena, n, sizeof(struct pp_sharing_task *));
    s->n_polled = 0;
    if (s->ask.rows && s->polled)
        HASH_ITER (hh, s->keys, k, after) {
            pp_list_each (node, &k->followers) {
                struct pp_sharing_task *t = pp_container_of(node, struct pp_sharing_task, node);
                if (s->n_polled == n)
                    break;
                s->ask.rows[s->n_polled] = t->row;
                s->polled[s->n_polled++] = t;
                t->polled_at = s->n_polled;
            }
        }
    s->ask.n = s->n_polled;
    enum pp_err err = s->n_polled ? s->o.dedupe->ops->ask(s->o.dedupe, &s->ask) : PP_ENOMEM;
    if (err != PP_OK)
        forget_poll(s);
    if (!pp_ask_submitted(&s->poll, err))
        poll_failed(s);
}

/* --- telling --- */

/* Lets the followers in this process take the outcome. */
static void tell_here(struct pp_sharing *s, const struct pp_dedupe_outcome *told, uint32_t owner)
{
    struct pp_sharing_key *k;

    HASH_FIND(hh, s->keys, told->key, sizeof told->key, k);
    for (bool more = k != NULL; more;) {
        struct pp_sharing_task *t = pp_container_of(k->followers.head.next, struct pp_sharing_task, node);
        more = k->followers.n > 1;
        t->row.other = owner;
        t->row.age_ms = 0;
        t->row.outcome = told->outcome;
        t->row.outcome_n = told->outcome_n;
        if (decide(s, t) != PP_FOLLOW_TAKE)
            t->owns = false; /* out of memory */
        t->row.outcome = NULL;
        end_follower(s, t);
    }
}

static struct share_news *news_of(struct pp_sharing *s)
{
    struct share_news *news = s->news ? s->news : calloc(1, sizeof *news);

    if (!news || s->news)
        return news;
    pp_arena_init(&news->arena, 0);
    news->share = s;
    news->told = pp_arena_array(&news->arena, SHARE_TOLD_MAX, sizeof *news->told);
    news->dropped = pp_arena_array(&news->arena, SHARE_TOLD_MAX, sizeof *news->dropped);
    if (!news->told || !news->dropped) {
        free_news(news);
        return NULL;
    }
    s->news = news;
    return news;
}

void pp_sharing_tell(struct pp_sharing *s, const struct pp_sharing_task *t, const struct pp_shared *outcome)
{
    struct share_news *news = news_of(s);

    if (!news || news->tell.n + news->drop.n >= SHARE_TOLD_MAX)
        return;
    if (!outcome) {
        struct pp_dedupe_change *row = &news->dropped[news->drop.n++];
        memcpy(row->key, t->row.key, sizeof row->key);
        row->owner = t->row.owner;
        return;
    }
    struct pp_dedupe_outcome *row = &news->told[news->tell.n];
    struct pp_buf b;
    pp_buf_init(&b, PP_DEDUPE_OUTCOME_MAX);
    pp_shared_write(&b, outcome);
    memcpy(row->key, t->row.key, sizeof row->key);
    row->outcome = b.failed ? NULL : pp_arena_copy(&news->arena, b.p, b.n);
    row->outcome_n = (uint32_t)b.n;
    pp_buf_fini(&b);
    if (!row->outcome)
        return;
    news->tell.n++;
    tell_here(s, row, t->row.owner);
}

static void on_news(struct pp_req *req)
{
    struct share_news *news = req->data;
    struct pp_sharing *s = news->share;
    bool dropped = req == &news->drop.req;

    s->in_flight--;
    /* followers in this process ask at once who owns the key now */
    if (dropped && s->followers > 0)
        pp_timer_sooner(s->timer, 0);
    if (--news->in_flight == 0)
        free_news(news);
}

void pp_sharing_send(struct pp_sharing *s)
{
    struct share_news *news = s->news;
    struct pp_dedupe *d = s->o.dedupe;

    if (!news)
        return;
    s->news = NULL;
    const struct pp_req req = {.done = on_news, .data = news, .arena = &news->arena};
    news->tell.req = news->drop.req = req;
    news->tell.rows = news->told;
    news->drop.rows = news->dropped;
    news->in_flight = 1;
    if (news->tell.n > 0 && d->ops->tell(d, &news->tell) == PP_OK) {
        news->in_flight++;
        s->in_flight++;
    }
    if (news->drop.n > 0 && d->ops->replace(d, &news->drop) == PP_OK) {
        news->in_flight++;
        s->in_flight++;
    }
    if (--news->in_flight == 0)
        free_news(news);
}
