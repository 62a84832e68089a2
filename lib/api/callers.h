/* callers.h: who calls the API, and how much each caller may use.
 *
 * A caller is an API key; or, for requests without a valid key, an address (IPv6: a /64). Each has
 * a limit of requests a second, an account for the bytes of its requests' bodies, and one for the
 * answers that it has not read. A key also has a limit of bodies that arrive at the same time, so
 * that one key can not hold all connections with bodies that never end, also where all callers come
 * from the address of one proxy. Requests with a valid key count for the key only, so that a wrong
 * key costs nobody else behind the same address. Wrong keys have a stricter limit of their own.
 *
 * The table is bounded. A new caller takes the place of the one that was idle for longest. If no
 * caller is idle, or memory has run out, new callers share one place. The memory of a place stays
 * valid until pp_callers_close(), so an account may be used until then. All functions run on the
 * main loop. */
#ifndef PHOTOPOOL_API_CALLERS_H
#define PHOTOPOOL_API_CALLERS_H

#include "api/call.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/ledger.h"
#include "core/gcra.h"

/* The table has room for this many callers. */
#define PP_CALLERS_MAX 4096
/* The API reads and builds at most this many pages at the same time: for a caller, and for all. */
#define PP_CALLER_LISTS 2
#define PP_LISTS        4
/* While this many calls for pages wait, a caller that has one among them gets no further one into
 * the line. So at most PP_CALLERS_MAX more can wait. */
#define PP_LISTS_WAITING 1024

struct pp_caller {
    UT_hash_handle hh;
    struct pp_node in_order; /* links the caller into the table, the least recently seen one first */
    struct pp_gcra requests, failures;
    struct pp_account bodies, answers, subscriptions;
    uint32_t refs;           /* calls and streams that point here */
    uint32_t polls, streams; /* long-polls that wait; open streams */
    uint32_t bodies_coming;  /* requests of which the server reads the body */
    uint32_t lists;          /* calls for pages that are at work */
    struct pp_list waiting;  /* calls for pages that wait for their turn, in the order of arrival */
    struct pp_node in_line;  /* links the caller into the line of callers that may begin a page */
    bool lined_up;           /* in_line is linked: a call waits, and lists < PP_CALLER_LISTS */
    uint64_t failed;         /* requests without a valid key since the last line in the log */
    int64_t logged_ms;       /* the time of that line (loop); 0: none */
    char name[80];           /* "key NAME" or "address A" */
};

struct pp_callers;

/* Opens the table. Returns NULL if out of memory. */
struct pp_callers *pp_callers_open(struct pp_api *api);
/* Frees the table, unless it is NULL. No call and no stream may be open. */
void pp_callers_close(struct pp_callers *callers);

/* Adds a reference and returns the caller. */
static inline struct pp_caller *pp_caller_ref(struct pp_caller *caller)
{
    caller->refs++;
    return caller;
}

/* Drops a reference. Does nothing if `caller` is NULL. */
static inline void pp_caller_unref(struct pp_caller *caller)
{
    pp_assert(!caller || caller->refs > 0, "a caller is released more often than it was taken");
    if (caller)
        caller->refs--;
}

/* Sets call->caller to the caller with this API key, or to the address if `key` is NULL, and counts
 * the request. Returns false if the caller sends too many requests; the call has then been
 * answered. */
bool pp_call_admit(struct pp_call *call, const char *key);
/* Counts the body that the request announces, until pp_call_body_ends(). Returns false if too many
 * bodies of this key are arriving; the call has then been answered. */
bool pp_call_body_begins(struct pp_call *call);
/* The body has arrived, or will not. Does nothing if the call has no body that is counted. */
void pp_call_body_ends(struct pp_call *call);
/* Calls the endpoint's handler. If it answers with a page (PP_LIST), the call may have to wait
 * until fewer than PP_CALLER_LISTS pages of this caller and fewer than PP_LISTS of all callers are
 * at work. Callers take turns, one page each. So the pages of one caller delay others by a few
 * pages only, and the memory of pages at work is bounded. Answers `overloaded` if the line is
 * full. */
void pp_call_handle(struct pp_call *call);
/* Answers that the request has no valid key or ticket: unauthorized, with `field` and `detail`; or
 * rate_limited, if the address sends too many such requests. Always returns false. */
bool pp_call_unauthorized(struct pp_call *call, const char *field, const char *detail);
/* Answers unauthorized, because a reload has removed or changed the key, which was valid before.
 * The request doesn't count as one without a valid key. Always returns false. */
bool pp_call_revoked(struct pp_call *call);

#endif
