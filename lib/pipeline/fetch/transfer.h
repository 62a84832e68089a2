/* transfer.h: one claimed task on its way through fetch and keep. The claimer makes the transfer, a
 * fetch loop fills in its outcome, and the settler decides how the task continues.
 *
 *   main loop: claim --START--> fetch loop: fetch -> keep --FINISHED--> main loop: settle
 *                   <-- SENT; HOP: a redirect asks for a permit
 *                    -- GO_ON or GIVE_UP: the answer to HOP -->
 *
 * The claimer owns it until the settler reports that it is settled. The fetch loop may use it from
 * START to HOP or FINISHED, and again from GO_ON or GIVE_UP; at other times the main loop may. Both
 * loops may use the atomic fields at any time. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_TRANSFER_H
#define PHOTOPOOL_PIPELINE_FETCH_TRANSFER_H

#include "core/arrival.h"
#include "photopool/port/fetcher.h"
#include "photopool/task.h"
#include "runtime/mailbox.h"

/* Mail from a fetch loop to the main loop. */
enum pp_transfer_event {
    PP_TRANSFER_SENT,    /* The time at which a request counts is known (core/arrival.h). */
    PP_TRANSFER_HOP,     /* A redirect needs one more permit; parked until GO_ON or GIVE_UP. */
    PP_TRANSFER_FINISHED /* The outcome is filled in. */
};

/* Mail from the main loop to a fetch loop. */
enum pp_transfer_order { PP_ORDER_START, PP_ORDER_GO_ON, PP_ORDER_GIVE_UP };

struct pp_transfer;

struct pp_transfer_mail {
    struct pp_mail mail;
    struct pp_transfer *t;
    int what; /* enum pp_transfer_event or enum pp_transfer_order */
};

struct pp_transfer {
    struct pp_transfer_mail order; /* Mail to the fetch loop. */
    struct pp_transfer_mail event; /* Mail to the main loop: HOP, FINISHED. */
    struct pp_transfer_mail sent;  /* Mail to the main loop: SENT. It is in the mailbox while `sent_busy`. */
    atomic_bool sent_busy;
    /* The transfer's requests: the fetch loop notes them, and the claimer counts them. */
    struct pp_sends sends;

    /* The claimer sets these members: */
    struct pp_task *task;
    const char *const *headers; /* The client's lines, NULL-terminated; valid as long as the claim. */
    bool limited;               /* The client has a rate limit, so SENT is reported. */
    /* The time until which the slot allows requests (monotonic). It belongs to the client and is
     * valid as long as the client. */
    const _Atomic int64_t *send_until;

    /* Set by the fetch loop. Of `outcome` it sets code (0: a photo), object, ms (without time
     * parked or waiting for our disk) and detail; the settler sets the rest. */
    struct pp_outcome outcome;
    bool not_modified; /* The stored object is still current, and `object` is empty. */
    bool handed_back;  /* The transfer ended for a reason on our side: the attempt does not count. */
    char etag[PP_HEADER_VALUE_MAX], last_modified[PP_HEADER_VALUE_MAX];
    int64_t retry_after_ms; /* The Retry-After of the host; -1: there was none. */
    uint64_t bytes_received;
    char slow_host[256]; /* This host answered 429 or 503; "": none did. */
    char detail[256];    /* The text of outcome.detail. */

    void *run;                  /* The runner's struct fetch_run. */
    struct pp_node settle_node; /* After FINISHED the transfer is in the settler's queue. */
};

#endif
