/* transfer.h: one claimed task on its way through fetch and keep. The claimer makes the transfer, a
 * fetch loop fills in its outcome, and the settler decides how the task continues.
 *
 *   main loop: claim --START--> fetch loop: fetch -> keep --FINISHED--> main loop: settle
 *                   <-- SENT; HOP: a further request needs a permit
 *                    -- GO_ON or GIVE_UP: the answer to HOP -->
 *
 * The claimer owns the transfer until the settler reports that it is settled. The fetch loop may
 * use the transfer from START to HOP or FINISHED, and again from GO_ON or GIVE_UP; at other times
 * the main loop may use it. Both loops may use the atomic fields at any time. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_TRANSFER_H
#define PHOTOPOOL_PIPELINE_FETCH_TRANSFER_H

#include "core/arrival.h"
#include "photopool/port/fetcher.h"
#include "photopool/task.h"
#include "pipeline/common/hand_back.h"
#include "pipeline/hosts/hosts.h"
#include "runtime/mailbox.h"

/* Mail from a fetch loop to the main loop. */
enum pp_transfer_event {
    /* One more request counts for the rate limit, and the time at which it counts is known
     * (core/arrival.h). */
    PP_TRANSFER_SENT,
    /* A redirect, or a request that must be written again, needs one more permit. The transfer is
     * parked until GO_ON or GIVE_UP. */
    PP_TRANSFER_HOP,
    PP_TRANSFER_FINISHED /* The outcome is filled in. */
};

/* Mail from the main loop to a fetch loop. */
enum pp_transfer_order { PP_ORDER_START, PP_ORDER_GO_ON, PP_ORDER_GIVE_UP };

struct pp_sharing_task;
struct pp_transfer;

struct pp_transfer_mail {
    struct pp_mail mail;
    struct pp_transfer *t;
    int what; /* An enum pp_transfer_event or an enum pp_transfer_order. */
};

struct pp_transfer {
    struct pp_transfer_mail order; /* The mail with an order, to the fetch loop. */
    struct pp_transfer_mail event; /* the mail to the main loop that reports HOP or FINISHED */
    /* The mail with SENT, to the main loop; it is in the mailbox while `sent_busy`. */
    struct pp_transfer_mail sent;
    atomic_bool sent_busy;
    /* The requests of this transfer: the fetch loop notes them, and the claimer counts them. */
    struct pp_sends sends;

    /* The claimer sets these members before START: */
    struct pp_task *task;
    /* The client's extra headers; valid as long as the claim. NULL: none. */
    const struct pp_headers *headers;
    bool limited; /* True: the client has a rate limit, so the fetch loop reports SENT. */
    /* The slot allows requests until this time (monotonic). The value belongs to the client and is
     * valid as long as the client. */
    const _Atomic int64_t *send_until;
    /* With GIVE_UP: the reason with which the fetch loop hands the transfer back; PP_BACK_NOT: the
     * worker is stopping. */
    enum pp_back give_up_why;
    /* The claimer sets it with a transfer that it ends itself because of a host: how long the task
     * waits, or GIVE_UP: it has waited too long, and fails. */
    struct pp_host_gate gate;
    /* Whether other tasks share the outcome (claim/sharing.h); NULL: the task does not share. */
    struct pp_sharing_task *share;

    /* The fetch loop sets the following members. In `outcome` it sets code (0: a photo), object, ms
     * (without time parked or waiting for our disk; also with HOP) and detail; the settler sets the
     * rest. */
    struct pp_outcome outcome;
    /* True: the host confirmed the stored object (304), and outcome.object is empty. */
    bool not_modified;
    /* Not PP_BACK_NOT: the transfer ended for this reason on our side, so the attempt does not
     * count. */
    enum pp_back handed_back;
    char etag[PP_HEADER_VALUE_MAX], last_modified[PP_HEADER_VALUE_MAX];
    int64_t retry_after_ms; /* The wait that the host's Retry-After asked for, in ms; -1: none. */
    uint64_t bytes_received;
    /* Where the last request was sent; "": none was, or a connection for a further one failed. */
    char address[PP_ADDRESS_MAX];
    uint16_t http_status; /* The status of the last request's answer; 0: it got none. */
    /* The host of the last redirect's target, which then gave the outcome; "": the task's host
     * did. With HOP: the host of the request that needs a permit. */
    char hop_host[256];
    bool slowed;      /* The host that gave the outcome answered 429 or 503. */
    char detail[256]; /* The buffer for the text of outcome.detail. */

    void *run;                  /* The runner's struct fetch_run for this transfer. */
    int64_t ended_ms;           /* the settler got the transfer at this loop time */
    struct pp_node settle_node; /* After FINISHED, links the transfer into the settler's queue. */
    struct pp_node tell_node;   /* The same, into its list of photos to tell other tasks of. */
};

#endif
