/* hand_back.h: why a transfer was handed back: it ended on our side, so its task is fetched again,
 * and the attempt does not count. To add a reason, add a row. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_HAND_BACK_H
#define PHOTOPOOL_PIPELINE_COMMON_HAND_BACK_H

/* The columns: X(NAME, label in metrics). */
#define PP_BACK_TABLE(X)      \
    X(NOT, "")                \
    X(BLOBS, "blob_store")    \
    X(SPACE, "disk_space")    \
    X(FILES, "descriptors")   \
    X(MEMORY, "memory")       \
    X(SLOT, "slot")           \
    X(TIER, "tier")           \
    X(SLOW_HOST, "slow_host") \
    X(HOST, "host_open")      \
    X(FULL_HOST, "host_full") \
    X(STOPPING, "stopping")

enum pp_back {
#define X(name, label) PP_BACK_##name,
    PP_BACK_TABLE(X)
#undef X
        PP_BACK_REASONS
};

#endif
