/* post_places.c: decides which endpoint sends the next post. */
#include "pipeline/deliver/post_places.h"

#include "core/place.h"

void pp_post_places_init(struct pp_post_places *p)
{
    *p = (struct pp_post_places){.used = 0};
    pp_list_init(&p->first);
    pp_list_init(&p->others);
}

/* Returns the list in which the endpoint waits, if it waits. */
static struct pp_list *list_of(struct pp_post_places *p, const struct pp_post_user *u)
{
    return u->mine == 0 ? &p->first : &p->others;
}

void pp_post_places_want(struct pp_post_places *p, struct pp_post_user *u)
{
    if (!u->node.next)
        pp_list_push(list_of(p, u), &u->node);
}

void pp_post_places_leave(struct pp_post_places *p, struct pp_post_user *u)
{
    if (u->node.next)
        pp_list_remove(list_of(p, u), &u->node);
}

struct pp_post_user *pp_post_places_next(struct pp_post_places *p, size_t limit)
{
    if (p->used >= limit)
        return NULL;
    struct pp_node *first = pp_list_pop(&p->first);
    if (first)
        return pp_container_of(first, struct pp_post_user, node);
    /* The loop passes over few: while a place is free, only who has PP_PLACE_SHARE places can be
     * refused another one. */
    pp_list_each (node, &p->others) {
        struct pp_post_user *u = pp_container_of(node, struct pp_post_user, node);
        if (!pp_place_allowed(u->mine, p->used, limit))
            continue;
        pp_list_remove(&p->others, node);
        return u;
    }
    return NULL;
}

void pp_post_places_take(struct pp_post_places *p, struct pp_post_user *u)
{
    pp_assert(!u->node.next, "an endpoint takes a place before its turn");
    u->mine++;
    p->used++;
}

void pp_post_places_give(struct pp_post_places *p, struct pp_post_user *u)
{
    bool waits = u->node.next;

    pp_assert(u->mine > 0 && p->used > 0, "more posts ended than were begun");
    pp_post_places_leave(p, u);
    u->mine--;
    p->used--;
    if (waits)
        pp_post_places_want(p, u);
}
