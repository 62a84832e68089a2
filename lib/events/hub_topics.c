/* hub_topics.c: keeps the topics, and delivers a round of events (those of one read) to all live
 * subscribers.
 *
 * A round is delivered topic by topic. The events of a topic are collected once, and each
 * subscriber of only this topic gets the same list, in one call. A subscriber of several topics
 * gets the events of all of them merged, each event once.
 *
 * Invariant: a topic exists while it has a subscriber or the round has events for it. */
#include <stdlib.h>
#include <string.h>

#include "base/ledger.h"
#include "events/hub_internal.h"

/* --- topics and their subscribers --- */

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
    if (PP_HASH_ADD(hub->topics, t->key, n, t))
        return t;
    free(t);
    return NULL;
}

static void free_if_unused(struct pp_hub *hub, struct pp_topic *t)
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

/* Each subscriber pays for the topics of its keys as if nobody shared them, and for what malloc()
 * and the hash table add. */
size_t pp_hub_memory(const char *const *keys, size_t n_keys)
{
    size_t n = 0;

    for (size_t i = 0; i < n_keys; i++)
        n += sizeof(struct pp_sub_link) + sizeof(struct pp_topic) + strlen(keys[i]) + 48;
    return n;
}

/* Links the subscriber to the topic of each key. Each topic gets one link, even if a key is
 * repeated. The links belong to the subscriber: while a topic is delivered, deliver() may end the
 * subscriber and free its links. */
enum pp_err pp_hub_link(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys, size_t n)
{
    struct pp_topic *t = NULL;

    pp_assert(sub->state == PP_SUB_NEW, "a subscriber subscribes once");
    pp_assert(n > 0 && n <= PP_SUB_KEYS_MAX, "no keys, or too many");
    size_t memory = pp_hub_memory(keys, n);
    if (sub->memory && !pp_account_take(sub->memory, memory))
        return PP_EFULL;
    sub->charged = sub->memory ? memory : 0;
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
        free_if_unused(hub, sub->links[i].topic);
    }
    free(sub->links);
    sub->links = NULL;
    sub->n_links = 0;
    if (sub->charged > 0)
        pp_account_give(sub->memory, sub->charged);
    sub->charged = 0;
}

/* Returns true if `prefix` consists of the first parts of `key`: "results" is a prefix of
 * "results:42". */
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

void pp_hub_set_state(struct pp_hub *hub, struct pp_sub *sub, enum pp_sub_state state)
{
    static const bool legal[PP_SUB_ENDED + 1][PP_SUB_ENDED + 1] = {
        [PP_SUB_NEW] = {[PP_SUB_CATCHING_UP] = true},
        [PP_SUB_CATCHING_UP] = {[PP_SUB_LIVE] = true, [PP_SUB_ENDED] = true},
        [PP_SUB_LIVE] = {[PP_SUB_CATCHING_UP] = true, [PP_SUB_ENDED] = true},
    };
    pp_assert(legal[sub->state][state], "a transition that no subscriber makes");

    if (sub->state != PP_SUB_NEW)
        pp_list_remove(sub->state == PP_SUB_LIVE ? &hub->live : &hub->behind, &sub->in_hub);
    sub->state = state;
    if (state != PP_SUB_ENDED)
        pp_list_push(state == PP_SUB_LIVE ? &hub->live : &hub->behind, &sub->in_hub);
}

/* --- delivering the events of a round to live subscribers --- */

/* Adds the i-th oldest event of the ring to a topic. */
static void collect(struct pp_topic *t, struct pp_ring *ring, size_t i, struct pp_list *dirty)
{
    const struct pp_ring_entry *e = pp_ring_at(ring, i);

    if (!t->dirty)
        pp_list_push(dirty, &t->in_dirty);
    t->dirty = true;
    t->broken = t->broken || !pp_ring_encode(ring, i);
    if (t->broken)
        return;
    if (t->n_round == t->cap_round) {
        size_t cap = t->cap_round ? t->cap_round * 2 : 8;
        const struct pp_ring_entry **round = realloc(t->round, cap * sizeof(*round));
        t->broken = !round;
        if (t->broken)
            return;
        t->round = round;
        t->cap_round = cap;
    }
    pp_assert(t->n_round < PP_HUB_ROUND, "a topic has more events than the round");
    t->round[t->n_round++] = e;
    t->bytes += e->pieces[PP_SUB_SSE]->n;
}

/* Adds the i-th oldest event of the ring to the topics of all prefixes of its key. */
static void collect_everywhere(struct pp_hub *hub, size_t i, struct pp_list *dirty)
{
    const struct pp_ring_entry *e = pp_ring_at(&hub->ring, i);
    size_t n = 0;
    do {
        struct pp_topic *t;
        n += strcspn(e->key + n, ":");
        HASH_FIND(hh, hub->topics, e->key, n, t);
        if (t)
            collect(t, &hub->ring, i, dirty);
    } while (e->key[n++] == ':');
}

/* Joins the events of a topic into one piece of text/event-stream. Returns NULL if there is only
 * one event, or no memory; then the events are delivered one by one. */
static struct pp_piece *join(const struct pp_topic *t)
{
    size_t at = 0;
    struct pp_piece *joined = t->n_round > 1 ? pp_piece_new(t->bytes) : NULL;

    for (size_t i = 0; joined && i < t->n_round; i++) {
        const struct pp_piece *piece = t->round[i]->pieces[PP_SUB_SSE];
        memcpy(joined->bytes + at, piece->bytes, piece->n);
        at += piece->n;
    }
    pp_assert(!joined || at == joined->n, "the bytes of a round do not add up");
    return joined;
}

enum pp_sub_verdict pp_hub_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n,
                                   uint64_t upto)
{
    uint64_t before = sub->at;

    sub->at = upto;
    enum pp_sub_verdict verdict = n > 0 ? sub->events->deliver(sub, pieces, n) : PP_SUB_TAKEN;
    if (verdict == PP_SUB_FULL) {
        sub->at = before;
        sub->full = true;
    }
    return verdict;
}

/* Delivers to a live subscriber. If the subscriber does not take the pieces, it goes back to
 * catching up, from the number that it has reached. */
static void deliver(struct pp_hub *hub, struct pp_sub *sub, struct pp_piece *const *pieces, size_t n,
                    uint64_t upto)
{
    if (pp_hub_deliver(sub, pieces, n, upto > sub->at ? upto : sub->at) == PP_SUB_FULL)
        pp_hub_set_state(hub, sub, PP_SUB_CATCHING_UP);
}

/* Delivers the events of the round that this subscriber does not have yet. */
static void deliver_some(struct pp_hub *hub, struct pp_sub *sub, const struct pp_ring_entry *const *round,
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
        pp_hub_set_state(hub, sub, PP_SUB_CATCHING_UP);
    else
        deliver(hub, sub, pieces, k, upto);
}

static int by_seq(const void *a, const void *b)
{
    const struct pp_ring_entry *const *x = a, *const *y = b;
    return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

/* When the first topic of a subscriber is delivered, delivers the events of all its topics,
 * merged. */
static void deliver_merged(struct pp_hub *hub, struct pp_sub *sub)
{
    const struct pp_ring_entry *all[PP_HUB_ROUND];
    size_t n = 0;

    if (sub->at >= hub->tail) /* the subscriber got this round already, with an earlier topic */
        return;
    for (size_t i = 0; i < sub->n_links; i++) {
        const struct pp_topic *t = sub->links[i].topic;
        for (size_t k = 0; k < t->n_round && n < PP_HUB_ROUND; k++) {
            bool seen = false; /* an earlier topic of the subscriber has this event too */
            for (size_t j = 0; j < i && !seen; j++)
                seen = is_prefix(sub->links[j].topic->key, t->round[k]->key);
            if (!seen)
                all[n++] = t->round[k];
        }
    }
    qsort(all, n, sizeof(*all), by_seq);
    deliver_some(hub, sub, all, n);
}

/* Delivers the events of a topic as one piece. The first call makes the piece `*joined`; the calls
 * for the topic's other subscribers use it again. */
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

    pp_assert(n <= hub->ring.n, "a round is longer than the ring");
    if (!hub->topics)
        return;
    pp_list_init(&dirty);
    for (size_t i = hub->ring.n - n; i < hub->ring.n; i++)
        collect_everywhere(hub, i, &dirty);
    pp_list_each (it, &dirty)
        deliver_topic(hub, pp_container_of(it, struct pp_topic, in_dirty));
    while ((node = pp_list_pop(&dirty))) {
        struct pp_topic *t = pp_container_of(node, struct pp_topic, in_dirty);
        t->n_round = t->bytes = 0;
        t->dirty = t->broken = false;
        free_if_unused(hub, t);
    }
}
