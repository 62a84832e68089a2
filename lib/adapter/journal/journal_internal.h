/* journal_internal.h: what the files of the journal share.
 *
 *   journal_queue.c   open, reading what is left from before, close; what is merely passed on
 *   journal_entry.c   what is in the journal, in memory: states, lists, who waits behind whom
 *   journal_append.c  inner, then own
 *   journal_round.c   what became of entries: released, or appended again
 *   journal_read.c    get, list, stats, check, cancel: inner's answer, and what only the journal knows
 *
 * An entry in memory is in own; one in own is in memory, once that has been read (loaded), but for those that
 * are being appended or released. All of them are in inner, or promised, or about to be: own has an entry
 * only when inner's answer is known, or is not to be waited for. Its state says what is known of inner:
 *
 *   appended there: SURE --asked: unknown--> MISSING --appended--> SURE --asked: planned--> gone
 *   answer lost:    DOUBTFUL --asked: waiting--> SURE, unknown--> MISSING, planned--> gone
 *   never sent:     MISSING
 *   inner has lost one, or goes away: all that are SURE become DOUBTFUL
 *
 * Invariants: `open` has those that are not SURE, by order of acceptance; of a client with one of these
 * (waiting > 0) no append begins with inner but the round's, which goes by that order. SURE ones are in
 * `sure`, by how often they were asked for, each list by due time. */
#ifndef PP_ADAPTER_JOURNAL_INTERNAL_H
#define PP_ADAPTER_JOURNAL_INTERNAL_H

#include <uthash.h>

#include "adapter/journal/journal_queue.h"
#include "base/arena.h"
#include "base/list.h"

enum { JQ_LEVELS = 6, JQ_SLICE = 256, JQ_EARLY_MAX = 4096 };

enum jq_state { JQ_SURE, JQ_DOUBTFUL, JQ_MISSING };

struct jq_client {
    UT_hash_handle hh;
    size_t entries, waiting; /* waiting: of these not SURE */
    char id[PP_CLIENT_MAX + 1];
};

struct jq_entry {
    UT_hash_handle hh;
    struct pp_node node;
    struct pp_list *list; /* NULL: none */
    struct jq_client *client;
    enum jq_state state;
    uint64_t num; /* order of acceptance */
    unsigned level;
    int64_t due_ms;           /* monotonic: to be asked for */
    bool tell;                /* inner has not been told yet that it is cancelled */
    struct pp_ingest_entry e; /* without payload; strings are below */
    char batch_id[];
};

struct jq {
    struct pp_ingest_queue base;
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_ingest_queue *inner, *own;
    int64_t check_ms;
    uint64_t high_water;
    struct jq_entry *entries;
    struct jq_client *clients;
    struct pp_list open, sure[JQ_LEVELS];
    uint64_t next_num;
    bool loaded, closing;
    bool away;            /* inner did not answer, or take an entry, the last time */
    bool doubt;           /* it has gone away: what is SURE must be asked for */
    bool away_told;       /* the log says so */
    bool own_failed;      /* own could not be written the last time */
    struct pp_list early; /* appends that wait until it is loaded */
    size_t under_way;     /* operations of ours, with requests in own or inner */
    struct pp_timer *timer;
    bool in_round;
    struct jq_round *round;
    char durable[640];
};

/* An operation: `r` is the caller's request (NULL: nobody's). Freed by jq_end(). */
struct jq_op {
    struct pp_node node;
    struct jq *q;
    struct pp_req *r;
};

/* size: of a struct that begins with struct jq_op. NULL: out of memory or closing (*err). */
struct jq_op *jq_op_new(struct jq *q, size_t size, struct pp_req *r, enum pp_err *err);
/* The caller's request is done with `err`, the operation freed. */
void jq_end(struct jq_op *op, enum pp_err err);
/* Freed; the caller's request was not taken. */
void jq_drop(struct jq_op *op);
/* A request of ours that answers into the caller's arena. */
struct pp_req jq_req(struct jq_op *op, void (*done)(struct pp_req *req));

/* --- journal_entry.c --- */

/* Not in the hash yet; NULL: out of memory. */
struct jq_entry *jq_entry_new(const struct pp_ingest_entry *e);
/* As the last; false: out of memory. */
pp_must_check bool jq_entry_add(struct jq *q, struct jq_entry *e, enum jq_state state);
struct jq_entry *jq_find(struct jq *q, const char *batch_id);
void jq_entry_set(struct jq *q, struct jq_entry *e, enum jq_state state);
/* SURE, and asked for again later each time. */
void jq_entry_later(struct jq *q, struct jq_entry *e);
/* All that are SURE become DOUBTFUL; they keep their level. */
void jq_entries_doubt(struct jq *q);
void jq_entry_remove(struct jq *q, struct jq_entry *e);
/* Whether a new entry of this client would overtake one. */
bool jq_client_waits(struct jq *q, const char *client);
/* A copy without payload. PP_ENOMEM. */
pp_must_check enum pp_err jq_entry_copy(struct pp_arena *a, const struct jq_entry *e,
                                        struct pp_ingest_entry *out);

/* --- journal_queue.c --- */

/* Reads what own has, then goes on. */
void jq_load(struct jq *q);
/* Closed, and nothing is under way. */
void jq_free(struct jq *q);

/* --- journal_round.c --- */

pp_must_check bool jq_round_open(struct jq *q);
void jq_round_close(struct jq *q);
/* There may be something to do now. */
void jq_round_kick(struct jq *q);
/* Inner did not answer, or take an entry. */
void jq_away(struct jq *q);
/* These are planned: they leave the journal. Copies. */
void jq_release(struct jq *q, const char *const *batch_ids, size_t n);

/* --- the operations --- */

void jq_append_early(struct jq *q); /* loaded: those that waited, or are done with PP_ECLOSED */

#define JQ_OPS(X)               \
    X(append, pp_ingest_append) \
    X(ack, pp_ingest_ack)       \
    X(get, pp_ingest_get)       \
    X(list, pp_ingest_list)     \
    X(cancel, pp_ingest_cancel) \
    X(stats, pp_ingest_stats)   \
    X(clean, pp_ingest_clean)   \
    X(check, pp_ingest_check)
#define X(name, type) pp_must_check enum pp_err jq_##name(struct pp_ingest_queue *q, struct type *r);
JQ_OPS(X)
#undef X

#endif
