/* redis_call.c: calls on a line: their order, their deadlines, and refusals by Redis.
 *
 * A call is in one of the lists of `r` until its callback runs. Then call->r is NULL. If hiredis
 * still refers to the call, the call is freed when hiredis reports its end. Each list is in order
 * of deadlines, except that a call that was sent again after MOVED may time out late. run_ended()
 * and on_reply() run callbacks, and each callback may close `r`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

enum { MOVES_MAX = 5, LOG_EVERY_MS = 1000 };

struct redis_call {
    struct pp_node node;
    struct pp_redis *r; /* the connection; NULL after the call's callback has run */
    struct pp_list *list;
    pp_redis_cb cb;
    void *data;
    const char *name;
    const struct pp_redis_script *script; /* NULL: a command, or a script that goes out as text */
    struct pp_buf wire;                   /* the bytes to send */
    size_t words_at;                      /* offset in `wire` at which the caller's words begin */
    size_t n, n_keys;                     /* number of the caller's words, and how many of them are keys */
    int64_t deadline;                     /* when the call times out, in ms of the loop's clock */
    enum pp_err err;                      /* the call's result, while the call is in r->ended */
    uint8_t moves;
    bool with_hiredis;
};

static void arm_deadline(struct pp_redis *r);
static void send_call(struct pp_redis *r, struct redis_call *c);

/* Moves a call to another list, or to none (NULL). No other function does. */
static void put_in(struct pp_list *list, struct redis_call *c)
{
    pp_assert(c->r, "a call is listed after its callback");
    if (c->list)
        pp_list_remove(c->list, &c->node);
    c->list = list;
    if (list)
        pp_list_push(list, &c->node);
}

static struct redis_call *first_of(const struct pp_list *list)
{
    return pp_list_empty(list) ? NULL : pp_container_of(list->head.next, struct redis_call, node);
}

static void drop_call(struct redis_call *c)
{
    pp_assert(!c->r && !c->list, "a call is dropped before its callback");
    pp_buf_fini(&c->wire);
    if (!c->with_hiredis)
        free(c);
}

/* Ends a call and runs its callback, which may close the connection. */
static void end_call(struct redis_call *c, enum pp_err err, const struct redisReply *reply)
{
    pp_redis_cb cb = c->cb;
    void *data = c->data;
    put_in(NULL, c);
    c->r = NULL;
    drop_call(c);
    cb(data, err, reply);
}

static void end_later(struct pp_redis *r, struct redis_call *c, enum pp_err err)
{
    c->err = err;
    put_in(&r->ended, c);
}

/* Runs the callbacks of the calls in r->ended. Returns false if a callback has closed `r`. */
static bool run_ended(struct pp_redis *r)
{
    struct redis_call *c;
    bool closed = false, *outer = r->closed;
    r->closed = &closed;
    while (!closed && (c = first_of(&r->ended)))
        end_call(c, c->err, NULL);
    if (!closed)
        r->closed = outer;
    else if (outer)
        *outer = true;
    return !closed;
}

/* --- answers --- */

static void log_refusal(struct pp_redis *r, const struct redis_call *c, const struct redisReply *reply)
{
    int64_t now = pp_loop_now(r->loop);
    if (r->logged_at && now - r->logged_at < LOG_EVERY_MS) {
        r->unlogged++;
        return;
    }
    pp_log(r->log, PP_LOG_WARN, "Redis refused a command", "command", c->name, "reason", reply->str,
           "not_logged", r->unlogged ? PP_LOG_INT((int64_t)r->unlogged) : NULL, NULL);
    r->logged_at = now;
    r->unlogged = 0;
}

/* Handles the answer "MOVED 3999 host:port": the connection will be closed and opened to that node,
 * and the call waits until then. Returns false if the text is not valid, or if the call was moved
 * too often. */
static bool follow_move(struct pp_redis *r, struct redis_call *c, const struct redisReply *reply)
{
    const char *place = strchr(reply->str, ' ');
    char host[PP_REDIS_HOST_MAX];
    uint16_t port;

    place = place ? strchr(place + 1, ' ') : NULL;
    memcpy(host, r->line.host, sizeof host);
    if (!place || c->moves >= MOVES_MAX || !pp_redis_parse_host_port(place + 1, host, &port))
        return false;
    c->moves++;
    r->moving = true;
    memcpy(r->move_host, host, sizeof host);
    r->move_port = port;
    put_in(&r->waiting, c);
    return true;
}

static void put_word(struct pp_buf *b, const void *p, size_t n)
{
    pp_buf_printf(b, "$%zu\r\n", n);
    pp_buf_put(b, p, n);
    pp_buf_put(b, "\r\n", 2);
}

/* Writes the bytes of a call to c->wire. A script begins with EVAL and its text (`whole`), or with
 * EVALSHA and its SHA-1, then the number of keys. The caller's words follow. Returns false when out
 * of memory. */
static bool write_wire(struct redis_call *c, bool whole, const char *words, size_t words_n)
{
    const struct pp_redis_script *s = c->script;
    struct pp_buf b;

    pp_buf_init(&b, SIZE_MAX);
    pp_buf_printf(&b, "*%zu\r\n", c->n + (s ? 3 : 0));
    if (s) {
        char keys[24];
        put_word(&b, whole ? "EVAL" : "EVALSHA", whole ? 4 : 7);
        put_word(&b, whole ? (const void *)s->text : s->sha1, whole ? s->text_n : 40);
        put_word(&b, keys, (size_t)snprintf(keys, sizeof keys, "%zu", c->n_keys));
    }
    c->words_at = b.n;
    pp_buf_put(&b, words, words_n);
    if (b.failed) {
        pp_buf_fini(&b);
        return false;
    }
    pp_buf_fini(&c->wire);
    c->wire = b;
    if (whole)
        c->script = NULL;
    return true;
}

/* Sends a call again with the text of its script, because Redis does not know the script's SHA-1.
 * Returns false when out of memory. */
static bool send_whole(struct pp_redis *r, struct redis_call *c)
{
    if (!write_wire(c, true, c->wire.p + c->words_at, c->wire.n - c->words_at))
        return false;
    put_in(&r->waiting, c);
    if (r->line.state == PP_LINE_UP && !r->moving)
        send_call(r, c);
    return true;
}

static void on_refusal(struct pp_redis *r, struct redis_call *c, const struct redisReply *reply)
{
    if (pp_redis_refused_with(reply, "NOSCRIPT") && c->script && send_whole(r, c))
        return;
    if (pp_redis_refused_with(reply, "MOVED ") && follow_move(r, c, reply))
        return;
    bool is_other_server = pp_redis_refused_with(reply, "READONLY") ||
                           pp_redis_refused_with(reply, "LOADING") ||
                           pp_redis_refused_with(reply, "MASTERDOWN");
    /* This server is not the primary, or not ready: the line will look up the host's name again. */
    if (is_other_server && !r->moving) {
        r->moving = true;
        r->move_host[0] = '\0';
    }
    log_refusal(r, c, reply);
    end_call(c, PP_EIO, reply);
}

static void on_reply(struct redisAsyncContext *ac, void *reply, void *data)
{
    struct redis_call *c = data;
    struct redisReply *answer = reply;

    if (!answer)
        pp_redis_line_gone(ac); /* ends every call that was sent, also this one */
    pp_assert(c->with_hiredis, "hiredis answers a call twice");
    c->with_hiredis = false;
    struct pp_redis *r = c->r;
    if (!r)
        drop_call(c);
    if (!r || !answer)
        return;
    if (answer->type == REDIS_REPLY_ERROR)
        on_refusal(r, c, answer);
    else
        end_call(c, PP_OK, answer);
    /* NULL if a callback has closed the line, or if the line has another connection now. */
    struct pp_redis_line *l = ac->data;
    r = l ? l->r : NULL;
    if (!r || !r->moving || !pp_list_empty(&r->sent))
        return;
    r->moving = false;
    pp_redis_line_move(&r->line, r->move_host[0] ? r->move_host : NULL, r->move_port);
}

/* --- sending --- */

static void send_call(struct pp_redis *r, struct redis_call *c)
{
    pp_assert(!c->with_hiredis, "a call is sent while it is in flight");
    if (redisAsyncFormattedCommand(r->line.ac, on_reply, c, c->wire.p, c->wire.n) != REDIS_OK) {
        end_later(r, c, PP_EIO);
        arm_deadline(r);
        return;
    }
    c->with_hiredis = true;
    put_in(&r->sent, c);
    pp_redis_count(r, c->name);
}

/* Returns true if the subscriptions are with a server that is not the master any more: new messages
 * may not reach it, and the connection does not notice that. */
static bool sub_is_behind(const struct pp_redis *r)
{
    return r->home.n_sentinels > 0 && r->sub.state == PP_LINE_UP &&
           (r->sub.port != r->line.port || strcmp(r->sub.host, r->line.host) != 0);
}

static void on_up(struct pp_redis *r)
{
    struct redis_call *c;
    pp_assert(pp_list_empty(&r->sent), "calls are in flight on a new connection");
    r->moving = false;
    if (sub_is_behind(r))
        pp_redis_line_drop(&r->sub, "the master has moved");
    while (r->line.state == PP_LINE_UP && (c = first_of(&r->waiting)))
        send_call(r, c);
    arm_deadline(r);
    if (r->on_state)
        r->on_state(r->data, true);
}

static void on_down(struct pp_redis *r, bool was_up)
{
    struct redis_call *c;

    while ((c = first_of(&r->sent)))
        end_later(r, c, PP_EUNKNOWN);
    while (!r->line.hope && (c = first_of(&r->waiting)))
        end_later(r, c, PP_EIO);
    arm_deadline(r);
    if (run_ended(r) && was_up && r->on_state)
        r->on_state(r->data, false);
}

/* --- deadlines --- */

static void arm_deadline(struct pp_redis *r)
{
    const struct redis_call *waiting = first_of(&r->waiting), *sent = first_of(&r->sent);
    int64_t at = waiting ? waiting->deadline : INT64_MAX;
    if (sent && sent->deadline < at)
        at = sent->deadline;
    if (!pp_list_empty(&r->ended))
        at = 0;
    if (at == INT64_MAX)
        pp_timer_stop(r->deadline);
    else
        pp_timer_start(r->deadline, at - pp_loop_now(r->loop), 0);
}

static void on_deadline(void *data)
{
    struct pp_redis *r = data;
    int64_t now = pp_loop_now(r->loop);
    bool late = false;
    struct redis_call *c;

    while ((c = first_of(&r->waiting)) && c->deadline <= now)
        end_later(r, c, PP_EIO);
    while ((c = first_of(&r->sent)) && c->deadline <= now) {
        end_later(r, c, PP_ETIMEOUT);
        late = true;
    }
    if (late && r->line.state == PP_LINE_UP && now - r->line.heard_at >= r->timeout_ms)
        pp_redis_line_drop(&r->line, "no answer in time"); /* ends all calls that were sent */
    else if (run_ended(r))
        arm_deadline(r);
}

/* --- submitting --- */

enum pp_err pp_redis_send(struct pp_redis *r, const struct pp_redis_call *from, pp_redis_cb cb, void *data)
{
    pp_assert(from->open_at == 0, "a call is sent while a word is open");
    pp_assert(from->n_keys <= from->n, "a call has more keys than words");
    if (from->words.failed)
        return PP_ENOMEM;
    if (r->waiting.n + r->sent.n + r->ended.n >= r->max_in_flight)
        return PP_EFULL;
    struct redis_call *c = calloc(1, sizeof *c);
    if (!c)
        return PP_ENOMEM;
    *c = (struct redis_call){.r = r,
                             .cb = cb,
                             .data = data,
                             .name = from->name,
                             .script = from->script,
                             .n = from->n,
                             .n_keys = from->n_keys,
                             .deadline = pp_loop_now(r->loop) + r->timeout_ms};
    bool whole = c->script && !c->script->sha1[0];
    if (!write_wire(c, whole, from->words.p, from->words.n)) {
        free(c);
        return PP_ENOMEM;
    }
    if (r->line.state == PP_LINE_UP && !r->moving)
        send_call(r, c);
    else if (r->line.hope || r->moving)
        put_in(&r->waiting, c);
    else
        end_later(r, c, PP_EIO); /* the callback runs in the loop's next turn */
    arm_deadline(r);
    return PP_OK;
}

enum pp_err pp_redis_command(struct pp_redis *r, int n, const char *const *argv, const size_t *lens,
                             pp_redis_cb cb, void *data)
{
    struct pp_redis_call c = {0};
    pp_redis_call_begin(&c, argv[0], NULL);
    for (int i = 0; i < n; i++)
        pp_redis_put(&c, argv[i], lens ? lens[i] : strlen(argv[i]));
    enum pp_err err = pp_redis_send(r, &c, cb, data);
    pp_redis_call_fini(&c);
    return err;
}

/* --- life --- */

bool pp_redis_calls_open(struct pp_redis *r)
{
    pp_list_init(&r->waiting);
    pp_list_init(&r->sent);
    pp_list_init(&r->ended);
    r->deadline = pp_timer_open(r->loop, on_deadline, r);
    r->line = (struct pp_redis_line){.r = r, .commands = true, .on_up = on_up, .on_down = on_down};
    return r->deadline && pp_redis_line_start(&r->line);
}

void pp_redis_calls_close(struct pp_redis *r)
{
    struct redis_call *c;

    while ((c = first_of(&r->waiting)))
        end_later(r, c, PP_ECLOSED);
    while ((c = first_of(&r->sent)))
        end_later(r, c, PP_EUNKNOWN);
    pp_timer_close(r->deadline);
    if (r->line.timer)
        pp_redis_line_fini(&r->line);
    if (r->closed)
        *r->closed = true;
    while ((c = first_of(&r->ended)))
        end_call(c, c->err, NULL);
}
