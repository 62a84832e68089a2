/* redis_conn.h: a connection to Redis that reconnects by itself, on a loop: commands, scripts,
 * subscriptions, Redis' clock.
 *
 *   submit -> [waiting: not connected yet] -> sent, in flight -> answer -> cb
 *             \ attempt failed: PP_EIO         \ connection lost: PP_EUNKNOWN; timeout: PP_ETIMEOUT
 *
 * Invariants
 *  - If the submit fails, cb is never called. Otherwise cb is called exactly once, later, on the
 *    loop thread. pp_redis_close() calls it at once for every call that is left: with PP_ECLOSED if
 *    the call was not sent, with PP_EUNKNOWN if it was.
 *  - PP_EIO: Redis did not execute the call, because it was never sent, or Redis refused it with an
 *    error. PP_EUNKNOWN and PP_ETIMEOUT: Redis may have executed it. A script makes all of its
 *    writes or none, provided that none of its errors comes after a write.
 *  - Calls go out in the order of their submission, and do not wait for answers. Answers come in
 *    that order, except after MOVED and for scripts that were sent again (NOSCRIPT).
 *  - Calls wait for a connection before the first attempt, and after a loss until one attempt has
 *    failed. From then until the connection is up again they fail at once with PP_EIO.
 *
 * Redis Cluster: one pp_redis serves all keys with one hash tag, because one node has them all.
 * After MOVED the connection moves to the node that the answer names, and sends the call again.
 * ASK, TRYAGAIN, CLUSTERDOWN, LOADING, READONLY are refusals (PP_EIO); after the last two the
 * connection looks up the host's name again.
 *
 * Sentinel: a connection that is lost, or gets READONLY or LOADING, asks the sentinels again. ROLE
 * must say that the server is a master. The connection of subscriptions follows the one of calls. A
 * fail-over of Redis loses the writes that its replica had not got yet.
 *
 * All functions and callbacks run on the thread of one loop. hiredis writes to sockets, so the
 * process must ignore SIGPIPE. */
#ifndef PP_ADAPTER_REDIS_CONN_H
#define PP_ADAPTER_REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "photopool/err.h"
#include "runtime/loop.h"

struct pp_redis;
struct redisReply; /* declared in hiredis/hiredis.h */

struct pp_redis_options {
    /* redis://[[user]:password@]host[:port][/db], percent-encoded where needed; copied. rediss: the
     * same by TLS 1.2 or later, which checks the server's certificate and its name; may end in
     * ?ca=FILE (PEM: who may have signed the certificate; without it the system's) and
     * ?cert=FILE&key=FILE (PEM: our own). The files are read once.
     * redis+sentinel://[[user]:password@]host[:port],.../name[/db]: the hosts are sentinels, which
     * are asked for the master `name` at each attempt to connect. The login is the server's;
     * sentinels may have the same one, or none. */
    const char *url;
    struct pp_log *log;   /* may be NULL */
    int64_t timeout_ms;   /* longest wait for an answer, in ms; 0: 5 s */
    size_t max_in_flight; /* most calls that are submitted and not answered; 0: 4096 */
    /* Called with up = true when Redis answers on a new connection, and with false when that
     * connection is lost. May be NULL. */
    void (*on_state)(void *data, bool up);
    void *data;
};

/* Connects to Redis, and reconnects until pp_redis_close(). Returns PP_EINVAL if the URL is no URL
 * of Redis or its files can't be used (redis_look.h says why), or PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_open(struct pp_loop *loop, const struct pp_redis_options *o,
                                        struct pp_redis **out);
/* Closes the connection; a callback of the connection may call it. Writes submitted calls while the
 * socket takes them without blocking, and does not wait for answers. Does nothing if `r` is
 * NULL. */
void pp_redis_close(struct pp_redis *r);

/* Returns true while the connection is up and Redis answers. */
bool pp_redis_up(const struct pp_redis *r);

/* --- calls --- */

/* A Lua script. CMakeLists.txt makes pp_lua_x from the file x.lua of this folder. */
struct pp_redis_script {
    const char *name;
    const unsigned char *text;
    size_t text_n;
    char sha1[41]; /* SHA-1 of the text; "": each call sends the whole text instead */
};
#define PP_REDIS_LUA_DECLARE(x) extern const struct pp_redis_script pp_lua_##x

/* A command, or the call of a script: a list of words, which are copied. After a failure
 * (words.failed) later words have no effect. The first words of a script's call are its keys, and
 * pp_redis_call_keys_end() ends them. A call may start as zeroed memory; pp_redis_call_fini() frees
 * its words. */
struct pp_redis_call {
    const char *name;                     /* the name under which the call is counted; a constant string */
    const struct pp_redis_script *script; /* the script to call; NULL: the words are the command */
    size_t n, n_keys;                     /* number of words, and how many of them are keys */
    size_t open_at; /* offset + 1 of the open word's content in `words`; 0: no word is open */
    struct pp_buf words;
};

/* Begins a call, and reuses the memory of the previous one. `script` must live until the answer. */
void pp_redis_call_begin(struct pp_redis_call *c, const char *name, const struct pp_redis_script *script);
void pp_redis_call_fini(struct pp_redis_call *c);
/* Each function adds one word. The call fails if a pointer is NULL. */
void pp_redis_put(struct pp_redis_call *c, const void *p, size_t n);
void pp_redis_put_text(struct pp_redis_call *c, const char *s);
void pp_redis_put_num(struct pp_redis_call *c, int64_t v);
/* Adds `n_words` words that the caller has written as Redis reads them ("$3\r\nabc\r\n"). */
void pp_redis_put_written(struct pp_redis_call *c, const char *p, size_t n, size_t n_words);
/* Between these two calls the caller puts bytes into the returned buffer: together they are one
 * word. */
struct pp_buf *pp_redis_word_open(struct pp_redis_call *c);
void pp_redis_word_close(struct pp_redis_call *c);
void pp_redis_call_keys_end(struct pp_redis_call *c);

/* Packs integers by a LAYOUT of script_constants.h, one value for each field. A name (c0) is left
 * to the caller. */
void pp_redis_pack(struct pp_buf *b, const char *layout, const int64_t *values);
/* Unpacks integers by a LAYOUT. Returns false if there are too few bytes. */
pp_must_check bool pp_redis_unpack(struct pp_reader *r, const char *layout, int64_t *values);

/* Gets the answer to a call. `reply` is Redis' answer with PP_OK, Redis' error with PP_EIO if Redis
 * refused the call, and otherwise NULL. It is valid during the callback. */
typedef void (*pp_redis_cb)(void *data, enum pp_err err, const struct redisReply *reply);

/* Returns true if `reply` is an error that begins with `word`. `reply` may be NULL. */
bool pp_redis_refused_with(const struct redisReply *reply, const char *word);
bool pp_redis_is_text(const struct redisReply *reply);
/* Returns true if the reply is an array whose first elements have these types: t text, i integer, a
 * array. Returns false if it is NULL. */
bool pp_redis_is(const struct redisReply *reply, const char *shape);

/* Submits a copy of the call. Returns PP_EFULL if max_in_flight calls are not answered yet, or
 * PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_send(struct pp_redis *r, const struct pp_redis_call *c, pp_redis_cb cb,
                                        void *data);
/* Submits a command of n words. argv[0] must be a constant string. If `lens` is NULL, all words end
 * with a NUL. Fails as pp_redis_send() does. */
pp_must_check enum pp_err pp_redis_command(struct pp_redis *r, int n, const char *const *argv,
                                           const size_t *lens, pp_redis_cb cb, void *data);

/* Returns true if `s` may be a hash tag of keys: it has 1 to `max` bytes without braces, blanks and
 * control characters. */
bool pp_redis_prefix_valid(const char *s, size_t max);

/* --- subscriptions --- */

/* Gets each message of a channel. `message` is NULL when the subscription has begun, or has begun
 * again after a lost connection: earlier messages may then be missing. */
typedef void (*pp_redis_push_cb)(void *data, const char *message, size_t n);

/* Subscribes to a channel until close. The first subscription opens a second connection, which all
 * subscriptions share. Returns PP_EFULL for more than PP_REDIS_CHANNELS channels, or PP_ENOMEM. */
#define PP_REDIS_CHANNELS 16
pp_must_check enum pp_err pp_redis_subscribe(struct pp_redis *r, const char *channel, pp_redis_push_cb cb,
                                             void *data);

/* --- the clock, counts --- */

/* Returns the time by Redis' clock, with an error of at most half a round trip. The connection asks
 * Redis at each connect and every few seconds. Before the first answer, returns our steady wall
 * time. */
int64_t pp_redis_now(const struct pp_redis *r);
/* Returns a steady wall time of ours by Redis' clock, unless the two clocks differ by at most
 * PP_AHEAD_IGNORED_MS: then the same time always has the same translation. */
int64_t pp_redis_ms(const struct pp_redis *r, int64_t our_ms);
/* Returns the date before which data may be deleted: `date_ms`, or earlier by as much as our date
 * is ahead of Redis' clock. */
int64_t pp_redis_before(const struct pp_redis *r, int64_t date_ms);

/* Sets *name to the name of the i-th kind of call, and *n to how many were sent since open. Returns
 * false if there is no such kind. */
bool pp_redis_roundtrips(const struct pp_redis *r, size_t i, const char **name, uint64_t *n);

#endif
