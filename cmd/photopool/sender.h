/* sender.h: items on their way to the server, in batches.
 *
 *   item -> [lines, up to batch_size items or PP_SENDER_BYTES] -> gzip -> POST /v1/batches -> verdicts
 *
 * A batch has an Idempotency-Key, `key` for the first and `key`-2, `key`-3 ... for the rest: one whose answer
 * was lost is sent again without making a second one. So is a batch that the server can't take now (429,
 * 503), when it says so or after a pause that grows; for retry_for_ms at most. A batch that was refused as a
 * whole for another reason ends the sending. */
#ifndef PHOTOPOOL_SENDER_H
#define PHOTOPOOL_SENDER_H

#include "client.h"

#include "photopool/err.h"

enum {
    PP_SENDER_ITEMS = 10000,
    PP_SENDER_BYTES = 16 * 1024 * 1024, /* before compression */
    PP_SENDER_KEY = 255,
};

/* Told what became of batches. */
struct pp_sender_ops {
    /* A batch was answered; batch_id NULL: nothing of it was accepted. */
    void (*batch)(void *arg, const char *batch_id, int64_t accepted, int64_t rejected, bool replayed);
    /* `line` of the file; `verdict` is the server's object: index, id, code, field, detail. Before its
     * batch's call. */
    void (*rejected)(void *arg, uint64_t line, const json_t *verdict);
    /* Something is sent again later: for the user. */
    void (*waiting)(void *arg, const char *text);
    void *arg;
};

struct pp_sender {
    struct pp_client *client;
    const struct pp_sender_ops *ops;
    const char *client_id, *refresh; /* refresh "": the server's default; read when a batch is sent */
    const char *key;                 /* at most 240 visible characters */
    size_t batch_size;
    int64_t retry_for_ms;

    struct pp_buf lines, zipped;
    uint64_t *line_of; /* by the item's index in the batch */
    size_t n;
    uint64_t number; /* of the batch being filled, from 1 */
    bool answered;   /* the server has answered once */
    int64_t accepted, rejected;
    int code; /* PP_EXIT_DONE, or why the sending ended: a message has been given */
};

/* The fields above the blank line are the caller's to set; the rest is zeros. PP_ENOMEM. */
pp_must_check enum pp_err pp_sender_init(struct pp_sender *s);
void pp_sender_fini(struct pp_sender *s);
/* PP_ECANCELED: the sending has ended (code). */
pp_must_check enum pp_err pp_sender_item(struct pp_sender *s, const char *text, size_t n, uint64_t line);
/* Sends what is left. */
pp_must_check enum pp_err pp_sender_flush(struct pp_sender *s);

#endif
