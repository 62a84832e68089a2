/* filter_answer.h: what the filter of known photos has said of a photo, for metrics. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_FILTER_ANSWER_H
#define PHOTOPOOL_PIPELINE_COMMON_FILTER_ANSWER_H

/* The columns: X(NAME, label in metrics). */
#define PP_FILTER_TABLE(X)                                                   \
    X(ABSENT, "absent")   /* the store has no record, so it was not asked */ \
    X(PRESENT, "present") /* the store was asked */                          \
    X(UNKNOWN, "unknown") /* the filter was incomplete: the store was asked */

enum pp_filter_answer {
#define X(name, label) PP_FILTER_##name,
    PP_FILTER_TABLE(X)
#undef X
        PP_FILTER_ANSWERS
};

#endif
