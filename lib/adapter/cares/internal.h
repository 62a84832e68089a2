/* internal.h: declarations that the files of adapter/cares share. Each file may use those above it
 * in this list: pin.c, cache.c, sockets.c, resolver.c.
 *
 * A name's state says which list the name is in: an IDLE name is in names.by_age, a WAITING one in
 * `waiting`, an ASKED one in no list. */
#ifndef PP_ADAPTER_CARES_INTERNAL_H
#define PP_ADAPTER_CARES_INTERNAL_H

#include <ares.h>
#include <uv.h>

#include "adapter/cares/resolver.h"
#include "base/hash.h"
#include "base/list.h"

#define PP_CARES_MAGIC 0x43415245u

enum pp_name_state {
    PP_NAME_IDLE,    /* the name has an answer, which is valid before the time `until` */
    PP_NAME_WAITING, /* the name waits until fewer look-ups are in flight */
    PP_NAME_ASKED    /* c-ares is looking the name up */
};

/* A host name, with its last answer or with the queries that wait for an answer. */
struct pp_name {
    UT_hash_handle hh;
    struct pp_resolver_cares *r;
    enum pp_name_state state;
    /* Links the name into names.by_age while it is IDLE, or into r->waiting while it is WAITING. */
    struct pp_node age;
    int64_t until;         /* time in ms of pp_loop_now() before which the answer is valid */
    uint16_t code;         /* code of photopool/code.h for the result; PP_CODE_NONE: addresses were found */
    int local_errno;       /* as in struct pp_query */
    uint8_t n;             /* number of addresses */
    struct pp_list wanted; /* the queries (struct pp_wait) that get their answer from this look-up */
    struct sockaddr_storage *addrs;
    char host[];
};

struct pp_names {
    struct pp_name *by_host; /* hash table (uthash) of all names */
    struct pp_list by_age;   /* idle names, least recently used first */
};

/* A query that is in flight. */
struct pp_wait {
    struct pp_query *q;
    struct pp_name *name;   /* the name that the query waits for; NULL once the query is answered */
    struct pp_node of_name; /* links the wait into name->wanted or r->ready */
    /* Links the wait into r->deadlines. That list is sorted without effort: all queries have the
     * same timeout, so each new wait belongs at its end. */
    struct pp_node by_time;
    int64_t deadline;
};

struct pp_cares_socket {
    uv_poll_t poll;
    struct pp_resolver_cares *r;
    struct pp_node node; /* links the socket into r->sockets */
    ares_socket_t fd;
};

struct pp_resolver_cares {
    struct pp_resolver base; /* the port; must be the first member */
    uint32_t magic;
    struct pp_loop *loop;
    ares_channel channel;
    struct pp_timer
        *retry; /* runs every TICK_MS while c-ares has look-ups in flight, so that c-ares sees its timeouts */
    struct pp_timer *overdue; /* fires when the first wait in `deadlines` expires */
    struct pp_timer *soon;    /* fires in the loop's next turn, and calls settle() */
    struct pp_list sockets;
    struct pp_names names;
    struct pp_list waiting;   /* names whose look-up waits until fewer look-ups are in flight */
    struct pp_list deadlines; /* waits of queries in flight, the earliest deadline first */
    struct pp_list ready; /* waits of queries that have their answer, for which settle() will call done() */
    struct pp_cares_pin *pins;
    size_t n_pins, asked;      /* number of `pins`; number of names that c-ares is looking up */
    struct pp_cares_options o; /* a copy of the options; its pointers are NULL */
    int socket_errno;          /* errno of the last socket() of c-ares; 0: it worked */
    bool ticking, settling, closed;
};

/* cache.c: the names and their answers. */
struct pp_name *pp_names_find(struct pp_names *names, const char *host);
/* Adds a name that is IDLE, has no answer and is in no list. If the cache is full, drops the least
 * recently used idle name. Returns NULL when out of memory. */
struct pp_name *pp_names_add(struct pp_resolver_cares *r, const char *host);
/* Frees an idle name. */
void pp_names_drop(struct pp_names *names, struct pp_name *name);
/* Moves an idle name to the end of names.by_age, as the most recently used one. */
void pp_names_used(struct pp_names *names, struct pp_name *name);
void pp_names_fini(struct pp_names *names);

/* sockets.c: the functions that c-ares calls for its sockets, with the resolver as their data. */
extern const struct ares_socket_functions pp_cares_socket_functions;

#endif
