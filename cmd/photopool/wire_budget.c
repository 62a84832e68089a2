/* wire_budget.c: how many descriptors this process may open and wants, and what it may have
 * (core/budget.h). A part that opens more files belongs into `parts`. */
#include <string.h>
#include <sys/resource.h>

#include "api/api.h"
#include "base/process.h"
#include "wire_parts.h"

/* All webhooks together have at most this many posts of results in flight. */
enum { POSTS_MAX = 512 };

/* At least this many bodies of one key may arrive at the same time. */
enum { BODIES_MIN = 8 };

/* The descriptors of each part, whatever the load, with some for what its library opens at times:
 * temporary files, a second connection while the first one ends. */
enum {
    PROCESS = 16,     /* event loop, signals, lock file, listener, a directory that is read */
    SQLITE_FILE = 6,  /* lock, database, log, shared memory, temporary files */
    SQLITE_READS = 6, /* the connections of the reading threads */
    REDIS_PORT = 8,   /* connections for commands and for news, also while the server changes */
    MONGO_STORE = 7,  /* for each server: a connection of each thread, and the monitors */
    BROKER = 16,
    BLOB_STORE = 8,  /* its directory, one that is listed, a photo for each thread of the API */
    KEEP_THREAD = 2, /* a temporary file or a connection, and a directory */
    FETCH_LOOP = 16, /* event loop, sockets of the resolver and of libcurl, /etc/hosts */
};

/* Returns the number of servers in a mongodb:// URL; a replica set has at least three. */
static uint32_t mongo_servers(const char *url)
{
    uint32_t n = 1;
    for (; *url; url++)
        n += *url == ',';
    return n < 3 ? 3 : n;
}

static uint32_t files_of(const struct pp_config *c, unsigned roles)
{
    bool fleet = pp_wire_is_fleet(c), redis = strncmp(c->coordinator.url, "local:", 6) != 0;
    bool relays = roles & PP_ROLES_RELAYING, fetches = roles & PP_ROLE_WORKER, serves = roles & PP_ROLE_API;
    bool journal = redis && serves && c->ingest.journal;
    uint32_t store = fleet ? MONGO_STORE * mongo_servers(c->store.url) : SQLITE_FILE;
    const struct {
        bool open;
        uint32_t files;
    } parts[] = {
        {true, PROCESS},
        {true, store + (fleet ? 0 : SQLITE_READS)},                                   /* task store */
        {true, redis ? REDIS_PORT : SQLITE_FILE},                                     /* ingest queue */
        {journal, SQLITE_FILE},                                                       /* its journal */
        {true, redis ? REDIS_PORT : SQLITE_FILE},                                     /* coordinator */
        {relays, redis ? REDIS_PORT : SQLITE_FILE + SQLITE_READS},                    /* event log */
        {relays, store},                                                              /* delivery store */
        {serves || (roles & PP_ROLE_CRON), fleet ? REDIS_PORT + store : SQLITE_FILE}, /* counters */
        {(roles & PP_ROLE_DELIVER) && strcmp(c->amqp.url, "none") != 0, BROKER},
        {(roles & PP_ROLE_DELIVER) && c->kafka.brokers[0], BROKER},
        {fetches || serves, BLOB_STORE},
        {fetches, KEEP_THREAD * (uint32_t)c->keep.threads + FETCH_LOOP * (uint32_t)c->worker.threads},
        {true, FETCH_LOOP}, /* the fetcher of webhooks' messages */
    };
    uint32_t sum = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        sum += parts[i].open ? parts[i].files : 0;
    return sum;
}

/* Raises the soft limit of descriptors to the hard one, and returns it. */
static uint32_t raise_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return PP_DESCRIPTORS_MAX;
    rlim_t most = r.rlim_max < PP_DESCRIPTORS_MAX ? r.rlim_max : PP_DESCRIPTORS_MAX;
    if (r.rlim_cur < most) {
        struct rlimit raised = {.rlim_cur = most, .rlim_max = r.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            r = raised;
    }
    return r.rlim_cur < PP_DESCRIPTORS_MAX ? (uint32_t)r.rlim_cur : PP_DESCRIPTORS_MAX;
}

static uint32_t served_concurrency(const struct pp_params *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_tiers; i++)
        sum += p->tiers_served & (1u << i) ? p->tiers[i].concurrency : 0;
    return (uint32_t)sum; /* at most 8 tiers of 100,000 */
}

static void say_clipped(struct pp_log *log, enum pp_log_level level, const char *what, uint32_t wanted,
                        uint32_t got, uint32_t all)
{
    if (got < wanted)
        pp_log(log, level, "lowered to what the limit of descriptors permits", "what", what, "configured",
               PP_LOG_INT(wanted), "now", PP_LOG_INT(got), "descriptors", PP_LOG_INT(all), NULL);
}

/* Returns how many bodies of one key may arrive at the same time: a quarter of the connections that
 * the key can have from one address. */
static uint32_t bodies_of_a_key(const struct pp_budget *b, const struct pp_config *c)
{
    int64_t address = c->http.max_connections_per_address;
    uint32_t places = address < b->callers ? (uint32_t)address : b->callers;
    return places / 4 > BODIES_MIN ? places / 4 : BODIES_MIN;
}

struct pp_budget_want pp_wire_want(const struct pp_params *p, const struct pp_config *c, unsigned roles,
                                   uint32_t descriptors)
{
    return (struct pp_budget_want){.descriptors = descriptors,
                                   .files = (uint32_t)pp_process_open_fds() + files_of(c, roles),
                                   .transfers = roles & PP_ROLE_WORKER ? served_concurrency(p) : 0,
                                   .threads = p->threads,
                                   .posts = roles & PP_ROLE_DELIVER ? POSTS_MAX : 0,
                                   .tests = roles & PP_ROLE_API ? PP_API_TESTS : 0,
                                   .callers = (uint32_t)c->http.max_connections,
                                   .streams = roles & PP_ROLE_API ? (uint32_t)c->events.max_subscribers : 0};
}

enum pp_err pp_wire_divide(struct pp_budget *b, struct pp_params *p, const struct pp_config *c,
                           unsigned roles, struct pp_log *log, struct pp_wire_error *error)
{
    uint32_t limit = raise_limit();
    const struct pp_budget_want want = pp_wire_want(p, c, roles, limit);
    enum pp_err err = pp_budget_divide(&want, b);

    if (err != PP_OK)
        return pp_wire_explain(error, err,
                               "%u descriptors; photopool needs at least %u: raise the limit with ulimit -n "
                               "or LimitNOFILE=",
                               limit, pp_budget_needed(&want));
    if (want.transfers > 0)
        pp_budget_clip_tiers(p->tiers, p->n_tiers, p->tiers_served, b->transfers);
    p->max_posts = b->posts;
    p->max_subscribers = b->streams;
    p->caller_bodies = bodies_of_a_key(b, c);
    say_clipped(log, PP_LOG_WARN, "fetch.tiers (concurrency)", want.transfers, b->transfers, limit);
    say_clipped(log, PP_LOG_INFO, "kept connections to hosts", want.transfers * want.threads, b->kept, limit);
    say_clipped(log, PP_LOG_INFO, "webhook posts", want.posts, b->posts, limit);
    say_clipped(log, PP_LOG_INFO, "http.max_connections", want.callers, b->callers, limit);
    say_clipped(log, PP_LOG_INFO, "events.max_subscribers", want.streams, b->streams, limit);
    return PP_OK;
}
