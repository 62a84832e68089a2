/* plan_internal.h: what plan.c (assigns entries to jobs; the steps of a job), chunk.c (reads a
 * chunk and decides what its photos need) and known.c (finds out what is known of photos) share. */
#ifndef PHOTOPOOL_PIPELINE_PLAN_PLAN_INTERNAL_H
#define PHOTOPOOL_PIPELINE_PLAN_PLAN_INTERNAL_H

#include "base/arena.h"
#include "base/check.h"
#include "base/list.h"
#include "core/entry.h"
#include "core/url.h"
#include "pipeline/plan/plan.h"

#define PLAN_JOBS 4

enum plan_step {
    PLAN_IDLE,
    PLAN_ASK, /* of the filter of known photos; before the look-up, or again after the write */
    PLAN_DISCARD,
    PLAN_LOOKUP,
    PLAN_WRITE,
    PLAN_ACK,
    PLAN_POISON,
    PLAN_PAUSED
};

/* A request to the queue for entries, with its answer. The planner frees the request after it has
 * ended, when no entry of the answer waits or is being planned any more. */
struct plan_take {
    struct pp_arena arena;
    struct pp_ingest_take r;
    size_t refs;
};

struct plan_waiting {
    struct pp_node node; /* links the entry into pp_planner.waiting */
    struct plan_take *take;
    struct pp_ingest_entry *entry;
};

struct plan_job {
    struct pp_planner *planner;
    enum plan_step step;
    /* Number of failed tries that the entry or the records of its photos have caused. */
    uint32_t failures;
    struct plan_take *take;
    const struct pp_ingest_entry *entry;
    struct pp_entry_reader reader;
    /* The numbers of the batch: those of the entry; or, if it is given up, of what can be read. */
    uint64_t batch_items, batch_photos;
    /* An item that was already read, but belongs to the next chunk; valid if has_ahead is true. */
    struct pp_entry_item ahead;
    bool has_ahead;
    /* The memory of the current chunk, or of the request that removes the entry. */
    struct pp_arena arena;
    struct pp_plan_item *items; /* n_items of them */
    size_t n_items;
    /* The photos of the chunk that must be looked up, in the order of the look-up's keys. At first
     * all that may be fetched; then without those that the filter calls absent. */
    struct pp_plan_photo **fetchable;
    size_t n_fetchable;
    struct pp_rejected_part *rejected; /* the parts of verdicts that stand within the chunk */
    size_t n_rejected;
    /* The request to the filter with the keys of all photos that may be fetched; n 0: there is
     * none, or the chunk has no such photo. */
    struct pp_filter_ask ask;
    struct pp_filter_discard discard;
    int64_t asked_ms;     /* loop time of the latest ask or discard */
    uint32_t asks_failed; /* in a row */
    bool written;         /* the store has the chunk */
    struct pp_store_lookup lookup;
    struct pp_store_plan plan;
    union {
        struct pp_ingest_ack ack;
        struct pp_ingest_poison poison;
    } last;
    struct pp_timer *pause;
};

/* The steps of a job that known.c continues with; plan.c has them. */
struct plan_steps {
    /* Writes the chunk, in which every photo is decided, to the store. */
    void (*write)(struct plan_job *job);
    /* The chunk is done: goes on to the next one, or ends the entry. */
    void (*written)(struct plan_job *job);
    /* A request has failed: pauses the job, and then starts its entry again. `what` is the line of
     * the log. */
    void (*failed)(struct plan_job *job, const char *what, enum pp_err err);
};

struct pp_planner {
    struct pp_planner_options o;
    const struct plan_steps *steps;
    struct plan_job jobs[PLAN_JOBS];
    struct pp_list waiting;   /* entries taken from the queue for which no job has started yet */
    struct plan_take *taking; /* the request for entries that is in flight; NULL: none */
    /* True: when `taking` ends, the planner assigns jobs even if no entries came. */
    bool again;
    bool draining;
    /* True while the planner plans one entry at a time: before the first answer of the queue, and
     * while it has an entry that was delivered more than DELIVERIES_ALONE times. */
    bool alone;
    struct pp_timer *timer;
    enum pp_err failure;           /* the error of the latest step of a job; PP_OK: none */
    char scratch[PP_URL_TEXT_MAX]; /* a URL that is being read */
};

/* --- chunk.c: reads a chunk, decides what its photos need --- */

struct plan_chunk_size {
    size_t items;
    size_t fetchable; /* number of photos that must be looked up */
};

/* Reads the next items of the job into job->items, and those of their photos that must be looked up
 * into job->fetchable, and the parts of verdicts among them into job->rejected. Photos whose URL
 * may not be fetched get their outcome here. Returns PP_ECORRUPT if the entry is damaged, PP_ENOMEM
 * when out of memory. */
pp_must_check enum pp_err plan_chunk_read(struct plan_job *job, struct plan_chunk_size *size);
/* Decides, for each photo that was looked up, whether it needs a task. */
void plan_chunk_decide(struct plan_job *job);
/* Decides for the photos in job->fetchable that are absent: the store has no record of them. Takes
 * them out of job->fetchable. */
void plan_chunk_absent(struct plan_job *job, const bool *absent);

/* --- known.c: finds out what is known of a chunk's photos --- */

/* Finds out what is known of the photos in job->fetchable, and decides what they need. Then calls
 * steps->write() or steps->failed(). */
void plan_known_find(struct plan_job *job);
/* The chunk was written: makes sure that the filter has its photos. Then calls steps->written() or
 * steps->failed(). */
void plan_known_check(struct plan_job *job);

#endif
