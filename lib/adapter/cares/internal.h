/* internal.h: what the files of adapter/cares share.
 *
 *   resolver.c  the port: queries, look-ups under way, timeouts
 *   cache.c     names and their answers: hash, age, bound
 *   poll.c      c-ares' sockets and its timer on the loop
 *   pin.c       lines of fetch.resolve */
#ifndef PP_ADAPTER_CARES_INTERNAL_H
#define PP_ADAPTER_CARES_INTERNAL_H

#include <ares.h>
#include <uthash.h>
#include <uv.h>

#include "adapter/cares/resolver.h"
#include "base/list.h"

#define PP_CARES_MAGIC 0x43415245u

enum pp_name_state {
    PP_NAME_IDLE,    /* an answer, good until `until` */
    PP_NAME_WAITING, /* for a free look-up; in r->waiting */
    PP_NAME_ASKED    /* c-ares is asking */
};

/* A name: its last answer, or the queries that wait for one. */
struct pp_name {
    UT_hash_handle hh;
    struct pp_resolver_cares *r;
    enum pp_name_state state;
    struct pp_node
        age;       /* in cache->by_age while idle, least recently used first; in r->waiting while waiting */
    int64_t until; /* ms of pp_loop_now(); the answer holds before that */
    uint16_t code; /* as struct pp_query */
    uint8_t n;     /* addresses */
    struct pp_list wanted; /* struct pp_wait: queries that this look-up will answer */
    struct sockaddr_storage *addrs;
    char host[];
};

struct pp_names {
    struct pp_name *by_host; /* uthash */
    struct pp_list by_age;   /* idle ones */
    size_t max;
};

/* One query under way. */
struct pp_wait {
    struct pp_query *q;
    struct pp_name *name;   /* NULL: answered, in r->ready */
    struct pp_node of_name; /* in name->wanted, or r->ready */
    struct pp_node by_time; /* in r->deadlines: all wait equally long, so the list is in order */
    int64_t deadline;
};

struct pp_cares_socket {
    uv_poll_t poll;
    struct pp_resolver_cares *r;
    struct pp_node node; /* in r->sockets */
    ares_socket_t fd;
};

struct pp_resolver_cares {
    struct pp_resolver base; /* first */
    uint32_t magic;
    struct pp_loop *loop;
    ares_channel channel;
    struct pp_timer *retry;   /* ticks while c-ares waits for answers */
    struct pp_timer *overdue; /* the first of `deadlines` */
    struct pp_timer *soon;    /* answers `ready` in the next turn */
    struct pp_list sockets;
    struct pp_names names;
    struct pp_list waiting;   /* names */
    struct pp_list deadlines; /* waits */
    struct pp_list ready;     /* waits whose queries have their answer */
    struct pp_cares_pin *pins;
    size_t n_pins, asked;
    struct pp_cares_options o; /* numbers only */
    bool ticking, settling, closed;
};

/* cache.c */
struct pp_name *pp_names_find(struct pp_names *names, const char *host);
/* A new name without an answer, in no list; makes room by dropping the least recently used. NULL: out of
 * memory. */
struct pp_name *pp_names_add(struct pp_resolver_cares *r, const char *host);
/* An idle name. */
void pp_names_drop(struct pp_names *names, struct pp_name *name);
/* Into and out of the order of use. */
void pp_names_used(struct pp_names *names, struct pp_name *name);
void pp_names_fini(struct pp_names *names);

/* poll.c: c-ares' ARES_OPT_SOCK_STATE_CB. */
void pp_cares_on_socket(void *r, ares_socket_t fd, int readable, int writable);
/* After anything that made c-ares send or receive. */
void pp_cares_rearm(struct pp_resolver_cares *r);
/* c-ares' own time-outs have come. */
void pp_cares_on_retry(void *r);

/* resolver.c: answers what is ready. Not from within c-ares. */
void pp_cares_settle(struct pp_resolver_cares *r);

#endif
