/* ledger.h: what is scarce in this process, how much of it there is, and how much is in use.
 *
 * The ledger has one account for each row of the table below. The wiring sets the limits at start
 * (core/budget.h divides the descriptors). A user of a resource first takes from its account.
 * An account can have a parent: a use counts in both, and both need room for it. So the account of
 * one caller (a key or an address) is a child of a row, with a smaller limit, and no caller can
 * use up the row.
 *
 * Invariants: used <= limit, except after pp_account_force(); what was taken is given back once.
 * Any thread may take from an account and give back. To add a resource, add a row. */
#ifndef PP_BASE_LEDGER_H
#define PP_BASE_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The columns: X(id, label in /metrics). Descriptors:
 *   FILES          databases, the log, connections to servers; counted once, when all are open
 *   TRANSFERS      sockets to photo hosts and webhooks, with kept connections
 *   CALLERS        callers' connections that are no streams
 *   STREAMS        event streams
 * Bytes of memory:
 *   BODIES         requests' bodies, with the state of gzip
 *   ANSWERS        answers that callers have not read yet, and pages of lists that are being read
 *                  from the store and built
 *   QUEUED         events queued for streams whose callers read slowly. Streams may share the
 *                  bytes of an event, and each counts it
 *   REPLAYS        replays that are being prepared
 *   SUBSCRIPTIONS  the keys of open subscriptions */
#define PP_LEDGER_TABLE(X)     \
    X(FILES, "files")          \
    X(TRANSFERS, "transfers")  \
    X(CALLERS, "callers")      \
    X(STREAMS, "streams")      \
    X(BODIES, "body_bytes")    \
    X(ANSWERS, "answer_bytes") \
    X(QUEUED, "stream_bytes")  \
    X(REPLAYS, "replay_bytes") \
    X(SUBSCRIPTIONS, "subscription_bytes")

enum pp_resource {
#define X(id, label) PP_RES_##id,
    PP_LEDGER_TABLE(X)
#undef X
        PP_RES_COUNT
};

#define PP_NO_LIMIT UINT64_MAX

struct pp_account {
    struct pp_account *parent; /* NULL: none */
    uint64_t limit;            /* PP_NO_LIMIT: none */
    _Atomic uint64_t used;
    _Atomic uint64_t refused; /* number of calls of pp_account_take() that this account refused */
};

struct pp_ledger {
    struct pp_account rows[PP_RES_COUNT];
};

/* Makes a ledger in which no resource has a limit. */
void pp_ledger_init(struct pp_ledger *l);
/* Returns the label of a resource in /metrics; static. */
const char *pp_resource_label(enum pp_resource r);

/* Makes an account. `parent` outlives it. */
void pp_account_init(struct pp_account *a, struct pp_account *parent, uint64_t limit);
/* Takes `n` from the account and its parents. Returns false, and takes nothing, if one of them has
 * less than `n` left. */
bool pp_account_take(struct pp_account *a, uint64_t n);
/* Like pp_account_take(), but takes even if that exceeds a limit; for what is in use already. */
void pp_account_force(struct pp_account *a, uint64_t n);
/* Counts a use that its user refuses by a rule of its own, before the account is full. */
void pp_account_refuse(struct pp_account *a);
/* Gives back `n`, which was taken before. */
void pp_account_give(struct pp_account *a, uint64_t n);
/* Returns how much may still be taken; at least 0. */
uint64_t pp_account_left(const struct pp_account *a);

#endif
