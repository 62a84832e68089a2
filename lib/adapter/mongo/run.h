/* run.h: sends the commands of commands.h, and counts each as a round trip of the current
 * operation.
 *
 * Every function takes a command, the types of its holes, and their values (template.h):
 *
 *   err = pp_mg_each(t, MQ_ITEMS_OLDER, on_older, data, "sS", client, names, n_names);
 *   err = pp_mg_write(t, MQ_RENEW, &done, "si", worker, until_ms);
 *
 * PP_EUNKNOWN: the write may have happened, because its answer is lost, or because no majority of
 * the servers has stored it yet. The driver has then already repeated a single-document write once.
 * PP_EIO: nothing was written. PP_ETIMEOUT: a read got no answer. The error text is logged, and
 * stays in t->error. */
#ifndef PP_ADAPTER_MONGO_RUN_H
#define PP_ADAPTER_MONGO_RUN_H

#include "thread.h"

enum { PP_MG_COMMAND_DOCS = 1000, PP_MG_COMMAND_BYTES = 12 << 20, PP_MG_ANSWER_DOCS = 5000 };

/* Compile every command, before the first thread starts; and free them. */
void pp_mg_commands_open(struct pp_mg_template commands[MQ_COUNT]);
void pp_mg_commands_close(struct pp_mg_template commands[MQ_COUNT]);

/* --- documents of parts --- */

/* Appends the fields of a PART to `out`, or its elements, numbered from "0". */
void pp_mg_append(struct pp_mg_thread *t, enum pp_mg_command part, bson_t *out, const char *types, ...);
/* Appends a PART as element `number` of an array. */
void pp_mg_append_item(struct pp_mg_thread *t, enum pp_mg_command part, bson_t *array, uint32_t number,
                       const char *types, ...);

/* --- reading --- */

/* Gets each row of an answer; the row is valid until the callback returns. PP_EFULL ends the
 * reading, which then returns PP_OK; another failure ends it with that error. */
typedef enum pp_err (*pp_mg_row_cb)(void *data, const bson_t *row);

/* For answers with a single number: the callback sets `value` to the row's field `path`. Without
 * a row `value` stays unchanged. */
struct pp_mg_number {
    const char *path;
    int64_t value;
};
enum pp_err pp_mg_on_number(void *number, const bson_t *row);

/* Runs FIND or AGGREGATE. The rows arrive in parts of PP_MG_ANSWER_DOCS. */
pp_must_check enum pp_err pp_mg_each(struct pp_mg_thread *t, enum pp_mg_command command, pp_mg_row_cb on_row,
                                     void *data, const char *types, ...);
/* Like pp_mg_each(), for the first row only. PP_ENOTFOUND: there is no row. */
pp_must_check enum pp_err pp_mg_first(struct pp_mg_thread *t, enum pp_mg_command command, pp_mg_row_cb on_row,
                                      void *data, const char *types, ...);
/* Begin and end a series of reads: a later query sees at least what an earlier one saw, even
 * after a change of primary. */
void pp_mg_reads_begin(struct pp_mg_thread *t);
void pp_mg_reads_end(struct pp_mg_thread *t);

/* --- writing --- */

/* Numbers of documents that writes have changed. */
struct pp_mg_done {
    uint64_t inserted, matched, modified, upserted, deleted;
    size_t n_dups; /* writes that the server refused because of a duplicate key */
};

/* Runs one write of any kind. UPDATE_MANY and DELETE_MANY are not retried. `done` may be NULL. */
pp_must_check enum pp_err pp_mg_write(struct pp_mg_thread *t, enum pp_mg_command command,
                                      struct pp_mg_done *done, const char *types, ...);

/* A bulk of single-document writes to one collection, in no particular order. Values are copied.
 * The bulk is sent whenever it holds PP_MG_COMMAND_DOCS writes or PP_MG_COMMAND_BYTES.
 * pp_mg_bulk_run() sends the rest and frees the bulk; without a write it sends nothing. */
struct pp_mg_bulk {
    struct pp_mg_thread *t;
    enum pp_mg_coll coll;
    mongoc_bulk_operation_t *bulk; /* writes not sent yet; NULL: none */
    uint32_t n, bytes, base;       /* number of writes and of bytes in `bulk`; number of its first write */
    enum pp_err err;               /* the first failure; no more is sent after it */
    struct pp_mg_done done;
    /* numbers of the writes refused because of a duplicate key, ascending; in t->tmp */
    uint32_t *dups;
    size_t cap_dups;
};
void pp_mg_bulk_init(struct pp_mg_bulk *b, struct pp_mg_thread *t);
void pp_mg_bulk_add(struct pp_mg_bulk *b, enum pp_mg_command command, const char *types, ...);
pp_must_check enum pp_err pp_mg_bulk_run(struct pp_mg_bulk *b);

/* Runs MODIFY. `on_row` gets the document as it was before the change, or as it is after it if
 * the command's options say so. */
pp_must_check enum pp_err pp_mg_modify(struct pp_mg_thread *t, enum pp_mg_command command,
                                       pp_mg_row_cb on_row, void *data, const char *types, ...);

/* Runs COMMAND or COMMAND_WRITE. The caller destroys `reply`, even after a failure. */
pp_must_check enum pp_err pp_mg_command(struct pp_mg_thread *t, enum pp_mg_command command, bson_t *reply,
                                        const char *types, ...);

#endif
