/* internal.h: declarations that the files of adapter/cares share. Each file uses those above it:
 * pin.c, cache.c, resolver.c.
 *
 * A name's state says which list it is in: IDLE in names.by_age, WAITING in `waiting`, ASKED in
 * none. */
#ifndef PP_ADAPTER_CARES_INTERNAL_H
#define PP_ADAPTER_CARES_INTERNAL_H

#include <ares.h>
#include <uthash.h>
#include <uv.h>

#include "adapter/cares/resolver.h"
#include "base/list.h"

#define PP_CARES_MAGIC 0x43415245u

enum pp_name_state {
    PP_NAME_IDLE,    /* has an answer, valid before `until` */
    PP_NAME_WAITING, /* waits until fewer look-ups are in flight */
    PP_NAME_ASKED    /* c-ares is looking it up */
};

/* A host name with its last answer, or with the queries that wait for one. */
struct pp_name {
    UT_hash_handle hh;
    struct pp_resolver_cares *r;
    enum pp_name_state state;
    /* links the name into names.by_age (least recently used first) or into r->waiting */
    struct pp_node age;
    int64_t until;         /* time in ms of pp_loop_now() before which the answer is valid */
    uint16_t code;         /* result of the look-up, as in struct pp_query */
    uint8_t n;             /* number of addresses */
    struct pp_list wanted; /* list of struct pp_wait: the queries that this look-up will answer */
    struct sockaddr_storage *addrs;
    char host[];
};

struct pp_names {
    struct pp_name *by_host; /* hash table (uthash) */
    struct pp_list by_age;   /* idle names, least recently used first */
};

/* One query in flight. */
struct pp_wait {
    struct pp_query *q;
    struct pp_name *name;   /* NULL once the query has its answer and is in r->ready */
    struct pp_node of_name; /* links the wait into name->wanted or r->ready */
    /* links the wait into r->deadlines, which is sorted because all queries have the same
     * timeout */
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
    struct pp_resolver base; /* must be first */
    uint32_t magic;
    struct pp_loop *loop;
    ares_channel channel;
    struct pp_timer *retry;   /* fires regularly while c-ares has look-ups in flight */
    struct pp_timer *overdue; /* fires at the first of `deadlines` */
    struct pp_timer *soon;    /* fires in the next turn, and calls settle() */
    struct pp_list sockets;
    struct pp_names names;
    struct pp_list waiting;   /* names that wait for a look-up */
    struct pp_list deadlines; /* waits, by deadline */
    struct pp_list ready;     /* waits whose queries have their answer */
    struct pp_cares_pin *pins;
    size_t n_pins, asked;      /* number of pins; number of names in PP_NAME_ASKED */
    struct pp_cares_options o; /* options; only its numbers are valid */
    bool ticking, settling, closed;
};

/* cache.c */
struct pp_name *pp_names_find(struct pp_names *names, const char *host);
/* Adds a name, which is IDLE, has no answer and is in no list. A full cache drops the least
 * recently used idle name. Returns NULL when out of memory. */
struct pp_name *pp_names_add(struct pp_resolver_cares *r, const char *host);
/* Frees an idle name. */
void pp_names_drop(struct pp_names *names, struct pp_name *name);
/* Makes an idle name the most recently used. */
void pp_names_used(struct pp_names *names, struct pp_name *name);
void pp_names_fini(struct pp_names *names);

#endif
