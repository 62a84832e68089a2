/* server.h: a photopool up beside a bench, and talking to it. Everything that goes wrong ends the bench with
 * a message. */
#ifndef PP_BENCH_SERVER_H
#define PP_BENCH_SERVER_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

struct bench_server {
    pid_t pid;
    uint16_t port;
    char dir[256];
    double ready_seconds; /* from its start to the first 200 of /readyz */
};

/* Starts `photopool up` ($PHOTOPOOL, or beside the folder of this program) with an empty data directory in
 * memory, on processor `cpu` (-1: any), with settings "name=value" (NULL-terminated) beside those that a
 * bench needs: loopback allowed, no client limits, no fsync. */
struct bench_server bench_server_start(int cpu, const char *const *sets);
/* The same with `photopool serve --roles roles`; store.url and coordinator.url are the caller's to set. */
struct bench_server bench_serve_start(int cpu, const char *roles, const char *const *sets);
/* Stops it and removes its data. */
void bench_server_stop(struct bench_server *s);

/* A request; body NULL: none. The answer's JSON belongs to the caller. */
json_t *bench_call(const struct bench_server *s, const char *method, const char *path, const char *body);
/* The plain text of an answer, malloc'ed. */
char *bench_get_text(const struct bench_server *s, const char *path);
/* Posts the items (stolen) and answers the batch id, malloc'ed. */
char *bench_post(const struct bench_server *s, const char *client, const char *refresh, json_t *items);
/* Until all photos of the batch are final. */
void bench_wait(const struct bench_server *s, const char *batch, double max_seconds);
/* Resident memory now, in MiB. */
double bench_rss(const struct bench_server *s);
/* A sample of /metrics whose name and labels begin with `prefix`; 0 where there is none. */
double bench_metric(const struct bench_server *s, const char *prefix);

#endif
