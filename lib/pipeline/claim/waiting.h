/* waiting.h: finds out why open photos are open, from the whole fleet's point of view
 * (core/reason.h): the facts about clients and workers, and from them the pace of batches. All
 * functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_CLAIM_WAITING_H
#define PHOTOPOOL_PIPELINE_CLAIM_WAITING_H

#include "format/result.h"
#include "photopool/port/coordinator.h"
#include "pipeline/common/params.h"
#include "runtime/loop.h"

struct pp_claimer;
struct pp_progress;

/* What a process has read of the workers, for requests that every process of a fleet makes, such as
 * batch events. It is read again after 2 s, and later in a large fleet: n processes that read n
 * workers each n * n / 2 ms read 2,000 a second in all. What is older than 10 s does not count. */
struct pp_served {
    bool known;
    int64_t read_ms, next_ms; /* loop times: when it was read, and when to read it again */
    uint32_t unserved, busy;  /* as in struct pp_reason_facts */
};

/* What both requests below need. All of it outlives them. */
struct pp_waiting_from {
    struct pp_task_store *store;
    struct pp_coordinator *coordinator; /* NULL: the workers are unknown */
    struct pp_claimer *claimer;         /* the claimer of this process; NULL: it has none */
    struct pp_progress *progress;
    const struct pp_params *params;
    struct pp_loop *loop;
    struct pp_served *served; /* the requests keep it; NULL: each of them reads the workers */
};

/* A request for the facts about clients. If the store or the coordinator does not answer, the facts
 * lack what it knows; only PP_ENOMEM is a failure. */
struct pp_facts_look {
    struct pp_req req;
    const struct pp_waiting_from *from;
    const char *const *clients; /* each once */
    size_t n;
    /* The results, valid when the request has ended: */
    struct pp_reason_facts *facts; /* n, in the order of the clients */
    /* Used only while the request is in flight: */
    struct pp_store_clients settings;
    struct pp_coord_workers workers;
};

pp_must_check enum pp_err pp_facts_look(struct pp_facts_look *look);

/* A request for the pace of batches, with the errors of the store. Of a batch that is accepted and
 * not planned yet, it says whether its client is paused. */
struct pp_waiting_look {
    struct pp_req req;
    const struct pp_waiting_from *from;
    const struct pp_batch *batches;
    size_t n;
    size_t photos; /* reads about this many photos of each batch at most */
    /* The results, valid when the request has ended: */
    struct pp_batch_pace *paces; /* n, in the order of the batches */
    /* Used only while the request is in flight: */
    struct pp_store_waiting waiting;
    struct pp_facts_look facts;
};

pp_must_check enum pp_err pp_waiting_look(struct pp_waiting_look *look);

/* Returns how many photos of each of n batches a request should read. */
size_t pp_waiting_photos(size_t n);

#define PP_QUEUE_BATCHES 100

/* A request for the reasons why the open photos of the newest PP_QUEUE_BATCHES running batches are
 * open, of all clients, with the errors of the store. */
struct pp_queue_look {
    struct pp_req req;
    const struct pp_waiting_from *from;
    /* The result, valid when the request has ended: */
    uint64_t photos[PP_REASON_COUNT];
    /* Used only while the request is in flight: */
    struct pp_store_batches running;
    struct pp_waiting_look look;
};

pp_must_check enum pp_err pp_queue_look(struct pp_queue_look *look);

/* Returns the pace of a batch that has ended, or that is not planned yet and of whose client
 * nothing is known. */
struct pp_batch_pace pp_waiting_at_rest(const struct pp_waiting_from *from, const struct pp_batch *batch);

#endif
