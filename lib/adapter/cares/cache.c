/* cache.c: the cache of names and their answers: a hash table, and a list of idle names, least
 * recently used first.
 *
 * When the cache holds max_entries names, a new name replaces the least recently used idle name. If
 * no name is idle, the table grows; each of its names then has a query in flight. */
#include <stdlib.h>
#include <string.h>

#include "adapter/cares/internal.h"
#include "base/check.h"

struct pp_name *pp_names_find(struct pp_names *names, const char *host)
{
    struct pp_name *name;

    HASH_FIND_STR(names->by_host, host, name);
    return name;
}

struct pp_name *pp_names_add(struct pp_resolver_cares *r, const char *host)
{
    struct pp_names *names = &r->names;
    size_t n = strlen(host);
    struct pp_name *name = calloc(1, sizeof(*name) + n + 1);

    if (!name)
        return NULL;
    while (HASH_COUNT(names->by_host) >= r->o.max_entries && !pp_list_empty(&names->by_age))
        pp_names_drop(names, pp_container_of(names->by_age.head.next, struct pp_name, age));
    memcpy(name->host, host, n + 1);
    name->r = r;
    pp_list_init(&name->wanted);
    if (PP_HASH_ADD(names->by_host, name->host, n, name))
        return name;
    free(name);
    return NULL;
}

void pp_names_drop(struct pp_names *names, struct pp_name *name)
{
    pp_assert(name->state == PP_NAME_IDLE, "a name is freed during its look-up");
    pp_assert(pp_list_empty(&name->wanted), "a name is freed while queries wait for it");
    if (name->age.next)
        pp_list_remove(&names->by_age, &name->age);
    HASH_DEL(names->by_host, name);
    free(name->addrs);
    free(name);
}

void pp_names_used(struct pp_names *names, struct pp_name *name)
{
    pp_assert(name->state == PP_NAME_IDLE, "only idle names are ordered by use");
    if (name->age.next)
        pp_list_remove(&names->by_age, &name->age);
    pp_list_push(&names->by_age, &name->age);
}

void pp_names_fini(struct pp_names *names)
{
    struct pp_name *name, *next;

    HASH_ITER (hh, names->by_host, name, next)
        pp_names_drop(names, name);
}
