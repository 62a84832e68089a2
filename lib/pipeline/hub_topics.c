/* hub_topics.c: who follows what, and how a round of events gets to all of them.
 *
 * A round is dealt out topic by topic: its events are collected once, and all who follow nothing else get the
 * same list, in one call. Those who follow several topics get theirs merged, each event once. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "pipeline/hub_internal.h"

/* --- topics --- */

static struct pp_topic *topic_get(struct pp_hub *hub, const char *key)
{
    struct pp_topic *t;
    size_t n = strlen(key);

    HASH_FIND(hh, hub->topics, key, n, t);
    if (t)
        return t;
    t = calloc(1, sizeof(*t) + n + 1);
    if (!t)
        return NULL;
    memcpy(t->key, key, n);
    pp_list_init(&t->links);
    HASH_ADD(hh, hub->topics, key, n, t);
    return t;
}

static void topic_left(struct pp_hub *hub, struct pp_topic *t)
{
    if (!pp_list_empty(&t->links) || t->dirty)
        return;
    HASH_DEL(hub->topics, t);
    free(t->round);
    free(t);
}

static bool is_linked(const struct pp_sub *sub, const char *key)
{
    for (size_t i = 0; i < sub->n_links; i++)
        if (strcmp(sub->links[i].topic->key, key) == 0)
            return true;
    return false;
}

/* One link a topic: who leaves while a topic is dealt out takes all of its links along. */
enum pp_err pp_hub_link(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys, size_t n)
{
    struct pp_topic *t = NULL;

    sub->links = calloc(n, sizeof(*sub->links));
    sub->n_links = 0;
    for (size_t i = 0; sub->links && i < n; i++) {
        if (is_linked(sub, keys[i]))
            continue;
        t = topic_get(hub, keys[i]);
        if (!t)
            break;
        struct pp_sub_link *link = &sub->links[sub->n_links++];
        *link = (struct pp_sub_link){.sub = sub, .topic = t};
        pp_list_push(&t->links, &link->in_topic);
    }
    if (sub->links && t)
        return PP_OK;
    pp_hub_unlink(hub, sub);
    return PP_ENOMEM;
}

void pp_hub_unlink(struct pp_hub *hub, struct pp_sub *sub)
{
    for (size_t i = 0; i < sub->n_links; i++) {
        pp_list_remove(&sub->links[i].topic->links, &sub->links[i].in_topic);
        topic_left(hub, sub->links[i].topic);
    }
    free(sub->links);
    sub->links = NULL;
    sub->n_links = 0;
}

/* "results" is a prefix of "results:42", by whole parts. */
static bool is_prefix(const char *prefix, const char *key)
{
    size_t n = strlen(prefix);
    return strncmp(prefix, key, n) == 0 && (key[n] == ':' || key[n] == '\0');
}

bool pp_hub_matches(const struct pp_sub *sub, const char *key)
{
    for (size_t i = 0; i < sub->n_links; i++)
        if (is_prefix(sub->links[i].topic->key, key))
            return true;
    return false;
}

/* --- a round --- */

static void collect(struct pp_topic *t, const struct pp_hub_entry *e, struct pp_list *dirty)
{
    if (!t->dirty)
        pp_list_push(dirty, &t->in_dirty);
    t->dirty = true;
    if (t->n_round == t->cap_round) {
        size_t cap = t->cap_round ? t->cap_round * 2 : 8;
        const struct pp_hub_entry **round = realloc(t->round, cap * sizeof(*round));
        t->broken = t->broken || !round;
        if (!round)
            return;
        t->round = round;
        t->cap_round = cap;
    }
    t->round[t->n_round++] = e;
    t->bytes += e->pieces[PP_SUB_SSE]->n;
}

/* To the topics of all prefixes of the key. */
static void collect_everywhere(struct pp_hub *hub, const struct pp_hub_entry *e, struct pp_list *dirty)
{
    size_t n = 0;
    do {
        struct pp_topic *t;
        n += strcspn(e->key + n, ":");
        HASH_FIND(hh, hub->topics, e->key, n, t);
        if (t)
            collect(t, e, dirty);
    } while (e->key[n++] == ':');
}

/* Several events of a text/event-stream are one, longer text. The reference is the caller's; NULL: they stay
 * as they are. */
static struct pp_piece *join(const struct pp_topic *t)
{
    size_t at = 0;
    struct pp_piece *joined = t->n_round > 1 ? pp_piece_new(t->bytes) : NULL;

    for (size_t i = 0; joined && i < t->n_round; i++) {
        const struct pp_piece *piece = t->round[i]->pieces[PP_SUB_SSE];
        memcpy(joined->bytes + at, piece->bytes, piece->n);
        at += piece->n;
    }
    return joined;
}

static void deliver(struct pp_hub *hub, struct pp_sub *sub, struct pp_piece *const *pieces, size_t n,
                    uint64_t upto)
{
    uint64_t before = sub->at;

    sub->at = upto > before ? upto : before;
    if (n == 0 || sub->events->deliver(sub, pieces, n) != PP_SUB_FULL)
        return;
    sub->at = before;
    pp_hub_fall_behind(hub, sub);
}

/* Those of the round that this one has not got yet. */
static void deliver_some(struct pp_hub *hub, struct pp_sub *sub, const struct pp_hub_entry *const *round,
                         size_t n)
{
    struct pp_piece *pieces[PP_HUB_ROUND];
    size_t k = 0, bytes = 0, max = sub->max ? sub->max : n;
    uint64_t upto = hub->tail;

    for (size_t i = 0; i < n && k < max; i++)
        if (round[i]->seq > sub->at) {
            pieces[k] = round[i]->pieces[sub->format];
            bytes += pieces[k++]->n;
            upto = k == max && i + 1 < n ? round[i]->seq : hub->tail;
        }
    if (k > 1 && bytes > PP_SUB_BYTES)
        pp_hub_fall_behind(hub, sub);
    else
        deliver(hub, sub, pieces, k, upto);
}

static int by_seq(const void *a, const void *b)
{
    const struct pp_hub_entry *const *x = a, *const *y = b;
    return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

/* One who follows several topics: once, with the events of all of them. */
static void deliver_merged(struct pp_hub *hub, struct pp_sub *sub)
{
    const struct pp_hub_entry *all[PP_HUB_ROUND];
    size_t n = 0, kept = 0;

    if (sub->at >= hub->tail) /* it has had this round */
        return;
    for (size_t i = 0; i < sub->n_links; i++) {
        const struct pp_topic *t = sub->links[i].topic;
        for (size_t k = 0; k < t->n_round && n < PP_HUB_ROUND; k++) {
            bool seen =
                false; /* in a round there are few: only topics that contain each other give one twice */
            for (size_t j = 0; j < i && !seen; j++)
                seen = is_prefix(sub->links[j].topic->key, t->round[k]->key);
            if (!seen)
                all[n++] = t->round[k];
        }
    }
    qsort(all, n, sizeof(*all), by_seq);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || all[kept - 1]->seq != all[i]->seq)
            all[kept++] = all[i];
    deliver_some(hub, sub, all, kept);
}

/* `*joined` is made when somebody needs it. */
static void deliver_joined(struct pp_hub *hub, struct pp_sub *sub, struct pp_topic *t,
                           struct pp_piece **joined)
{
    if (!*joined)
        *joined = join(t);
    if (*joined)
        deliver(hub, sub, joined, 1, hub->tail);
    else
        deliver_some(hub, sub, t->round, t->n_round);
}

static void deliver_topic(struct pp_hub *hub, struct pp_topic *t)
{
    struct pp_piece *joined = NULL;
    uint64_t first = t->n_round > 0 ? t->round[0]->seq : 0;
    bool whole = t->bytes <= PP_SUB_BYTES;

    pp_list_each (node, &t->links) {
        struct pp_sub *sub = pp_container_of(node, struct pp_sub_link, in_topic)->sub;
        if (sub->state != PP_SUB_LIVE)
            continue;
        if (t->broken)
            sub->events->failed(sub, PP_ENOMEM);
        else if (sub->n_links > 1)
            deliver_merged(hub, sub);
        else if (sub->format == PP_SUB_SSE && whole && sub->at < first && sub->max == 0)
            deliver_joined(hub, sub, t, &joined);
        else
            deliver_some(hub, sub, t->round, t->n_round);
    }
    pp_piece_unref(joined);
}

void pp_hub_fan_out(struct pp_hub *hub, size_t n)
{
    struct pp_list dirty;
    struct pp_node *node;

    if (!hub->topics)
        return;
    pp_list_init(&dirty);
    for (size_t i = hub->n - n; i < hub->n; i++)
        collect_everywhere(hub, pp_hub_entry_at(hub, i), &dirty);
    pp_list_each (it, &dirty)
        deliver_topic(hub, pp_container_of(it, struct pp_topic, in_dirty));
    while ((node = pp_list_pop(&dirty))) {
        struct pp_topic *t = pp_container_of(node, struct pp_topic, in_dirty);
        t->n_round = t->bytes = 0;
        t->dirty = t->broken = false;
        topic_left(hub, t);
    }
}
