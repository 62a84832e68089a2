/* legal.c: checks the store's changes against a state of its own. */
#include "legal.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "bounds.h"
#include "common.h"
#include "judge.h"
#include "patience.h"

enum { NAME_MAX_BYTES = 96 };

struct photo_id { /* all bytes count, so unused ones are 0 */
    char client[16];
    struct pp_key key;
};

/* A photo, and its task if it has one. */
struct photo {
    UT_hash_handle hh;
    struct photo_id id;
    enum pp_task_state state; /* PP_TASK_STATE_COUNT: no task */
    uint64_t handle;
    uint32_t epoch;
    char worker[24]; /* if CLAIMED; else "" */
};

struct item {
    UT_hash_handle hh;
    enum pp_item_status status;
    char name[NAME_MAX_BYTES]; /* "CLIENT ITEM REVISION" */
};

struct sim_legal {
    struct sim_fleet *f;
    struct pp_memory_observer observer;
    struct photo *photos;
    struct item *items;
    const char *by;     /* who has made the latest change of a task; NULL: nobody */
    size_t tasks, seen; /* open tasks, and those of the store that a look has seen */
};

static const char *state_name(enum pp_task_state state)
{
    static const char *const names[] = {
#define X(id) [PP_TASK_##id] = #id,
        PP_TASK_STATES(X)
#undef X
            [PP_TASK_STATE_COUNT] = "no task"};
    return names[state];
}

static const char *or_nobody(const char *worker)
{
    return worker && *worker ? worker : "nobody";
}

static bool is_open(enum pp_task_state state)
{
    return state == PP_TASK_WAITING || state == PP_TASK_CLAIMED;
}

static struct photo *photo_of(struct sim_legal *l, const char *client, const struct pp_key *key)
{
    struct photo_id id = {.key = *key};
    struct photo *p;

    snprintf(id.client, sizeof id.client, "%s", client);
    HASH_FIND(hh, l->photos, &id, sizeof id, p);
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    pp_assert(p, "the simulator needs memory");
    p->id = id;
    p->state = PP_TASK_STATE_COUNT;
    pp_assert(PP_HASH_ADD(l->photos, &p->id, sizeof p->id, p), "the simulator needs memory");
    return p;
}

/* --- tasks --- */

static bool is_legal(const struct photo *p, const struct pp_memory_task_change *c)
{
    bool found = c->from == PP_TASK_STATE_COUNT && c->to == PP_TASK_WAITING;

#define X(before, event, after) found |= c->from == PP_TASK_##before && c->to == PP_TASK_##after;
    PP_TASK_TRANSITIONS(X)
#undef X
    bool claimed = c->to == PP_TASK_CLAIMED;
    return found && c->from == p->state && c->epoch == p->epoch + claimed && claimed == (c->worker != NULL) &&
           (c->from == PP_TASK_STATE_COUNT ? c->handle > p->handle : c->handle == p->handle);
}

/* Reports a photo that was fetched without an attempt that says so, and an attempt of a task that
 * has taken another one's outcome. */
static void check_attempt(struct sim_legal *l, const struct pp_memory_task_change *c)
{
    const struct pp_settlement *s = c->by_worker ? c->by : NULL;
    char text[200];

    if (!s || s->kind != PP_SETTLE_FINAL)
        return;
    bool fetched = s->outcome.object.type != 0 && !s->outcome.shared;
    bool fits = fetched ? s->attempt.at > 0 && s->attempt.code == 0 && s->attempt.address
                        : !s->outcome.shared || s->attempt.at == 0;
    if (fits)
        return;
    snprintf(text, sizeof text,
             "client %s: task %llu has the outcome %d, and an attempt at %lld with code %u to %s", c->client,
             (unsigned long long)c->handle, (int)s->outcome.kind, (long long)s->attempt.at,
             (unsigned)s->attempt.code, or_nobody(s->attempt.address));
    sim_judge_report(l->f->judge, "tried", &(struct sim_about){.client = c->client}, text);
}

static void on_task(void *data, const struct pp_memory_task_change *c)
{
    struct sim_legal *l = data;
    struct photo *p = photo_of(l, c->client, &c->key);
    bool stale =
        c->by_worker && p->state == PP_TASK_CLAIMED &&
        (strcmp(c->by_worker, p->worker) != 0 || c->by_epoch != p->epoch || c->by_handle != p->handle);
    const struct sim_about about = {.client = p->id.client};
    char text[400];

    if (stale) {
        snprintf(text, sizeof text,
                 "client %s: %s writes with epoch %u of task %llu, but %s holds epoch %u of task %llu",
                 c->client, c->by_worker, (unsigned)c->by_epoch, (unsigned long long)c->by_handle,
                 or_nobody(p->worker), (unsigned)p->epoch, (unsigned long long)p->handle);
        sim_judge_report(l->f->judge, "I3", &about, text);
    }
    if (!is_legal(p, c)) {
        snprintf(text, sizeof text,
                 "client %s: task %llu goes from %s with epoch %u to %s with epoch %u of %s; expected: "
                 "task %llu in %s with epoch %u of %s",
                 c->client, (unsigned long long)c->handle, state_name(c->from), (unsigned)p->epoch,
                 state_name(c->to), (unsigned)c->epoch, or_nobody(c->worker), (unsigned long long)p->handle,
                 state_name(p->state), (unsigned)p->epoch, or_nobody(p->worker));
        sim_judge_report(l->f->judge, "I9", &about, text);
    }
    check_attempt(l, c);
    sim_common_task(l->f->common, c);
    l->by = c->by_worker;
    l->tasks += is_open(c->to);
    l->tasks -= is_open(p->state);
    p->state = is_open(c->to) ? c->to : PP_TASK_STATE_COUNT;
    p->handle = c->handle;
    p->epoch = c->epoch;
    snprintf(p->worker, sizeof p->worker, "%s", c->worker ? c->worker : "");
}

/* Reports a claim whose lease ended long ago, although nothing fails any more. */
static void check_lapse(struct sim_legal *l, const struct pp_memory_task *t)
{
    enum { REAP_MS = 30000 }; /* each process with the role cron reaps once a second */
    int64_t now = pp_sim_date_ms(l->f->world);
    char text[200];

    if (t->state != PP_TASK_CLAIMED || t->lease_ms >= now - REAP_MS || !sim_judge_is_calm(l->f->judge))
        return;
    snprintf(text, sizeof text, "client %s: %s still has a task whose lease ended %lld ms ago", t->client,
             or_nobody(t->worker), (long long)(now - t->lease_ms));
    sim_judge_report(l->f->judge, "I10", &(struct sim_about){.client = t->client}, text);
}

static void see_task(void *data, const struct pp_memory_task *t)
{
    struct sim_legal *l = data;
    const struct photo *p = photo_of(l, t->client, &t->key);
    char text[200];

    l->seen++;
    check_lapse(l, t);
    if (t->worker)
        sim_bounds_claim(l->f->bounds, t->worker);
    if (p->state == t->state && p->epoch == t->epoch && !strcmp(p->worker, t->worker ? t->worker : ""))
        return;
    snprintf(text, sizeof text,
             "client %s: a task in %s with epoch %u of %s; expected: %s with epoch %u of %s", t->client,
             state_name(t->state), (unsigned)t->epoch, or_nobody(t->worker), state_name(p->state),
             (unsigned)p->epoch, or_nobody(p->worker));
    sim_judge_report(l->f->judge, "I9", &(struct sim_about){.client = p->id.client}, text);
}

void sim_legal_look(struct sim_legal *l)
{
    l->seen = 0;
    sim_bounds_claims_begin(l->f->bounds);
    pp_memory_store_each_task(l->f->store, see_task, l);
    sim_bounds_claims_end(l->f->bounds);
    if (l->seen != l->tasks)
        sim_judge_report(l->f->judge, "I9", NULL, "tasks have gone, or come, without a transition");
}

/* --- items and their photos --- */

static struct item *item_of(struct sim_legal *l, const struct pp_item *it)
{
    char name[NAME_MAX_BYTES];
    struct item *i;

    snprintf(name, sizeof name, "%s %s %u", it->client, it->id, (unsigned)it->revision);
    HASH_FIND_STR(l->items, name, i);
    if (i)
        return i;
    i = calloc(1, sizeof *i);
    pp_assert(i, "the simulator needs memory");
    memcpy(i->name, name, sizeof name);
    i->status = PP_ITEM_STATUS_COUNT;
    pp_assert(PP_HASH_ADD(l->items, i->name, strlen(i->name), i), "the simulator needs memory");
    return i;
}

static void report_item(struct sim_legal *l, const struct pp_item *it, const char *what)
{
    char text[300];

    snprintf(text, sizeof text, "%s: revision %u of item %s of client %s", what, (unsigned)it->revision,
             it->id, it->client);
    sim_judge_report(l->f->judge, "I9",
                     &(struct sim_about){.client = it->client, .batch = it->batch_id, .item = it->id}, text);
}

/* Returns true if the item may finish with its status. */
static bool fits(const struct pp_item *it)
{
    uint32_t with_bytes = 0;

    for (uint32_t i = 0; i < it->n_photos; i++) {
        enum pp_outcome_kind kind = it->photos[i].outcome.kind;
        if (kind == PP_OUTCOME_OPEN)
            return false;
        with_bytes += kind == PP_OUTCOME_STORED || kind == PP_OUTCOME_UNCHANGED;
    }
    switch (it->status) {
    case PP_ITEM_COMPLETE: return with_bytes == it->n_photos;
    case PP_ITEM_PARTIAL: return with_bytes > 0 && with_bytes < it->n_photos;
    case PP_ITEM_FAILED: return with_bytes == 0 && it->n_photos > 0;
    default: return true;
    }
}

static void on_item(void *data, const struct pp_item *it, enum pp_item_status from)
{
    struct sim_legal *l = data;
    struct item *i = item_of(l, it);
    bool is_new = from == PP_ITEM_STATUS_COUNT;

    if (from != i->status || (it->status == PP_ITEM_OPEN) != is_new || (!is_new && from != PP_ITEM_OPEN))
        report_item(l, it, "an item has another status than before, or finishes twice");
    else if (!is_new && !fits(it))
        report_item(l, it, "an item has a status that its photos do not make");
    i->status = it->status;
}

static void on_photo(void *data, const struct pp_item *it, uint32_t idx, enum pp_outcome_kind from)
{
    struct sim_legal *l = data;

    if (item_of(l, it)->status != PP_ITEM_OPEN || from != PP_OUTCOME_OPEN ||
        it->photos[idx].outcome.kind == PP_OUTCOME_OPEN)
        report_item(l, it, "a photo gets a second outcome, or none");
    sim_patience_outcome(l->f->patience, l->by, it, idx);
}

static void see_item(void *data, const struct pp_item *it)
{
    struct sim_legal *l = data;

    if (item_of(l, it)->status != it->status)
        report_item(l, it, "an item has changed its status without a transition");
}

void sim_legal_end(struct sim_legal *l)
{
    sim_legal_look(l);
    pp_memory_store_each_item(l->f->store, see_item, l);
}

struct sim_legal *sim_legal_open(struct sim_fleet *f)
{
    struct sim_legal *l = calloc(1, sizeof *l);

    pp_assert(l, "the simulator needs memory");
    l->f = f;
    l->observer = (struct pp_memory_observer){on_task, on_item, on_photo, l};
    return l;
}

const struct pp_memory_observer *sim_legal_observer(const struct sim_legal *l)
{
    return &l->observer;
}
