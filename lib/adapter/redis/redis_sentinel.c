/* redis_sentinel.c: asks sentinels where the master is, as "Guidelines for Redis clients with
 * support for Redis Sentinel" says: the sentinel names the master, and ROLE of the named server
 * confirms it, because a sentinel may be late. The line asks again at each attempt to connect. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

/* Reads [host, port] from the answer. */
static bool read_place(const struct redisReply *reply, struct pp_redis_place *out)
{
    if (!pp_redis_is(reply, "tt"))
        return false;
    const char *host = reply->element[0]->str, *digits = reply->element[1]->str;
    char *end;
    long port = strtol(digits, &end, 10);
    if (!host[0] || strlen(host) >= sizeof out->host || *end || port < 1 || port > UINT16_MAX)
        return false;
    snprintf(out->host, sizeof out->host, "%s", host);
    out->port = (uint16_t)port;
    return true;
}

const char *pp_redis_sentinel_read(const struct pp_redis_address *home, const struct redisReply *reply,
                                   struct pp_redis_place *master, char why[PP_REDIS_WHY_MAX])
{
    if (read_place(reply, master))
        return NULL;
    if (reply->type == REDIS_REPLY_ERROR)
        snprintf(why, PP_REDIS_WHY_MAX, "%s", reply->str);
    else
        snprintf(why, PP_REDIS_WHY_MAX, "the sentinel knows no master called %.100s", home->master);
    return why;
}

bool pp_redis_sentinel_ask(const struct pp_redis_address *home, struct redisAsyncContext *ac,
                           redisCallbackFn *on_named)
{
    const char *login[] = {"AUTH", home->user, home->password},
               *ask[] = {"SENTINEL", "get-master-addr-by-name", home->master};
    bool ok = true;
    pp_assert(home->n_sentinels > 0 && home->master[0], "a master without a name is asked for");
    if (home->password[0] && !home->user[0])
        login[1] = home->password;
    /* Sentinels may have the password of the servers, or none; one without a password refuses AUTH,
     * and answers all the same. So nobody reads the answer to AUTH. */
    if (home->password[0])
        ok = redisAsyncCommandArgv(ac, NULL, NULL, home->user[0] ? 3 : 2, login, NULL) == REDIS_OK;
    return ok && redisAsyncCommandArgv(ac, on_named, NULL, 3, ask, NULL) == REDIS_OK;
}

const char *pp_redis_not_master(const struct redisReply *role, char why[160])
{
    const char *is = pp_redis_is(role, "t") ? role->element[0]->str : "nothing";
    if (strcmp(is, "master") == 0)
        return NULL;
    snprintf(why, 160, "not the master (ROLE says %.20s)", is);
    return why;
}
