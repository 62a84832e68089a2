/* fake_ports.h: ports in memory for tests of the pipeline: answers are given, requests are recorded, and each
 * comes back on a later turn of the loop, as the ports promise. One thread. */
#ifndef PP_TEST_FAKE_PORTS_H
#define PP_TEST_FAKE_PORTS_H

#include "photopool/port/blob_store.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/http_server.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

#define FAKE_MAX 64

/* What brings requests back. */
struct fake_return {
    struct pp_timer *timer;
    struct pp_req *pending[FAKE_MAX];
    size_t n;
    bool hold; /* nothing comes back until it is cleared */
};

struct fake_entry {
    struct pp_ingest_entry entry; /* all of it copied */
    char key[300], answer[4096];  /* "client key" */
    size_t answer_n;
    uint8_t body_hash[32];
};

struct fake_ingest {
    struct pp_ingest_queue base;
    struct fake_return back;
    struct fake_entry entries[FAKE_MAX]; /* oldest first */
    size_t n;
    enum pp_err append_err, err; /* of everything else */
    struct pp_ingest_stats stats;
};

struct fake_store {
    struct pp_task_store base;
    struct fake_return back;
    enum pp_err err;
    struct pp_batch batches[FAKE_MAX]; /* oldest first */
    size_t n_batches;
    struct pp_item items[FAKE_MAX]; /* in order of seq; results and items */
    size_t n_items;
    struct pp_client clients[FAKE_MAX]; /* in order of id */
    size_t n_clients;
    struct pp_route_row routes[FAKE_MAX];
    size_t n_routes;
    struct pp_object object; /* the only one, of object_client */
    const char *object_client;
    struct pp_store_photo photo; /* its outputs are what explain sees */
    struct pp_store_queue queue;
    /* Asked last: */
    struct pp_store_cancel cancelled;
    struct pp_store_results results_asked;
    struct pp_store_replay replay_asked;
    char put_client[65];
    size_t results_enomem_above; /* limits over this end with PP_ENOMEM; 0: none */
    size_t puts, lookups;
};

struct fake_coordinator {
    struct pp_coordinator base;
    struct pp_worker_info workers[FAKE_MAX];
    size_t n;
    int64_t slow_until;
    char drained[100]; /* "*": all */
};

struct fake_blobs {
    struct pp_blob_store base;
    const void *bytes;
    size_t n, chunk; /* at most so many at once; 0: all */
    enum pp_err err;
};

/* The last answer. */
struct fake_server {
    struct pp_http_server base;
    size_t replies;
    int status;
    bool close;
    char type[80], headers[2048]; /* lines, each with a line feed */
    char *body;                   /* NUL-terminated */
    size_t body_n;
};

void fake_ingest_open(struct fake_ingest *f, struct pp_loop *loop);
void fake_ingest_close(struct fake_ingest *f);
void fake_store_open(struct fake_store *f, struct pp_loop *loop);
void fake_store_close(struct fake_store *f);
void fake_coordinator_open(struct fake_coordinator *f);
void fake_blobs_open(struct fake_blobs *f);
void fake_server_open(struct fake_server *f);
void fake_server_close(struct fake_server *f);
void fake_return_open(struct fake_return *back, struct pp_loop *loop);
/* The request comes back on a later turn, with `err`; always PP_OK. */
enum pp_err fake_later(struct fake_return *back, struct pp_req *req, enum pp_err err);
/* Lets go of what was held. */
void fake_release(struct fake_return *back);

#endif
