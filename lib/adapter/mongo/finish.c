/* finish.c: not written yet. */
#include "run.h"

enum pp_err pp_mg_finish(struct pp_mg_thread *t, const struct pp_mg_answer *answers, size_t n, int64_t now_ms,
                         struct pp_mg_moved *moved)
{
    (void)t, (void)answers, (void)n, (void)now_ms, (void)moved;
    return PP_EINVAL;
}

struct pp_batch_delta *pp_mg_moved_batch(struct pp_mg_moved *moved, const char *batch, const char *client)
{
    (void)moved, (void)batch, (void)client;
    return NULL;
}
