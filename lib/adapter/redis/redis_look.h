/* redis_look.h: what a Redis server says of itself, and what that means for photopool's data. */
#ifndef PP_ADAPTER_REDIS_LOOK_H
#define PP_ADAPTER_REDIS_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"
#include "runtime/loop.h"

/* The lines of INFO that photopool reads, as texts; "": the server did not say. */
struct pp_redis_server {
    char version[24];
    char aof[8], last_write[16]; /* aof_enabled, aof_last_write_status */
    char policy[64], maxmemory[24];
    char fsync[16]; /* appendfsync, from CONFIG */
};

/* Reads the answer to INFO. Leaves `fsync` unchanged. */
void pp_redis_server_read(struct pp_redis_server *s, const char *info);
/* Returns true if the server is older than 6.2, which photopool needs. */
bool pp_redis_server_old(const struct pp_redis_server *s);
/* Returns true if the server deletes keys when its memory is full. */
bool pp_redis_server_evicts(const struct pp_redis_server *s);
/* Returns which failures the server's data survive, as a static text. */
const char *pp_redis_server_durability(const struct pp_redis_server *s);

#define PP_REDIS_WHY_MAX 480

/* Returns true if the ports refuse the URL (PP_EINVAL), and writes the reason: it has another form,
 * or a file that it names can't be used. The text has no password. */
bool pp_redis_url_problem(const char *url, char why[PP_REDIS_WHY_MAX]);

struct pp_redis_look {
    struct pp_redis_server server;
    /* The server's clock, and the machine's date (base/clock.h) before it was asked and after its
     * answer; in ms. clock_ms is 0 if the server did not say. */
    int64_t clock_ms, asked_ms, heard_ms;
};

/* Asks a server once, and turns `loop` until it has answered, but no longer than timeout_ms. Only
 * reads. `url` has the form of redis_conn.h. Returns PP_EINVAL if it has another, PP_EIO or
 * PP_ETIMEOUT if there was no answer, with the reason in `why`, or PP_ENOMEM. */
pp_must_check enum pp_err pp_redis_look(struct pp_loop *loop, const char *url, int64_t timeout_ms,
                                        struct pp_redis_look *out, char why[PP_REDIS_WHY_MAX]);

#endif
