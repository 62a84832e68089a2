/* close.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_items_close(struct pp_mg_thread *t, const char *client, const char *const *ids, size_t n,
                              enum pp_item_status status, int64_t now_ms, struct pp_mg_moved *moved,
                              struct pp_mg_closed *closed)
{
    (void)t, (void)client, (void)ids, (void)n, (void)status, (void)now_ms, (void)moved, (void)closed;
    return PP_EINVAL;
}

enum pp_err pp_mg_leave(struct pp_mg_thread *t, const char *client, const struct pp_key *keys, size_t n)
{
    (void)t, (void)client, (void)keys, (void)n;
    return PP_EINVAL;
}
