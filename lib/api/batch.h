/* batch.h: finds batches, writes them, and answers their POST, for several endpoints.
 *
 * A batch is in the ingest queue until it is planned, and in the store from its first planned chunk
 * on. It leaves the queue only after all of it is in the store. */
#ifndef PHOTOPOOL_API_BATCH_H
#define PHOTOPOOL_API_BATCH_H

#include "api/call.h"
#include "pipeline/accept/accept.h"
#include "pipeline/claim/waiting.h"

/* A search for one batch. It must be the first member of a call's state. */
struct pp_batch_find {
    /* The results of the search, valid in on_found(): */
    struct pp_batch batch;
    bool queued; /* the batch is in the queue; its first chunks may be in the store as well */
    /* The result of the first request to the store. PP_ENOTFOUND: the store works, but does not
     * have the batch. */
    enum pp_err store_err;
    /* Only pp_batch_find() uses the following fields. */
    void (*on_found)(struct pp_call *call);
    struct pp_store_batch store;
    struct pp_ingest_get ingest;
    bool again; /* the store is being asked for the second time */
};

/* What an endpoint needs to show one batch. It must be the first member of a call's state. */
struct pp_batch_get {
    struct pp_batch_find find; /* must be first */
    struct pp_waiting_look look;
    void (*on_written)(struct pp_call *call);
};

/* Writes the batch that was found to call->out, then calls on_written(call). */
void pp_batch_write_found(struct pp_call *call, void (*on_written)(struct pp_call *call));

/* Finds a batch that the key may read, then calls on_found(call). Answers not_found if there is
 * none. A batch in the queue is found even if the store does not work. */
void pp_batch_find(struct pp_call *call, const char *id, void (*on_found)(struct pp_call *call));
/* Checks that `id` has the form of a batch id, and prepares the text of not_found answers. Returns
 * false if not; the call has then been answered. */
bool pp_batch_id_check(struct pp_call *call, const char *id);

/* Returns the batch that an entry of the queue stands for. It borrows the strings of the entry. */
struct pp_batch pp_batch_of_entry(const struct pp_ingest_entry *entry);
/* Reads the pace of batches of the store, then calls on_looked(call). */
void pp_batch_look(struct pp_call *call, struct pp_waiting_look *look, const struct pp_batch *batches,
                   size_t n, void (*on_looked)(struct pp_call *call));
/* Sets `client` and `id` of a request for the item that the path names. Returns false if there can
 * be no such item, or the key may not see it; the call has then been answered. */
bool pp_item_named(struct pp_call *call, struct pp_store_item *out);
/* Answers a post with the acceptor's verdict; post->data is the call. The verdict must not be
 * PP_POST_NOTHING. */
void pp_batch_posted(struct pp_acceptor_post *post);

#endif
