/* s2_internal.h: what the files of s2 share: s2_plan.c (dealing entries to jobs, the steps of a job) and
 * s2_chunk.c (reading and deciding a chunk). */
#ifndef PHOTOPOOL_PIPELINE_S2_INTERNAL_H
#define PHOTOPOOL_PIPELINE_S2_INTERNAL_H

#include "base/arena.h"
#include "base/list.h"
#include "core/entry.h"
#include "pipeline/s2_plan.h"

#define S2_JOBS 4

enum s2_step { S2_IDLE, S2_LOOKUP, S2_PLAN, S2_ACK, S2_POISON, S2_PAUSED };

/* The answer to one take, shared by its entries. */
struct s2_take {
    struct pp_arena arena;
    struct pp_ingest_take r;
    size_t refs;
};

struct s2_waiting {
    struct pp_node node;
    struct s2_take *take;
    struct pp_ingest_entry *entry;
};

struct s2_job {
    struct pp_s2 *s2;
    enum s2_step step;
    uint32_t failures; /* that won't pass */
    struct s2_take *take;
    const struct pp_ingest_entry *entry;
    struct pp_entry_reader reader;
    struct pp_entry_item ahead; /* read, but for the next chunk */
    bool has_ahead;
    struct pp_arena arena; /* the chunk's */
    struct pp_plan_item *items;
    struct pp_plan_photo **fetchable; /* photos of the chunk that are looked up, in order of keys */
    struct pp_store_lookup lookup;
    struct pp_store_plan plan;
    union {
        struct pp_ingest_ack ack;
        struct pp_ingest_poison poison;
    } end;
    struct pp_timer *pause;
};

struct pp_s2 {
    struct pp_pipeline *p;
    struct s2_job jobs[S2_JOBS];
    struct pp_list waiting; /* entries taken, whose client has a job running, or with no job free */
    struct s2_take *taking;
    bool again, draining;
    bool alone; /* one entry at a time: so after each start, and with entries that were taken often */
    struct pp_timer *timer;
};

/* --- s2_chunk.c --- */

struct s2_chunk_size {
    size_t items;
    size_t fetchable; /* photos that are to be looked up */
};

/* Reads the job's next items into job->items and what is to be looked up into job->fetchable; photos whose
 * URL may not be fetched are answered here. PP_ECORRUPT: the entry is damaged. PP_ENOMEM. */
pp_must_check enum pp_err s2_chunk_read(struct s2_job *job, struct s2_chunk_size *size);
/* What each photo that was looked up needs. */
void s2_chunk_decide(struct s2_job *job);

#endif
