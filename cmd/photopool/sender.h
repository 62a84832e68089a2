/* sender.h: sends items to the server in batches.
 *
 *   item -> [lines, up to batch_size items or PP_SENDER_BYTES] -> gzip -> POST /v1/batches
 *        -> the server's verdict for each item
 *
 * The first batch has the Idempotency-Key `key`, the next ones `key`-2, `key`-3 and so on. So the
 * sender can send a batch again if its answer was lost, and the server does not make a second batch
 * of it. The sender also sends a batch again that the server can't take now (429, 503): at the time
 * that the server names, or after a pause that grows, for at most retry_for_ms. It ends the sending
 * if the server refuses a whole batch for another reason. */
#ifndef PHOTOPOOL_SENDER_H
#define PHOTOPOOL_SENDER_H

#include "client.h"

#include "photopool/err.h"

enum {
    PP_SENDER_ITEMS = 10000,
    PP_SENDER_BYTES = 16 * 1024 * 1024, /* bytes of a batch before compression */
    PP_SENDER_KEY = 255,
};

struct pp_sender {
    struct pp_cli *cli; /* the connection to the server; the caller has opened cli->client */
    /* The sender calls this when the server has answered a batch. batch_id is NULL if the server
     * accepted no item. */
    void (*on_batch)(void *arg, const char *batch_id, int64_t accepted, int64_t rejected, bool replayed);
    /* The sender calls this, before on_batch, for each item of the batch that the server has
     * rejected. `line` is the item's line in the file; `verdict` is the server's object with index,
     * id, code, field and detail. */
    void (*on_rejected)(void *arg, uint64_t line, const json_t *verdict);
    void *arg;
    /* The client and the fields of a batch, which each batch carries. "" stands for the server's
     * default. The sender reads these texts when it sends a batch. */
    const char *client_id, *label, *refresh, *max_age;
    /* Idempotency-Key of the first batch, at most 240 visible characters */
    const char *key;
    size_t batch_size;
    int64_t retry_for_ms;

    struct pp_buf lines, zipped;
    uint64_t *line_of; /* line in the file of each item of the batch, by its index */
    size_t n;
    uint64_t number; /* number of the batch that is being filled, from 1 */
    bool answered;   /* the server has answered at least once */
    int64_t accepted, rejected;
    /* PP_EXIT_DONE, or the exit code after the sending has ended with a message to the user */
    int code;
};

/* Starts a sender. The caller has set the fields above the blank line in struct pp_sender, and
 * zeroed all other fields. Returns PP_ENOMEM on failure. */
pp_must_check enum pp_err pp_sender_init(struct pp_sender *s);
void pp_sender_fini(struct pp_sender *s);
/* Adds an item. Returns PP_ECANCELED if the sending has ended; `code` says why. */
pp_must_check enum pp_err pp_sender_item(struct pp_sender *s, const char *text, size_t n, uint64_t line);
/* Sends the items that are not sent yet. */
pp_must_check enum pp_err pp_sender_flush(struct pp_sender *s);

#endif
