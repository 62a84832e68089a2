/* server.h: starts a photopool server beside a bench and calls its HTTP API. Every error ends the
 * bench with a message. */
#ifndef PP_BENCH_SERVER_H
#define PP_BENCH_SERVER_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

struct bench_server {
    pid_t pid;
    uint16_t port;
    char dir[256];
    double ready_seconds; /* seconds from the start of the server to the first 200 of /readyz */
};

/* Starts `photopool up` on processor `cpu` (-1 means any), with an empty data directory in memory.
 * The program is $PHOTOPOOL, or the one beside the folder of this program. `sets` are settings
 * "name=value" (NULL-terminated), added to the common settings: loopback allowed, no client limits,
 * no fsync. */
struct bench_server bench_server_start(int cpu, const char *const *sets);
/* Starts `photopool serve --roles roles` in the same way; the caller sets store.url and
 * coordinator.url. */
struct bench_server bench_serve_start(int cpu, const char *roles, const char *const *sets);
/* Stops the server and deletes its data. */
void bench_server_stop(struct bench_server *s);

/* Sends a request, without a body if `body` is NULL. Returns the answer's JSON, which the caller
 * owns. */
json_t *bench_call(const struct bench_server *s, const char *method, const char *path, const char *body);
/* Returns the text of the answer to a GET, malloc'ed. */
char *bench_get_text(const struct bench_server *s, const char *path);
/* Posts the items as one batch and takes over the reference to `items`. Returns the batch's id,
 * malloc'ed. */
char *bench_post(const struct bench_server *s, const char *client, const char *refresh, json_t *items);
/* Waits until all photos of the batch are final. */
void bench_wait(const struct bench_server *s, const char *batch, double max_seconds);
/* Returns the server's resident memory in MiB. */
double bench_rss(const struct bench_server *s);
/* Returns the value in /metrics whose name and labels begin with `prefix`, or 0 if there is
 * none. */
double bench_metric(const struct bench_server *s, const char *prefix);

#endif
