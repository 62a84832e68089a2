/* event_keys.h: decides which event keys a caller may follow, by subscription or by ticket. Keys of
 * results need the scope read, and an API key that is bound to a client may follow only that
 * client. Keys of a batch have the same rule for the client that owns the batch. The key ops needs
 * the scope admin. */
#ifndef PHOTOPOOL_API_EVENT_KEYS_H
#define PHOTOPOOL_API_EVENT_KEYS_H

#include "api/batch.h"
#include "events/hub.h"

/* The event keys that a caller wants to follow. It must be the first member of a call's state. */
struct pp_event_keys {
    struct pp_batch_find find;
    /* This has room for one key more than allowed, so that a caller who sends too many gets an
     * error. */
    const char *keys[PP_SUB_KEYS_MAX + 1];
    size_t n, at;
    void (*on_allowed)(struct pp_call *call);
    struct pp_coord_secret secret; /* the secret of tickets, if the coordinator has it */
};

/* Checks the first n keys, and replaces "results" by "results:CLIENT" if the caller's API key is
 * bound to a client. Calls on_allowed(call) if all keys are allowed; otherwise answers the call. */
void pp_event_keys_check(struct pp_call *call, size_t n, void (*on_allowed)(struct pp_call *call));

/* --- tickets.c: tickets let a browser open a subscription without knowing an API key --- */

/* Reads the secret that signs tickets, and calls on_secret(call); or answers the call. */
void pp_ticket_secret(struct pp_call *call, void (*on_secret)(struct pp_call *call));
/* Stores the event keys that a ticket permits, at most `cap`, in the call's arena, and returns how
 * many; sets call->key_name and key_number to the API key that made the ticket. Returns 0 if this
 * installation did not make the ticket, if the ticket has expired or expires too late, or if its
 * API key is gone or has changed. The caller calls pp_ticket_secret() first. */
size_t pp_ticket_read(struct pp_call *call, const char *ticket, const char **keys, size_t cap);

#endif
