/* delivery_data.h: the data of the delivery store in memory, and its operations.
 *
 * Invariants: `due` of a sink has exactly its PENDING rows. Both arrays of a sink have room for all
 * its rows, so changing a row's status never fails. The name of an endpoint's sink is
 * PP_SINK_WEBHOOK and the endpoint's name; such a sink exists exactly if the endpoint does. due_ms
 * is 0 in all rows but PENDING ones.
 *
 * To add an operation: declare it in the port, write pp_md_run_NAME(), and pp_md_copy_NAME() if it
 * changes data. */
#ifndef PP_ADAPTER_MEMORY_DELIVERY_DATA_H
#define PP_ADAPTER_MEMORY_DELIVERY_DATA_H

#include "adapter/memory/delivery.h"
#include "adapter/memory/sorted.h"

struct pp_md_row {
    struct pp_delivery d; /* its texts point to `texts`; due_ms is by the server's clock */
    char texts[];
};

struct pp_md_sink {
    uint64_t cursor;
    struct pp_memory_sorted rows; /* of struct pp_md_row, in the order of seq */
    struct pp_memory_sorted due;  /* the PENDING ones, in the order of (due_ms, seq) */
    uint64_t dead;                /* number of DEAD rows */
    char name[];
};

struct pp_md_webhook {
    struct pp_webhook w; /* its texts point to `texts` */
    char texts[];
};

/* The statistics of one day. */
struct pp_md_day {
    struct pp_day d; /* its name points to `name`; its errors are a block from malloc() */
    uint64_t upto;   /* the end of the last range that was added */
    char name[];
};

struct pp_memory_delivery {
    struct pp_memory_delivery_options options;
    struct pp_memory_sorted sinks;    /* of struct pp_md_sink, in the order of their names */
    struct pp_memory_sorted webhooks; /* of struct pp_md_webhook, in the order of their names */
    struct pp_memory_sorted days;     /* of struct pp_md_day, in the order of (of, name, day) */
    uint64_t days_end; /* the end of the range that is to be added next; up to the cursor: none is fixed */
};

/* Writes into req->scratch the server's clock minus that of the process, in ms. */
void pp_md_set_offset(struct pp_req *req, int64_t offset_ms);

/* Adds a sink, which must not exist. Returns false when out of memory. */
bool pp_md_sink_add(struct pp_memory_delivery *s, const char *name, uint64_t cursor);
/* Deletes a sink with its rows. */
void pp_md_sink_delete(struct pp_memory_delivery *s, const char *name);
/* Free all sinks, and all days, of a server. */
void pp_md_sinks_free(struct pp_memory_delivery *s);
void pp_md_days_free(struct pp_memory_delivery *s);
/* Returns where the sink's cursor is kept; NULL: there is no such sink. */
uint64_t *pp_md_cursor(struct pp_memory_delivery *s, const char *sink);

/* Returns the size of a text with its NUL; 0 for NULL. */
size_t pp_md_text_size(const char *text);
/* Lets *text be a copy of itself at *to, and moves *to behind it. NULL stays NULL. */
void pp_md_text_move(const char **text, char **to);

/* --- operations --- */

/* The operations that change data. The others only read. */
#define PP_MD_WRITES(X)                  \
    X(save, pp_delivery_save)            \
    X(cursor, pp_delivery_cursor)        \
    X(replay, pp_delivery_replay)        \
    X(clean, pp_delivery_clean)          \
    X(put_webhook, pp_webhook_put)       \
    X(delete_webhook, pp_webhook_delete) \
    X(days_begin, pp_days_begin)         \
    X(days_add, pp_days_add)             \
    X(days_clean, pp_days_clean)
#define PP_MD_READS(X)          \
    X(due, pp_delivery_due)     \
    X(list, pp_delivery_list)   \
    X(sinks, pp_delivery_sinks) \
    X(webhooks, pp_webhooks)    \
    X(days, pp_days)

/* Each carries out a request at once. */
#define X(name, type) enum pp_err pp_md_run_##name(struct pp_memory_delivery *s, struct type *r);
PP_MD_WRITES(X)
PP_MD_READS(X)
#undef X
/* Each lets a copied request have copies of its inputs. Returns false when out of memory. */
#define X(name, type) bool pp_md_copy_##name(struct type *r, struct pp_arena *a);
PP_MD_WRITES(X)
#undef X

#endif
