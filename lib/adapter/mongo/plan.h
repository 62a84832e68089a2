/* plan.h: what the files of planning share. plan.c: the steps; plan_items.c: items; ensure.c: tasks. */
#ifndef PP_ADAPTER_MONGO_PLAN_H
#define PP_ADAPTER_MONGO_PLAN_H

#include "run.h"

/* An item of the chunk. */
struct pp_mg_plan_row {
    struct pp_plan_item *item;
    char *id;        /* of the document that it is, or becomes */
    uint32_t newest; /* revision before; 0: none */
    bool newest_open;
    bool repeated;       /* the batch has it already */
    bool inserted;       /* by this call */
    struct pp_key *open; /* of its photos, each once */
    size_t n_open;
    enum pp_item_status status;
    int64_t seq; /* of one that ended at once: written without a guard */
    bool late;   /* a reader may have passed that before it was there */
};

/* Those who plan the same items at once meet in each try, and one of them gets through. */
enum { PP_MG_PLAN_TRIES = 40 };

struct pp_mg_planning {
    struct pp_mg_thread *t;
    struct pp_store_plan *r;
    struct pp_mg_plan_row *rows;
    struct pp_mg_plan_row **by_name; /* the rows in order of item ids */
    bool begun;                      /* some of it may be planned already */
    bool planned;                    /* the batch had been planned to its end */
    bool cancelled;
    int64_t numbered;                          /* numbers of the batch's items below this index are right */
    struct pp_mg_seq blocks[PP_MG_PLAN_TRIES]; /* of what was inserted; open until that is written down */
    size_t n_blocks;
    int64_t due[PP_QUEUES]; /* of what was opened, by queue; INT64_MAX: nothing */
    struct pp_mg_moved moved;
};

/* --- plan_items.c --- */

/* Inserts the revisions that are not there, and fills the rows of those that are. */
pp_must_check enum pp_err pp_mg_plan_items(struct pp_mg_planning *p);
/* The newest revisions; before the batch is marked as begun. */
pp_must_check enum pp_err pp_mg_plan_newest(struct pp_mg_planning *p);

/* Where the rows of the item begin in by_name. */
size_t pp_mg_plan_first(const struct pp_mg_planning *p, const char *name);

/* --- ensure.c --- */

/* Every open photo of the rows has a task. */
pp_must_check enum pp_err pp_mg_plan_ensure(struct pp_mg_planning *p);

#endif
