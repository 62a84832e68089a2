/* transfer.h: one claimed task on its way through s4 fetch and s5 keep: made by s3 claim, filled in on a
 * fetch loop, judged by s6 settle.
 *
 *   main loop: s3 claim --submit--> fetch loop: s4 fetch -> s5 keep --finished--> main loop: s6 settle
 *                   <--PP_TRANSFER_SENT, PP_TRANSFER_HOP (a redirect asks for a permit)--
 *
 * Belongs to s3 (an arena per claim) until settled. `state` fields are touched only by the loop that has it
 * at the moment. */
#ifndef PHOTOPOOL_PIPELINE_TRANSFER_H
#define PHOTOPOOL_PIPELINE_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "photopool/port/fetcher.h"
#include "photopool/task.h"
#include "runtime/mailbox.h"

struct pp_claim;
struct s3_client;

/* Mail from a fetch loop to the main loop. */
enum pp_transfer_event {
    PP_TRANSFER_SENT,    /* a request counts as sent at sent_ms */
    PP_TRANSFER_HOP,     /* a redirect wants to send one more request: parked until the answer */
    PP_TRANSFER_FINISHED /* the outcome is filled in */
};

/* Mail from the main loop to a fetch loop. */
enum pp_transfer_order {
    PP_ORDER_START,
    PP_ORDER_GO_ON /* the answer to HOP */,
    PP_ORDER_GIVE_UP /* likewise */
};

struct pp_transfer;

struct pp_transfer_mail {
    struct pp_mail mail;
    struct pp_transfer *t;
    int what; /* event or order */
};

struct pp_transfer {
    struct pp_transfer_mail order; /* to the fetch loop */
    struct pp_transfer_mail event; /* to the main loop: HOP, FINISHED */
    struct pp_transfer_mail sent;  /* to the main loop: SENT; not posted again while `sent_busy` */
    atomic_bool sent_busy;
    atomic_uint sent_count;  /* requests that were written */
    atomic_uint heard_count; /* of these, such as count as sent: at */
    _Atomic int64_t sent_ms; /* monotonic, the latest of them: see pp_ratelimit_sent_at() */
    _Atomic int64_t late_ms; /* so much later than it was written */

    /* in */
    struct pp_task *task;
    const char *const *headers; /* the client's, NULL-terminated; lives as long as the claim */
    bool limited;               /* the client has a rate: report `sent` */
    int64_t usual_delay_ms;     /* of the client's hosts: core/usual_delay.h */
    /* Monotonic: the slot allows requests to go out until then; the client's, who lives as long. */
    const _Atomic int64_t *send_until;

    /* out */
    uint16_t code; /* 0: `object` was stored, or `not_modified` */
    bool not_modified;
    bool handed_back; /* not finished for reasons of ours (drain): does not count */
    struct pp_object object;
    char etag[PP_HEADER_VALUE_MAX], last_modified[PP_HEADER_VALUE_MAX];
    int64_t retry_after_ms; /* -1: none */
    int64_t ms;             /* duration of the transfer, parked time not included */
    int64_t first_byte_ms;  /* shortest time from a request to its answer's head; -1: none came */
    int64_t answered_ms;    /* monotonic: when that one came */
    uint64_t bytes_received;
    char slow_host[256]; /* 429, 503: the host that asked for patience */
    char detail[256];

    void *run; /* s4's */

    /* s3's, main loop */
    struct pp_claim *claim;
    struct s3_client *client;
    unsigned loop;      /* which fetch loop has it */
    unsigned sent_seen; /* of heard_count, counted in the client's log */
    unsigned admitted;  /* permits taken for it, ever */
    unsigned over;      /* requests without a permit, in the log before they are heard */
    bool parked;
    struct pp_node hop_node;
};
#endif
