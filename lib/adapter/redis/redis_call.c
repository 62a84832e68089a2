/* redis_call.c: commands on a line: order, deadlines, refusals. See redis_internal.h.
 *
 * A call is in one of r's lists until its callback is made; then call->r is NULL, and where hiredis still has
 * it, it is freed when hiredis lets go. Deadlines grow along a list, nearly: after MOVED one may be noticed
 * late. Callbacks are made by run_ended() and by on_reply(), and each may close r. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"

enum { MOVES_MAX = 5, LOG_EVERY_MS = 1000 };

struct call {
    struct pp_node node;
    struct pp_redis *r; /* NULL: called back */
    struct pp_list *list;
    pp_redis_cb cb;
    void *data;
    const char *name;
    const struct pp_redis_script *script; /* until it has been sent whole */
    char *cmd;                            /* as it goes onto the wire; free() */
    size_t cmd_n, rest;                   /* rest: what follows the SHA */
    int n_args;                           /* of the command, its name included */
    int64_t deadline;                     /* monotonic */
    enum pp_err err;                      /* in r->ended */
    uint8_t moves;
    bool with_hiredis;
};

static void arm(struct pp_redis *r);
static void send_call(struct pp_redis *r, struct call *c);

static void put(struct pp_list *list, struct call *c)
{
    if (c->list)
        pp_list_remove(c->list, &c->node);
    c->list = list;
    if (list)
        pp_list_push(list, &c->node);
}

static struct call *first(const struct pp_list *list)
{
    return pp_list_empty(list) ? NULL : pp_container_of(list->head.next, struct call, node);
}

static void drop_call(struct call *c)
{
    free(c->cmd);
    c->cmd = NULL;
    if (!c->with_hiredis)
        free(c);
}

/* The end of a call. May close r. */
static void finish(struct call *c, enum pp_err err, const struct redisReply *reply)
{
    pp_redis_cb cb = c->cb;
    void *data = c->data;
    put(NULL, c);
    c->r = NULL;
    drop_call(c);
    cb(data, err, reply);
}

static void end_later(struct pp_redis *r, struct call *c, enum pp_err err)
{
    c->err = err;
    put(&r->ended, c);
}

/* Calls back what has ended. False: one of them closed r. */
static bool run_ended(struct pp_redis *r)
{
    struct call *c;
    bool closed = false, *outer = r->closed;
    r->closed = &closed;
    while (!closed && (c = first(&r->ended)))
        finish(c, c->err, NULL);
    if (!closed)
        r->closed = outer;
    else if (outer)
        *outer = true;
    return !closed;
}

/* --- what an answer means --- */

static bool begins(const struct redisReply *reply, const char *word)
{
    return strncmp(reply->str, word, strlen(word)) == 0;
}

static void log_refusal(struct pp_redis *r, const struct call *c, const struct redisReply *reply)
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

/* MOVED 3999 host:port. False: it makes no sense, or too often. */
static bool follow(struct pp_redis *r, struct call *c, const struct redisReply *reply)
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
    put(&r->waiting, c);
    return true;
}

/* EVALSHA has become EVAL with the whole text. False: out of memory. */
static bool spell_out(struct call *c)
{
    const struct pp_redis_script *s = c->script;
    char head[64];
    int head_n = snprintf(head, sizeof head, "*%d\r\n$4\r\nEVAL\r\n$%zu\r\n", c->n_args, s->text_n);
    size_t rest_n = c->cmd_n - c->rest, n = (size_t)head_n + s->text_n + 2 + rest_n;
    char *cmd = malloc(n), *p = cmd;
    if (!cmd)
        return false;
    p = (char *)memcpy(p, head, (size_t)head_n) + head_n;
    p = (char *)memcpy(p, s->text, s->text_n) + s->text_n;
    p = (char *)memcpy(p, "\r\n", 2) + 2;
    memcpy(p, c->cmd + c->rest, rest_n);
    free(c->cmd);
    c->cmd = cmd;
    c->cmd_n = n;
    c->script = NULL;
    return true;
}

static void refused(struct pp_redis *r, struct call *c, const struct redisReply *reply)
{
    if (begins(reply, "NOSCRIPT") && c->script && spell_out(c)) {
        put(&r->waiting, c);
        if (r->line.state == PP_LINE_UP && !r->moving)
            send_call(r, c);
        return;
    }
    if (begins(reply, "MOVED ") && follow(r, c, reply))
        return;
    if ((begins(reply, "READONLY") || begins(reply, "LOADING") || begins(reply, "MASTERDOWN")) &&
        !r->moving) {
        r->moving = true; /* this server is not the one any more, or not yet: by name */
        r->move_host[0] = '\0';
    }
    log_refusal(r, c, reply);
    finish(c, PP_EIO, reply);
}

static void move_on(struct pp_redis *r)
{
    if (!r->moving || !pp_list_empty(&r->sent))
        return;
    r->moving = false;
    pp_redis_line_move(&r->line, r->move_host[0] ? r->move_host : NULL, r->move_port);
}

static void on_reply(struct redisAsyncContext *ac, void *reply, void *data)
{
    struct call *c = data;
    struct redisReply *answer = reply;

    if (!answer)
        pp_redis_line_gone(ac); /* calls back everything that was sent, c too */
    c->with_hiredis = false;
    struct pp_redis *r = c->r;
    if (!r)
        drop_call(c);
    if (!r || !answer)
        return;
    if (answer->type == REDIS_REPLY_ERROR)
        refused(r, c, answer);
    else
        finish(c, PP_OK, answer);
    struct pp_redis_line *l = ac->data; /* NULL: closed, or another connection by now */
    if (l)
        move_on(pp_container_of(l, struct pp_redis, line));
}

/* --- sending --- */

static void send_call(struct pp_redis *r, struct call *c)
{
    if (redisAsyncFormattedCommand(r->line.ac, on_reply, c, c->cmd, c->cmd_n) != REDIS_OK) {
        end_later(r, c, PP_EIO);
        arm(r);
        return;
    }
    c->with_hiredis = true;
    put(&r->sent, c);
    pp_redis_count(r, c->name);
}

static void on_up(void *data)
{
    struct pp_redis *r = data;
    struct call *c;
    r->moving = false;
    while (r->line.state == PP_LINE_UP && (c = first(&r->waiting)))
        send_call(r, c);
    arm(r);
    if (r->state)
        r->state(r->data, true);
}

static void on_down(void *data, bool was_up)
{
    struct pp_redis *r = data;
    struct call *c;

    while ((c = first(&r->sent)))
        end_later(r, c, PP_EUNKNOWN);
    while (!r->line.hope && (c = first(&r->waiting)))
        end_later(r, c, PP_EIO);
    arm(r);
    if (run_ended(r) && was_up && r->state)
        r->state(r->data, false);
}

static void on_time(void *data, int64_t asked_wall, const struct redisReply *reply)
{
    pp_redis_clock_set(data, asked_wall, reply);
}

/* --- deadlines --- */

static void arm(struct pp_redis *r)
{
    int64_t at = INT64_MAX;
    const struct call *c;
    if (!pp_list_empty(&r->ended))
        at = 0;
    if ((c = first(&r->waiting)) && c->deadline < at)
        at = c->deadline;
    if ((c = first(&r->sent)) && c->deadline < at)
        at = c->deadline;
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
    struct call *c;

    while ((c = first(&r->waiting)) && c->deadline <= now)
        end_later(r, c, PP_EIO);
    while ((c = first(&r->sent)) && c->deadline <= now) {
        end_later(r, c, PP_ETIMEOUT);
        late = true;
    }
    if (late && r->line.state == PP_LINE_UP && now - r->line.heard_at >= r->timeout_ms)
        pp_redis_line_drop(&r->line, "no answer in time"); /* calls back, too */
    else if (run_ended(r))
        arm(r);
}

/* --- submitting --- */

static enum pp_err submit(struct pp_redis *r, struct call *c)
{
    c->r = r;
    c->deadline = pp_loop_now(r->loop) + r->timeout_ms;
    if (r->line.state == PP_LINE_UP && !r->moving)
        send_call(r, c);
    else if (r->line.hope || r->moving)
        put(&r->waiting, c);
    else
        end_later(r, c, PP_EIO); /* on the next turn */
    arm(r);
    return PP_OK;
}

static struct call *new_call(struct pp_redis *r, const char *name, int argc, const char *const *argv,
                             const size_t *lens, pp_redis_cb cb, void *data, enum pp_err *err)
{
    if (r->waiting.n + r->sent.n + r->ended.n >= r->max_in_flight) {
        *err = PP_EFULL;
        return NULL;
    }
    struct call *c = calloc(1, sizeof *c);
    long long n = c ? redisFormatCommandArgv(&c->cmd, argc, (const char **)(uintptr_t)argv, lens) : -1;
    if (n < 0) {
        free(c);
        *err = PP_ENOMEM;
        return NULL;
    }
    c->cmd_n = (size_t)n;
    c->n_args = argc;
    c->name = name;
    c->cb = cb;
    c->data = data;
    return c;
}

enum pp_err pp_redis_command(struct pp_redis *r, int argc, const char *const *argv, const size_t *lens,
                             pp_redis_cb cb, void *data)
{
    enum pp_err err;
    struct call *c = new_call(r, argv[0], argc, argv, lens, cb, data, &err);
    return c ? submit(r, c) : err;
}

enum { EVAL_ARGS_MAX = 8192 };

enum pp_err pp_redis_eval(struct pp_redis *r, const struct pp_redis_script *script, int n_keys, int argc,
                          const char *const *argv, const size_t *lens, pp_redis_cb cb, void *data)
{
    char count[16];
    size_t n = (size_t)argc + 3;
    bool whole = !script->sha1[0];
    enum pp_err err = PP_ENOMEM;

    if (argc < n_keys || argc > EVAL_ARGS_MAX)
        return PP_EINVAL;
    const char **all = calloc(n, sizeof *all);
    size_t *all_n = calloc(n, sizeof *all_n);
    struct call *c = NULL;
    if (all && all_n) {
        snprintf(count, sizeof count, "%d", n_keys);
        all[0] = whole ? "EVAL" : "EVALSHA";
        all[1] = whole ? script->text : script->sha1;
        all[2] = count;
        for (size_t i = 3; i < n; i++)
            all[i] = argv[i - 3];
        for (size_t i = 0; i < n; i++)
            all_n[i] = i == 1 && whole ? script->text_n : i >= 3 && lens ? lens[i - 3] : strlen(all[i]);
        c = new_call(r, script->name, (int)n, all, all_n, cb, data, &err);
    }
    free(all);
    free(all_n);
    if (!c)
        return err;
    if (whole)
        return submit(r, c);
    c->script = script;
    /* "*n\r\n" "$7\r\nEVALSHA\r\n" "$40\r\n<sha>\r\n" */
    c->rest = (size_t)(strchr(c->cmd, '\n') - c->cmd) + 1 + 13 + 5 + 42;
    return submit(r, c);
}

/* --- life --- */

bool pp_redis_calls_open(struct pp_redis *r)
{
    pp_list_init(&r->waiting);
    pp_list_init(&r->sent);
    pp_list_init(&r->ended);
    r->deadline = pp_timer_open(r->loop, on_deadline, r);
    r->line.loop = r->loop;
    r->line.log = r->log;
    r->line.what = "commands";
    r->line.home = &r->home;
    r->line.commands = true;
    r->line.timeout_ms = r->timeout_ms;
    r->line.on_up = on_up;
    r->line.on_down = on_down;
    r->line.on_time = on_time;
    r->line.data = r;
    return r->deadline && pp_redis_line_start(&r->line);
}

void pp_redis_calls_close(struct pp_redis *r)
{
    struct call *c;

    while ((c = first(&r->waiting)))
        end_later(r, c, PP_ECLOSED);
    while ((c = first(&r->sent)))
        end_later(r, c, PP_EUNKNOWN);
    pp_timer_close(r->deadline);
    if (r->line.timer)
        pp_redis_line_fini(&r->line);
    if (r->closed)
        *r->closed = true;
    while ((c = first(&r->ended)))
        finish(c, c->err, NULL);
}
