/* host_stats.h: how a host answers: outcomes and latencies over all clients and workers, in slices
 * of 15 minutes for 24 hours, and in a short window of the latest answers.
 *
 *   worker:  outcome of a transfer --> pp_host_batch --> notice (PP_HOST_BATCH_NUMBERS doubles)
 *   leader:  notice --> pp_host_merge() --> window (last minute or last 20 answers, if longer)
 *                                       --> open slice --> closed slices --> usual shares
 *
 * "Usual" is the median over groups of closed slices. A group is one slice, or neighbouring slices
 * that together have PP_HOST_GROUP_MIN answers, so that rarely asked hosts have usual shares, too.
 * The median ignores an outage of less than half of the time. A deviation is 1.4826 times the
 * median distance from the median (MAD), which equals the standard deviation of normally
 * distributed values (Rousseeuw, Croux: Alternatives to the Median Absolute Deviation, 1993).
 *
 * Shares: a failure is a timeout, a connection or TLS error, a 5xx or a 429; the failure share is
 * failures / answers. All other answers decide about a photo; the absent share is the share of
 * absent photos among those.
 *
 * Memory: at most 3 KiB for each host. Counters saturate. If the clock steps back, outcomes
 * count for the newest time that was seen. Times are wall time in ms. Pure; only one thread at
 * a time may use an object. */
#ifndef PHOTOPOOL_CORE_HOST_STATS_H
#define PHOTOPOOL_CORE_HOST_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pp_host_class {
    PP_HOST_OK,      /* a photo, or 304 */
    PP_HOST_HTTP,    /* failure: 5xx, 429 */
    PP_HOST_TIMEOUT, /* failure: connected, and then too slow */
    PP_HOST_CONNECT, /* failure: no connection: refused, connect timeout, DNS */
    PP_HOST_LOST,    /* failure: the connection broke */
    PP_HOST_TLS,     /* failure */
    PP_HOST_ABSENT,  /* 403, 404, 410, or not an image */
    PP_HOST_OTHER,   /* any other answer, such as a photo that is too large */
    PP_HOST_CLASSES,
    PP_HOST_NONE = PP_HOST_CLASSES /* says nothing about the host: no request was made */
};

enum {
    PP_HOST_SLICE_MS = 15 * 60 * 1000,
    PP_HOST_SLICES = 96,
    PP_HOST_WINDOW_MS = 60 * 1000,
    PP_HOST_WINDOW_MIN = 20,        /* the window has at least this many answers, if there are */
    PP_HOST_WINDOW_PHOTOS_MIN = 30, /* the same, for photos that were decided */
    PP_HOST_GROUP_MIN = 20,
    PP_HOST_KNOWN_MS = 60 * 60 * 1000, /* after this time the usual shares are known */
    PP_HOST_BATCH_NUMBERS = 13         /* numbers of a packed batch */
};

/* Outcomes in a row, up to the latest one. */
struct pp_host_runs {
    /* Connection failures since the last answer. An answer is any outcome except a failure to
     * connect, a timeout, a broken connection and a TLS error. The last three neither count nor
     * end a run. */
    uint32_t connect;
    uint32_t failed; /* failures since the last outcome that was none */
    uint32_t absent; /* absent photos since the last photo that was decided and not absent */
};

/* Outcomes of one host, summed. All zero: none. */
struct pp_host_batch {
    uint32_t count[PP_HOST_CLASSES];
    double sum_ms, sum_sq_ms; /* of the durations of all outcomes, and of their squares */
    struct pp_host_runs runs;
};

/* Returns the class of an outcome with this code of photopool/code.h; 0 is PP_HOST_OK. */
enum pp_host_class pp_host_classify(uint16_t photo_code);
/* Returns true if the class is a failure of the host. */
bool pp_host_class_failed(enum pp_host_class c);
/* Returns the name of a class, such as "timeout". Static. */
const char *pp_host_class_name(enum pp_host_class c);

/* Adds one outcome that took ms; PP_HOST_NONE adds nothing. */
void pp_host_batch_add(struct pp_host_batch *batch, enum pp_host_class c, int64_t ms);
/* Adds the outcomes of `later`, which count as later than those of `batch`. */
void pp_host_batch_append(struct pp_host_batch *batch, const struct pp_host_batch *later);
/* Returns the number of outcomes. */
uint32_t pp_host_batch_answers(const struct pp_host_batch *batch);
/* Writes the batch as numbers for a notice. */
void pp_host_batch_pack(const struct pp_host_batch *batch, double v[PP_HOST_BATCH_NUMBERS]);
/* Reads what pp_host_batch_pack() has written. Returns false, and leaves the batch empty, if a
 * number is not one that a batch can have. */
bool pp_host_batch_unpack(struct pp_host_batch *batch, const double v[PP_HOST_BATCH_NUMBERS]);

/* The latest outcomes, or those since a time. */
struct pp_host_counts {
    uint32_t answers, failures, absent;
};

/* What is usual. Shares are 0..1. */
struct pp_host_usual {
    bool known;                     /* there is an hour of history */
    uint32_t answers;               /* number of answers behind the shares, capped */
    float failed, failed_deviation; /* failure share */
    /* PP_HOST_CONNECT / (PP_HOST_CONNECT + answers as in struct pp_host_runs), over all slices */
    float connect;
    float absent;           /* absent share; 0 if no photo was decided */
    uint32_t decided;       /* number of photos behind `absent`, capped */
    float ms, ms_deviation; /* latency; the deviation is that within a slice */
};

/* A closed slice. Counts are divided by 2^shift. */
struct pp_host_slice {
    uint32_t slot : 26, shift : 6; /* slot: start of the slice / PP_HOST_SLICE_MS */
    uint16_t count[PP_HOST_CLASSES];
    uint16_t mean_ms, deviation_ms;
};

/* Outcomes of PP_HOST_STEP_S seconds. */
struct pp_host_moment {
    uint32_t at_s;
    uint16_t answers, failures, absent, mean_ms;
};
enum { PP_HOST_STEP_S = 5, PP_HOST_MOMENTS = 40 };

/* A host. All zero: nothing is known. Only host_stats.c reads the members. */
struct pp_host_stats {
    struct pp_host_slice *slices; /* oldest first; allocated as they come */
    uint8_t slice_n, slice_room, moment_n;
    struct pp_host_moment moments[PP_HOST_MOMENTS]; /* oldest first */
    int64_t now_ms;                                 /* newest time */
    int64_t open_slot;
    struct pp_host_batch open;   /* the open slice */
    struct pp_host_counts fresh; /* since pp_host_restart() */
    struct pp_host_runs runs;
    struct pp_host_usual usual;
};

/* Frees what the statistics own; they are then empty. */
void pp_host_stats_fini(struct pp_host_stats *s);
/* Adds a batch that arrived at now_ms. Without memory for a slice, the oldest slice gives way. */
void pp_host_merge(struct pp_host_stats *s, const struct pp_host_batch *batch, int64_t now_ms);
/* Closes slices that have ended, drops those of more than 24 h ago, and updates what is usual.
 * pp_host_merge() does it, too. */
void pp_host_advance(struct pp_host_stats *s, int64_t now_ms);
/* Starts a new window, new runs and new `fresh` counts; slices stay. For a breaker that changes its
 * state: what came before must not count again. */
void pp_host_restart(struct pp_host_stats *s);

/* Returns the outcomes since pp_host_restart(). */
struct pp_host_counts pp_host_fresh(const struct pp_host_stats *s);
/* Returns the outcomes of the open slice. */
struct pp_host_counts pp_host_open(const struct pp_host_stats *s);
/* Returns the answers of the last minute, or the last PP_HOST_WINDOW_MIN answers if those are
 * more. */
struct pp_host_counts pp_host_window(const struct pp_host_stats *s, int64_t now_ms);
/* The same, with at least PP_HOST_WINDOW_PHOTOS_MIN decided photos, if there are. */
struct pp_host_counts pp_host_photo_window(const struct pp_host_stats *s, int64_t now_ms);

/* What operators see of a host. */
struct pp_host_view {
    uint64_t requests;               /* of 24 h */
    uint64_t count[PP_HOST_CLASSES]; /* of 24 h */
    double error_share;              /* failure share of the window; 0 if it is empty */
    double ms;                       /* mean latency of the window; 0 if it is empty */
    struct pp_host_usual usual;
};
struct pp_host_view pp_host_view(const struct pp_host_stats *s, int64_t now_ms);

#endif
