/* ask.c: asks who fetches the URLs of a cycle's tasks (sharing.h). */
#include "photopool/task_rules.h"
#include "pipeline/claim/claim_internal.h"

/* Returns true if the task may share. A client's own headers may change the host's answer, so such
 * a task does not. A suspect may crash its worker; nobody should wait for it. A probe shows whether
 * its host is up again. */
static bool may_share(const struct pp_claimer *claimer, const struct pp_task *task)
{
    const struct claim_client *c = claim_client_find(claimer, task->client);

    return c && !c->settings.headers && !pp_task_suspect(task->losses) && task->wait_until_ms == 0;
}

bool claim_ask(struct claim_cycle *cy, void (*then)(void *cy))
{
    struct pp_claimer *claimer = cy->claimer;
    struct pp_claim *claim = cy->memory;
    size_t n = claim ? cy->claim.n : 0;

    if (!claimer->share || n == 0)
        return false;
    claim->shares = pp_arena_array(&claim->arena, n, sizeof(*claim->shares));
    for (size_t i = 0; claim->shares && i < n; i++)
        if (may_share(claimer, &cy->claim.tasks[i]))
            pp_sharing_init(&claim->shares[i], &cy->claim.tasks[i], &claim->arena);
    return claim->shares && pp_sharing_ask(claimer->share, claim->shares, n, then, cy);
}
