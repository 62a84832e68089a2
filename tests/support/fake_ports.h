/* fake_ports.h: ports in memory for tests. The test sets the answers. The ports record the
 * requests, and answer each request on a later turn of the loop, as real ports do. Use them on one
 * thread. */
#ifndef PP_TEST_FAKE_PORTS_H
#define PP_TEST_FAKE_PORTS_H

#include "photopool/port/blob_store.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/http_server.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

#define FAKE_MAX 64

/* Requests that wait for their answers, which a timer gives on a later turn of the loop. */
struct fake_return {
    struct pp_timer *timer;
    struct pp_req *pending[FAKE_MAX];
    size_t n;
    bool hold; /* While true, the port answers no request. */
};

struct fake_entry {
    struct pp_ingest_entry entry; /* a copy of the entry and of the texts that it points to */
    /* key: the client, a space and the idempotency key; answer: the stored answer */
    char key[300], answer[4096];
    size_t answer_n;
    uint8_t body_hash[32];
};

struct fake_ingest {
    struct pp_ingest_queue base;
    struct fake_return back;
    struct fake_entry entries[FAKE_MAX]; /* the entries of the queue, oldest first */
    size_t n;
    /* append_err: how the next appends end. err: how all other operations end. */
    enum pp_err append_err, err;
    enum pp_err write_err; /* how probes that write end */
    struct pp_ingest_stats stats;
    struct pp_ingest_aside aside[FAKE_MAX]; /* the entries that are set aside, the newest first */
    size_t n_aside;
    struct pp_ingest_put_back put_back; /* the last request that has put one back */
    unsigned unseen;                    /* this many requests for an entry do not find it */
    size_t page_max; /* a list has at most this many entries; 0: as many as are asked for */
};

struct fake_store {
    struct pp_task_store base;
    struct fake_return back;
    enum pp_err err;
    enum pp_err write_err;             /* how requests for numbers end */
    enum pp_err err_after_cancel;      /* becomes `err` when a batch is cancelled */
    struct pp_batch batches[FAKE_MAX]; /* the batches of the store, oldest first */
    size_t n_batches;
    /* Not 0: the batch that is read is FINISHED after this many reads of a batch. */
    size_t finish_after;
    size_t batch_reads; /* number of reads of a batch */
    /* the items of the store in the order of seq, for requests of results and of items */
    struct pp_item items[FAKE_MAX];
    size_t n_items;
    size_t items_scan;                  /* a list of items reads at most this many */
    struct pp_client clients[FAKE_MAX]; /* the clients of the store, in the order of their ids */
    size_t n_clients;
    bool clients_batches; /* the last request for a page also wanted clients with batches */
    struct pp_route_row routes[FAKE_MAX];
    size_t n_routes;
    struct pp_rejected_part rejected[8]; /* the parts of verdicts of every batch */
    size_t n_rejected;
    struct pp_object object; /* the only object of the store, which belongs to object_client */
    const char *object_client;
    struct pp_store_photo photo; /* the answer to each request for a photo */
    struct pp_waits waits;       /* why the open photos of every batch wait */
    struct pp_store_queue queue;
    const char *waiting[FAKE_MAX]; /* the clients, each with 7 waiting tasks on every host */
    size_t n_waiting;
    char installation[PP_INSTALLATION_MAX]; /* its id; "" if nobody has asked for it */
    /* The following members are copies of the last request of their kind. */
    struct pp_store_cancel cancelled;
    struct pp_store_results results_asked;
    struct pp_store_replay replay_asked;
    char put_client[65];
    struct pp_client put;                    /* without texts: they are in put_client and put_headers */
    uint64_t outbox;                         /* the seq of the newest item in the outbox */
    int64_t outbox_oldest_at;                /* when the oldest undelivered item in it finished */
    enum pp_err forget_err;                  /* how requests to forget an item end; PP_OK: as `err` says */
    size_t stale;                            /* number of puts with `compare` that end with PP_ESTALE */
    struct pp_store_forget_item forget_item; /* the last one */
    char forgotten[330];                     /* client and domain of the failures to forget, "*" for any */
    char put_headers[4200];                  /* "" if the client has none */
    /* A request for results with a larger limit than this ends with PP_ENOMEM; 0 means that none
     * does. */
    size_t results_enomem_above;
    size_t replay_enomem_above; /* the same for replays */
    size_t puts, lookups;
};

struct fake_coordinator {
    struct pp_coordinator base;
    struct fake_return back;
    enum pp_err secret_err; /* how requests for the secret end */
    enum pp_err err;        /* how requests for the workers, and to drain, end */
    struct pp_worker_info workers[FAKE_MAX];
    size_t n;
    int64_t slow_until;
    char drained[100]; /* the last worker that was asked to drain; "*" means all workers */
};

struct fake_blobs {
    struct pp_blob_store base;
    const void *bytes;
    /* n: length of the object. chunk: most bytes that one read returns, or 0 for no limit. */
    size_t n, chunk;
    enum pp_err err;
};

/* A server that keeps its last answer in these members. */
struct fake_server {
    struct pp_http_server base;
    const struct pp_http_request *request; /* the last request that was answered */
    size_t replies;
    int status;
    bool close;
    char type[80], headers[2048]; /* headers: header lines, each with its \n */
    char *body;                   /* body of the answer, with a NUL at the end */
    size_t body_n;
    struct pp_http_source *source; /* still gives pieces of the body; NULL: none */
    size_t body_at;                /* number of bytes that it has given */
    /* The streams, which are open until the API ends them; closed() is called at once. */
    size_t streams, pieces;   /* open ones; pieces that all streams were sent */
    enum pp_ws_close code;    /* with which the last stream was ended */
    enum pp_stream_kind kind; /* of the last stream that was opened */
};

void fake_ingest_open(struct fake_ingest *f, struct pp_loop *loop);
void fake_ingest_close(struct fake_ingest *f);
void fake_store_open(struct fake_store *f, struct pp_loop *loop);
void fake_store_close(struct fake_store *f);
void fake_coordinator_open(struct fake_coordinator *f, struct pp_loop *loop);
void fake_coordinator_close(struct fake_coordinator *f);
void fake_blobs_open(struct fake_blobs *f);
void fake_server_open(struct fake_server *f);
void fake_server_close(struct fake_server *f);
void fake_return_open(struct fake_return *back, struct pp_loop *loop);
/* Ends the request with `err` on a later turn of the loop. Always returns PP_OK. */
enum pp_err fake_later(struct fake_return *back, struct pp_req *req, enum pp_err err);
/* Answers the requests that `hold` has delayed. */
void fake_release(struct fake_return *back);

#endif
