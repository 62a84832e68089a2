/* run.h: commands, queries and bulk writes, each counted as a round trip of the operation that runs.
 *
 * Errors: PP_EUNKNOWN is a write that may have happened (the answer is lost, or it is not on a majority yet);
 * the driver has then repeated a single-document write once already. PP_EIO: nothing was written.
 * PP_ETIMEOUT: a read without an answer. The text is in t->error, and has been logged. */
#ifndef PP_ADAPTER_MONGO_RUN_H
#define PP_ADAPTER_MONGO_RUN_H

#include "store.h"

enum { PP_MG_COMMAND_DOCS = 1000, PP_MG_COMMAND_BYTES = 12 << 20, PP_MG_ANSWER_DOCS = 5000 };

/* Runs a command on the database; w:majority is added to one that writes. `reply` is always to be destroyed.
 */
pp_must_check enum pp_err pp_mg_command(struct pp_mg_thread *t, const bson_t *cmd, bool write, bson_t *reply);
/* findAndModify: as pp_mg_command with the document found in *doc (valid as long as `reply`), or false in
 * *found. */
pp_must_check enum pp_err pp_mg_find_and_modify(struct pp_mg_thread *t, enum pp_mg_coll coll,
                                                const bson_t *query, const bson_t *update, bool upsert,
                                                bool after, bson_t *reply, bson_t *doc, bool *found);

/* A query's documents, one by one. Each is valid until the next.
 *   struct pp_mg_rows rows = pp_mg_find(t, PP_MG_ITEMS, &filter, &opts);
 *   while ((doc = pp_mg_next(&rows))) ...
 *   err = pp_mg_rows_end(&rows);
 * Answers come in parts of PP_MG_ANSWER_DOCS, unless `opts` has a batchSize. */
struct pp_mg_rows {
    struct pp_mg_thread *t;
    mongoc_cursor_t *cursor;
    int64_t id; /* of the cursor on the server; 0: all has been sent */
};
struct pp_mg_rows pp_mg_find(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *filter,
                             const bson_t *opts);
/* `pipeline`: an array of stages. */
struct pp_mg_rows pp_mg_aggregate(struct pp_mg_thread *t, enum pp_mg_coll coll, const bson_t *pipeline,
                                  const bson_t *opts);
const bson_t *pp_mg_next(struct pp_mg_rows *rows);
pp_must_check enum pp_err pp_mg_rows_end(struct pp_mg_rows *rows);

/* Until the end, what one query has seen all later ones see, also after a change of primary. */
void pp_mg_reads_begin(struct pp_mg_thread *t);
void pp_mg_reads_end(struct pp_mg_thread *t);

/* Adds {readConcern: {level: "majority"}}: for what is shown outside and must not be taken back. */
void pp_mg_majority(bson_t *opts);

/* By this index and no other: what the planner would choose depends on what it happened to see first. */
void pp_mg_hint(bson_t *opts, const char *index);

/* Unordered single-document writes (and inserts), sent in commands of PP_MG_COMMAND_DOCS.
 * Filters and documents are copied. pp_mg_bulk_run() sends the rest and frees; without a write it does
 * nothing. */
struct pp_mg_bulk {
    struct pp_mg_thread *t;
    enum pp_mg_coll coll;
    mongoc_bulk_operation_t *bulk; /* what is not sent yet; NULL: nothing */
    uint32_t n, bytes, base;       /* of `bulk`; number of the first write in it */
    enum pp_err err;               /* the first failure; the rest is then not sent */
    uint64_t inserted, matched, modified, upserted, deleted;
    uint32_t *dups; /* numbers of the writes refused because of a unique key, ascending; in t->tmp */
    size_t n_dups, cap_dups;
};
void pp_mg_bulk_init(struct pp_mg_bulk *b, struct pp_mg_thread *t, enum pp_mg_coll coll);
void pp_mg_bulk_insert(struct pp_mg_bulk *b, const bson_t *doc);
/* The whole document, whether there is one or not. `filter` names _id. */
void pp_mg_bulk_replace(struct pp_mg_bulk *b, const bson_t *filter, const bson_t *doc);
/* `filter` names _id. `update` is a document of operators, or a pipeline (an array). */
void pp_mg_bulk_update(struct pp_mg_bulk *b, const bson_t *filter, const bson_t *update, bool upsert);
/* With options of its own: arrayFilters, another hint. */
void pp_mg_bulk_update_opts(struct pp_mg_bulk *b, const bson_t *filter, const bson_t *update,
                            const bson_t *opts);
void pp_mg_bulk_remove(struct pp_mg_bulk *b, const bson_t *filter);
/* By this index: plans are not compared for every one of them. */
void pp_mg_bulk_remove_hint(struct pp_mg_bulk *b, const bson_t *filter, const char *index);
pp_must_check enum pp_err pp_mg_bulk_run(struct pp_mg_bulk *b);

/* Writes to every document that matches: not retryable, so PP_EUNKNOWN where the answer is lost. */
struct pp_mg_many {
    uint64_t matched, modified;
};
pp_must_check enum pp_err pp_mg_update_many(struct pp_mg_thread *t, enum pp_mg_coll coll,
                                            const bson_t *filter, const bson_t *update,
                                            struct pp_mg_many *out);
/* By this index and no other: what the planner would choose depends on what it saw first. */
pp_must_check enum pp_err pp_mg_update_many_hint(struct pp_mg_thread *t, enum pp_mg_coll coll,
                                                 const bson_t *filter, const bson_t *update,
                                                 const char *index, struct pp_mg_many *out);
pp_must_check enum pp_err pp_mg_delete_many(struct pp_mg_thread *t, enum pp_mg_coll coll,
                                            const bson_t *filter, uint64_t *deleted);

#endif
