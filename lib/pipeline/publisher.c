/* publisher.c: see publisher.h.
 *
 *   publications --> append --PP_ESTALE--> numbers (store) --> begin (log) --> append
 */
#include "pipeline/publisher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define BLOCK        1000000 /* numbers reserved at a time */
#define NUMBERS      "events"
#define OPS_WAITING  1000
#define OPS_TRIES    10
#define TRY_AGAIN_MS 1000

struct pp_publisher {
    struct pp_pipeline *p;
    struct pp_list waiting; /* the first one is being appended where `busy` */
    bool busy;
    uint64_t stale; /* what the log wants numbers for */
    struct pp_arena arena;
    union {
        struct pp_log_append append;
        struct pp_log_begin begin;
        struct pp_store_numbers numbers;
    } r;
    size_t ops; /* events of ops that wait */
    struct pp_list retry;
    struct pp_timer *timer;
};

static void append(struct pp_publisher *pub);

static struct pp_req request(struct pp_publisher *pub, void (*done)(struct pp_req *))
{
    pp_arena_init(&pub->arena, 0);
    pub->busy = true;
    return (struct pp_req){.done = done, .data = pub, .arena = &pub->arena};
}

/* The end of the first publication. */
static void end(struct pp_publisher *pub, enum pp_err err)
{
    struct pp_publication *first = pp_container_of(pp_list_pop(&pub->waiting), struct pp_publication, node);

    pp_arena_fini(&pub->arena);
    pub->busy = false;
    if (err == PP_OK)
        pub->p->metrics.events += first->n;
    first->done(first, err);
    append(pub);
}

/* --- numbers --- */

static void begun(struct pp_req *req)
{
    struct pp_publisher *pub = req->data;

    if (req->err != PP_OK) {
        end(pub, req->err);
        return;
    }
    pp_arena_fini(&pub->arena);
    pub->busy = false;
    append(pub);
}

static void reserved(struct pp_req *req)
{
    struct pp_publisher *pub = req->data;
    struct pp_event_log *log = pub->p->events;
    uint64_t first = pub->r.numbers.first;

    enum pp_err err = req->err == PP_EUNKNOWN ? PP_EIO : req->err; /* a block that nobody uses does no harm */
    if (err == PP_OK) {
        pp_arena_fini(&pub->arena);
        pub->r.begin = (struct pp_log_begin){
            .req = request(pub, begun), .first = first, .end = first + BLOCK, .stale = pub->stale};
        err = log->ops->begin(log, &pub->r.begin);
    }
    if (err != PP_OK)
        end(pub, err);
}

static void reserve(struct pp_publisher *pub)
{
    struct pp_task_store *store = pub->p->store;

    pp_arena_fini(&pub->arena);
    pub->r.numbers = (struct pp_store_numbers){.req = request(pub, reserved), .name = NUMBERS, .n = BLOCK};
    enum pp_err err = store->ops->numbers(store, &pub->r.numbers);
    if (err != PP_OK)
        end(pub, err);
}

/* --- events --- */

static void appended(struct pp_req *req)
{
    struct pp_publisher *pub = req->data;

    if (req->err == PP_ESTALE) {
        pub->stale = pub->r.append.stale;
        reserve(pub);
    } else {
        end(pub, req->err);
    }
}

static void append(struct pp_publisher *pub)
{
    struct pp_event_log *log = pub->p->events;

    if (pub->busy || pp_list_empty(&pub->waiting))
        return;
    struct pp_publication *first = pp_container_of(pub->waiting.head.next, struct pp_publication, node);
    pub->r.append =
        (struct pp_log_append){.req = request(pub, appended), .events = first->events, .n = first->n};
    enum pp_err err = log->ops->append(log, &pub->r.append);
    if (err == PP_OK)
        return;
    pp_arena_fini(&pub->arena);
    pub->busy = false;
    pp_timer_sooner(pub->timer, TRY_AGAIN_MS); /* the log's queue is full */
}

void pp_publish(struct pp_publisher *pub, struct pp_publication *publication)
{
    pp_list_push(&pub->waiting, &publication->node);
    append(pub);
}

/* --- events of ops: in memory of their own --- */

struct ops_event {
    struct pp_publisher *pub;
    struct pp_publication publication;
    struct pp_event event;
    uint32_t tries;
    char data[];
};

static void ops_done(struct pp_publication *publication, enum pp_err err)
{
    struct ops_event *e = publication->data;
    struct pp_publisher *pub = e->pub;

    if (err != PP_OK && err != PP_EUNKNOWN && ++e->tries < OPS_TRIES) {
        pp_list_push(&pub->retry, &publication->node);
        pp_timer_sooner(pub->timer, TRY_AGAIN_MS);
        return;
    }
    if (err != PP_OK)
        pp_log(pub->p->log, PP_LOG_WARN, "an event for operators is lost", "type", e->event.type, "error",
               pp_err_text(err), NULL);
    pub->ops--;
    free(e);
}

void pp_publish_ops(struct pp_pipeline *p, const char *type, const char *data, size_t data_n)
{
    struct pp_publisher *pub = p->publisher;
    struct ops_event *e = pub && pub->ops < OPS_WAITING ? malloc(sizeof(*e) + data_n + 1) : NULL;

    if (!e)
        return;
    *e = (struct ops_event){.pub = pub};
    memcpy(e->data, data, data_n);
    e->data[data_n] = '\0';
    e->event = (struct pp_event){
        .at_ms = pp_loop_wall(p->loop), .key = "ops", .type = type, .data = e->data, .data_n = data_n};
    e->publication = (struct pp_publication){.events = &e->event, .n = 1, .done = ops_done, .data = e};
    pub->ops++;
    pp_publish(pub, &e->publication);
}

static void try_again(void *data)
{
    struct pp_publisher *pub = data;
    pp_list_splice(&pub->waiting, &pub->retry);
    append(pub);
}

/* --- life --- */

struct pp_publisher *pp_publisher_open(struct pp_pipeline *p)
{
    struct pp_publisher *pub = calloc(1, sizeof(*pub));
    if (!pub)
        return NULL;
    pub->p = p;
    pp_list_init(&pub->waiting);
    pp_list_init(&pub->retry);
    pub->timer = pp_timer_open(p->loop, try_again, pub);
    if (!pub->timer) {
        free(pub);
        return NULL;
    }
    return pub;
}

size_t pp_publisher_busy(const struct pp_publisher *pub)
{
    return pub ? pub->waiting.n + pub->busy : 0;
}

void pp_publisher_close(struct pp_publisher *pub)
{
    struct pp_node *node;

    if (!pub)
        return;
    assert(!pub->busy && pp_list_empty(&pub->waiting));
    while ((node = pp_list_pop(&pub->retry)))
        free(pp_container_of(node, struct ops_event, publication.node));
    pp_timer_close(pub->timer);
    free(pub);
}
