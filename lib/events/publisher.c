/* publisher.c: appends publications to the event log one after the other, and gives the log new
 * numbers when it asks for them.
 *
 *   publications --> append --PP_ESTALE--> numbers (store) --> begin (log) --> append
 *
 * Invariant: the request in flight belongs to the first publication in `waiting`. */
#include "events/publisher.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "runtime/ask.h"

#define BLOCK       1000000 /* the publisher reserves this many event numbers at a time */
#define NUMBERS     "events"
#define OPS_WAITING 1000
#define OPS_TRIES   10
#define RETRY_MS    1000

struct pp_publisher {
    struct pp_publisher_options o;
    struct pp_list waiting;
    struct pp_ask ask;
    /* the value from the log's PP_ESTALE answer, which the publisher passes back in `begin` */
    uint64_t stale;
    union {
        struct pp_log_append append;
        struct pp_log_begin begin;
        struct pp_store_numbers numbers;
    } r;
    size_t ops;           /* number of events for operators (key `ops`) that have not ended */
    struct pp_list retry; /* events for operators that the timer will publish again */
    struct pp_timer *timer;
};

static void append(struct pp_publisher *pub);

static struct pp_publication *first_waiting(struct pp_publisher *pub)
{
    pp_assert(!pp_list_empty(&pub->waiting), "a request without a publication");
    return pp_container_of(pub->waiting.head.next, struct pp_publication, node);
}

static void end_first(struct pp_publisher *pub, enum pp_err err)
{
    struct pp_publication *first = first_waiting(pub);

    pp_list_remove(&pub->waiting, &first->node);
    if (err == PP_OK)
        pub->o.metrics->events += first->n;
    first->req.err = err;
    first->req.done(&first->req);
    append(pub);
}

/* --- reserving event numbers --- */

static void on_begun(void *data, enum pp_err err)
{
    struct pp_publisher *pub = data;
    if (err == PP_OK)
        append(pub);
    else
        end_first(pub, err);
}

static void on_reserved(void *data, enum pp_err err)
{
    struct pp_publisher *pub = data;
    struct pp_event_log *log = pub->o.events;
    uint64_t first = pub->r.numbers.first;

    /* The store may have reserved the block although the answer was lost. Then nobody ever uses
     * these numbers. */
    if (err == PP_EUNKNOWN)
        err = PP_EIO;
    if (err == PP_OK) {
        pub->r.begin = (struct pp_log_begin){.req = pp_ask_request(&pub->ask, on_begun),
                                             .first = first,
                                             .end = first + BLOCK,
                                             .stale = pub->stale};
        err = log->ops->begin(log, &pub->r.begin);
        if (pp_ask_submitted(&pub->ask, err))
            return;
    }
    end_first(pub, err);
}

static void reserve(struct pp_publisher *pub)
{
    struct pp_task_store *store = pub->o.store;

    pp_assert(pub->o.events->ops->begin, "a log without blocks asked for numbers");
    pub->r.numbers =
        (struct pp_store_numbers){.req = pp_ask_request(&pub->ask, on_reserved), .name = NUMBERS, .n = BLOCK};
    enum pp_err err = store->ops->numbers(store, &pub->r.numbers);
    if (!pp_ask_submitted(&pub->ask, err))
        end_first(pub, err);
}

/* --- appending events to the log --- */

static void on_appended(void *data, enum pp_err err)
{
    struct pp_publisher *pub = data;

    if (err == PP_ESTALE) {
        pub->stale = pub->r.append.stale;
        reserve(pub);
    } else {
        end_first(pub, err);
    }
}

static void append(struct pp_publisher *pub)
{
    struct pp_event_log *log = pub->o.events;

    if (pub->ask.in_flight || pp_list_empty(&pub->waiting))
        return;
    const struct pp_publication *first = first_waiting(pub);
    pub->r.append = (struct pp_log_append){
        .req = pp_ask_request(&pub->ask, on_appended), .events = first->events, .n = first->n};
    if (!pp_ask_submitted(&pub->ask, log->ops->append(log, &pub->r.append)))
        pp_timer_sooner(pub->timer, RETRY_MS); /* the queue of the log is full: tries again later */
}

void pp_publish(struct pp_publisher *pub, struct pp_publication *publication)
{
    pp_assert(publication->n <= PP_PUBLICATION_MAX, "a publication of too many events");
    pp_assert(publication->req.done, "a publication without done()");
    pp_list_push(&pub->waiting, &publication->node);
    append(pub);
}

/* --- events for operators; each has its memory in one block --- */

struct ops_event {
    struct pp_publisher *pub;
    struct pp_publication publication;
    struct pp_event event;
    uint32_t tries;
    char data[];
};

static void on_ops_published(struct pp_req *req)
{
    struct ops_event *e = req->data;
    struct pp_publisher *pub = e->pub;

    if (req->err != PP_OK && req->err != PP_EUNKNOWN && ++e->tries < OPS_TRIES) {
        pp_list_push(&pub->retry, &e->publication.node);
        pp_timer_sooner(pub->timer, RETRY_MS);
        return;
    }
    if (req->err != PP_OK)
        pp_log(pub->o.log, PP_LOG_WARN, "event for operators lost", "type", e->event.type, "error",
               pp_err_text(req->err), NULL);
    pp_assert(pub->ops > 0, "an event of ops ended twice");
    pub->ops--;
    free(e);
}

void pp_publish_ops(struct pp_publisher *pub, const char *type, const char *data, size_t data_n)
{
    struct ops_event *e = pub && pub->ops < OPS_WAITING ? malloc(sizeof(*e) + data_n + 1) : NULL;

    if (!e)
        return;
    *e = (struct ops_event){.pub = pub};
    memcpy(e->data, data, data_n);
    e->data[data_n] = '\0';
    e->event = (struct pp_event){
        .at_ms = pp_loop_date(pub->o.loop), .key = "ops", .type = type, .data = e->data, .data_n = data_n};
    e->publication =
        (struct pp_publication){.req = {.done = on_ops_published, .data = e}, .events = &e->event, .n = 1};
    pub->ops++;
    pp_publish(pub, &e->publication);
}

static void on_retry_due(void *data)
{
    struct pp_publisher *pub = data;
    pp_list_splice(&pub->waiting, &pub->retry);
    append(pub);
}

/* --- opening and closing the publisher --- */

struct pp_publisher *pp_publisher_open(const struct pp_publisher_options *options)
{
    struct pp_publisher *pub = calloc(1, sizeof(*pub));
    if (!pub)
        return NULL;
    pub->o = *options;
    pub->ask = (struct pp_ask){.loop = options->loop, .data = pub};
    pp_list_init(&pub->waiting);
    pp_list_init(&pub->retry);
    pub->timer = pp_timer_open(options->loop, on_retry_due, pub);
    if (!pub->timer) {
        free(pub);
        return NULL;
    }
    return pub;
}

size_t pp_publisher_busy(const struct pp_publisher *pub)
{
    return pub ? pub->waiting.n : 0;
}

void pp_publisher_close(struct pp_publisher *pub)
{
    struct pp_node *node;

    if (!pub)
        return;
    pp_assert(pp_list_empty(&pub->waiting), "closed with publications that have not ended");
    pp_assert(pub->ops == pub->retry.n, "events of ops got lost");
    while ((node = pp_list_pop(&pub->retry)))
        free(pp_container_of(node, struct ops_event, publication.node));
    pp_timer_close(pub->timer);
    free(pub);
}
