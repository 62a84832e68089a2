/* redis_conn.h: a connection to Redis on a loop, kept up: commands, scripts, subscriptions, Redis' clock.
 *
 *   submit -> [waiting: not connected yet] -> sent, in flight -> answer -> cb
 *             \ the attempt failed: PP_EIO     \ the connection was lost: PP_EUNKNOWN; no answer in time:
 *                                                PP_ETIMEOUT
 *
 * Invariants
 *  - Submit failed: cb never fires. Submit succeeded: it fires exactly once, later, on the loop thread.
 * Within pp_redis_close() it fires at once for what is left (PP_ECLOSED never sent, PP_EUNKNOWN sent).
 *  - PP_EIO means: not executed (never sent, or refused with an error). PP_EUNKNOWN and PP_ETIMEOUT mean that
 *    it may have been. A script that writes runs whole or not at all where its errors come before its writes.
 *  - Commands go out in the order of their submission, many at once, without waiting for answers; answers
 * come in that order, but for scripts that Redis had forgotten (NOSCRIPT: sent again) and after MOVED.
 *  - Commands wait for a connection only while there is hope: before the first attempt, and after a loss
 * until an attempt has failed. From then until it is up again they fail at once with PP_EIO.
 *
 * Redis Cluster: one pp_redis for all keys with one hash tag, for one node serves them all. MOVED connects to
 * the node named and sends again. ASK, TRYAGAIN, CLUSTERDOWN, LOADING, READONLY are refusals (PP_EIO); the
 * last two also connect anew, by name.
 *
 * One loop, one thread. hiredis writes to sockets: the process ignores SIGPIPE. */
#ifndef PP_ADAPTER_REDIS_CONN_H
#define PP_ADAPTER_REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "photopool/err.h"
#include "runtime/loop.h"

struct pp_redis;
struct redisReply; /* hiredis/hiredis.h */

struct pp_redis_options {
    const char *url;    /* redis://[[user]:password@]host[:port][/db]; percent-encoding is decoded; copied */
    struct pp_log *log; /* may be NULL */
    int64_t timeout_ms; /* for an answer; 0: 5 s */
    size_t max_in_flight; /* commands submitted and not answered; 0: 4096 */
    /* Up: connected and answering (again); down: it was up and is lost. May be NULL. */
    void (*state)(void *data, bool up);
    void *data;
};

/* Begins to connect and never stops trying. PP_EINVAL: the URL is none; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_open(struct pp_loop *loop, const struct pp_redis_options *o,
                                        struct pp_redis **out);
/* Also within its callbacks. What had been submitted is still sent where the connection takes it at once, its
 * answers are not waited for. NULL is fine. */
void pp_redis_close(struct pp_redis *r);

/* Connected and answering. */
bool pp_redis_up(const struct pp_redis *r);

/* `reply` is NULL unless PP_OK, or PP_EIO with an error reply; valid during the callback. */
typedef void (*pp_redis_cb)(void *data, enum pp_err err, const struct redisReply *reply);

/* A command and its arguments, binary safe; copied. lens NULL: all end with NUL. Counted under argv[0], which
 * must be a constant. PP_EFULL: max_in_flight; PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_command(struct pp_redis *r, int argc, const char *const *argv,
                                           const size_t *lens, pp_redis_cb cb, void *data);

/* A Lua script. `name` (constant) is what its round trips are counted under. */
struct pp_redis_script {
    const char *name;
    const void *text;
    size_t text_n;
    char sha1[41]; /* "": the text is sent each time; so for the last call before a close, which nobody
                      repeats */
};

/* `text` is not copied. A file x.lua of this folder is there as PP_REDIS_LUA(x). */
void pp_redis_script_init(struct pp_redis_script *s, const char *name, const void *text, size_t text_n);
#define PP_REDIS_LUA_DECLARE(x)              \
    extern const unsigned char pp_lua_##x[]; \
    extern const size_t pp_lua_##x##_n
#define PP_REDIS_LUA(x) pp_lua_##x, pp_lua_##x##_n

/* EVALSHA; argv: the keys (n_keys of them), then the arguments. The script must live until cb. As
 * pp_redis_command(). */
pp_must_check enum pp_err pp_redis_eval(struct pp_redis *r, const struct pp_redis_script *script, int n_keys,
                                        int argc, const char *const *argv, const size_t *lens, pp_redis_cb cb,
                                        void *data);

/* message NULL: the subscription has begun, or begun again after a loss: anything may have been missed. */
typedef void (*pp_redis_push_cb)(void *data, const char *message, size_t n);

/* Messages of a channel, over a second connection that is opened with the first subscription, until close. At
 * most 8 channels. PP_EFULL, PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_subscribe(struct pp_redis *r, const char *channel, pp_redis_push_cb cb,
                                             void *data);

/* Redis' clock minus our wall clock, in ms: leases are by Redis' time. Asked at each connect and every few
 * seconds; 0 until first known. Good to half a round trip. */
int64_t pp_redis_offset_ms(const struct pp_redis *r);
/* pp_loop_wall() by Redis' clock. */
int64_t pp_redis_now(const struct pp_redis *r);

/* The i-th kind of command and how many were sent since open; false past the last. */
bool pp_redis_roundtrips(const struct pp_redis *r, size_t i, const char **name, uint64_t *n);

#endif
