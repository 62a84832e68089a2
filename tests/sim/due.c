/* due.c: compares cancelled, replayed and superseded items with what API.md promises. */
#include "due.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "judge.h"
#include "row.h"

enum { NAME_MAX_BYTES = 160 };

struct batch {
    UT_hash_handle hh;
    bool may_cancel;    /* somebody has sent a cancel */
    bool cancelled;     /* a cancel was answered: `planned` items were in the store then */
    struct batch *from; /* the batch of which this is a replay; NULL: none, or not known yet */
    int64_t sent_ms;    /* when the replay was first sent */
    size_t unanswered;  /* requests to replay this batch (sim_due_unanswered()) that excuse no batch yet */
    bool excused;       /* see sim_due_excused() */
    uint64_t wanted;    /* number of failed photos that the replay imports again */
    struct item *items; /* with a result, the last first */
    struct batch *next_replay;
    bool complete; /* a replay whose results have come */
    char name[PP_BATCH_ID_MAX];
};

/* An item of a batch, by "BATCH ITEM". */
struct item {
    UT_hash_handle hh;
    struct item *next;    /* in batch->items */
    struct item *sibling; /* in newest->items */
    int64_t seen_ms;      /* when its result was seen */
    struct batch *batch;
    bool planned; /* it was in the store when a cancel was answered */
    bool has_result, superseded;
    uint32_t revision;
    size_t photos, failed; /* failed: failed or skipped photos */
    const char *id;        /* in name */
    char client[16], name[NAME_MAX_BYTES];
};

/* The revisions of which a result has come, by "CLIENT ITEM". */
struct newest {
    UT_hash_handle hh;
    uint32_t revision;  /* the highest one */
    struct item *items; /* of all batches */
    char name[NAME_MAX_BYTES];
};

struct sim_due {
    struct sim_fleet *f;
    struct batch *batches, *replays, *looked_at;
    struct item *items;
    struct newest *newest;
};

struct sim_due *sim_due_open(struct sim_fleet *f)
{
    struct sim_due *d = calloc(1, sizeof *d);

    pp_assert(d, "the simulator needs memory");
    d->f = f;
    return d;
}

/* --- rows --- */

static struct batch *batch_of(struct sim_due *d, const char *name)
{
    struct batch *b;

    SIM_ROW(d->batches, name, b);
    return b;
}

static struct item *find_item(const struct sim_due *d, const char *batch, const char *id)
{
    char name[NAME_MAX_BYTES];
    struct item *it;

    snprintf(name, sizeof name, "%s %s", batch, id);
    HASH_FIND_STR(d->items, name, it);
    return it;
}

static struct item *item_of(struct sim_due *d, struct batch *b, const char *id)
{
    char name[NAME_MAX_BYTES];
    struct item *it;

    snprintf(name, sizeof name, "%s %s", b->name, id);
    SIM_ROW(d->items, name, it);
    it->batch = b;
    it->id = it->name + strlen(b->name) + 1;
    return it;
}

static struct newest *newest_of(struct sim_due *d, const struct item *it)
{
    char name[NAME_MAX_BYTES];
    struct newest *n;

    snprintf(name, sizeof name, "%s %s", it->client, it->id);
    SIM_ROW(d->newest, name, n);
    return n;
}

static void report(struct sim_due *d, const char *rule, const char *client, const char *batch,
                   const char *item, const char *what)
{
    char text[400];

    snprintf(text, sizeof text, "%s: %s %s", what, batch, item ? item : "");
    sim_judge_report(
        d->f->judge, rule,
        &(struct sim_about){.client = client && *client ? client : NULL, .batch = batch, .item = item}, text);
}

static void report_item(struct sim_due *d, const char *rule, const struct item *it, const char *what)
{
    report(d, rule, it->client, it->batch->name, it->id, what);
}

/* --- cancelling --- */

void sim_due_cancel_sent(struct sim_due *d, const char *batch)
{
    batch_of(d, batch)->may_cancel = true;
}

static void see_item(void *data, const struct pp_item *it)
{
    struct sim_due *d = data;

    if (strcmp(it->batch_id, d->looked_at->name) != 0)
        return;
    item_of(d, d->looked_at, it->id)->planned = true;
    if (it->status == PP_ITEM_OPEN)
        report(d, "I1", it->client, it->batch_id, it->id, "an open item of a batch whose cancel is answered");
}

void sim_due_cancelled(struct sim_due *d, const char *batch, const char *state)
{
    struct batch *b = batch_of(d, batch);

    if (strcmp(state, "cancelled") != 0 && strcmp(state, "finished") != 0)
        report(d, "I1", NULL, batch, state, "a cancelled batch is neither cancelled nor finished");
    if (b->cancelled) /* The first answer counts. */
        return;
    b->cancelled = true;
    d->looked_at = b;
    pp_memory_store_each_item(d->f->store, see_item, d);
}

/* --- replays --- */

void sim_due_replayed(struct sim_due *d, const char *client, const char *from, const char *batch,
                      int64_t sent_ms, uint64_t photos)
{
    struct batch *b = batch_of(d, batch);

    if (b->from) {
        report(d, "I2", client, batch, from, "one batch for two replays");
        return;
    }
    b->from = batch_of(d, from);
    b->sent_ms = sent_ms;
    b->wanted = photos;
    b->next_replay = d->replays;
    d->replays = b;
}

bool sim_due_knows(const struct sim_due *d, const char *batch)
{
    const struct batch *b;

    HASH_FIND_STR(d->batches, batch, b);
    return b && b->from;
}

void sim_due_unanswered(struct sim_due *d, const char *from)
{
    batch_of(d, from)->unanswered++;
}

void sim_due_excuse(struct sim_due *d, const char *batch)
{
    batch_of(d, batch)->excused = true;
}

/* Returns true if `b` consists of items of `from` that a replay imports again. */
static bool can_replay(const struct sim_due *d, const struct batch *b, const struct batch *from)
{
    for (const struct item *it = b->items; it; it = it->next) {
        const struct item *old = find_item(d, from->name, it->id);
        if (!old || !old->has_result || old->failed == 0 || old->photos != it->photos ||
            old->revision >= it->revision || strcmp(old->client, it->client) != 0)
            return false;
    }
    return b->items;
}

bool sim_due_excused(struct sim_due *d, const char *batch)
{
    struct batch *b = batch_of(d, batch);

    for (struct batch *from = d->batches; from && !b->excused; from = from->hh.next) {
        if (from->unanswered == 0 || !can_replay(d, b, from))
            continue;
        from->unanswered--;
        b->excused = true;
    }
    return b->excused;
}

/* Returns how many photos the results of a replay have imported again. Only photos count that had
 * failed by the results of the old batch. */
static uint64_t replayed(const struct sim_due *d, const struct batch *b)
{
    uint64_t n = 0;

    for (const struct item *it = b->items; it; it = it->next) {
        const struct item *old = find_item(d, b->from->name, it->id);
        n += old ? old->failed : 0;
    }
    return n;
}

/* --- results --- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *s = json_string_value(json_object_get(object, name));
    return s ? s : "?";
}

static bool is_one_of(const char *s, const char *a, const char *b)
{
    return strcmp(s, a) == 0 || strcmp(s, b) == 0;
}

/* Reads the photos of a result. Returns false if the status is not the one that they make. */
static bool read_photos(struct item *it, const json_t *data, const char *status)
{
    const json_t *photos = json_object_get(data, "photos");
    size_t with_bytes = 0, cancelled = 0;
    bool closed = is_one_of(status, "cancelled", "superseded");

    it->photos = json_array_size(photos);
    for (size_t i = 0; i < it->photos; i++) {
        const char *outcome = text_of(json_array_get(photos, i), "outcome");
        with_bytes += is_one_of(outcome, "stored", "unchanged");
        it->failed += is_one_of(outcome, "failed", "skipped");
        cancelled += strcmp(outcome, "cancelled") == 0;
    }
    if (with_bytes + it->failed + cancelled != it->photos || (cancelled > 0 && !closed))
        return false;
    return closed || strcmp(status, with_bytes == it->photos ? "complete"
                                    : with_bytes > 0         ? "partial"
                                                             : "failed") == 0;
}

void sim_due_result(struct sim_due *d, const json_t *data)
{
    struct batch *b = batch_of(d, text_of(data, "batch_id"));
    struct item *it = item_of(d, b, text_of(data, "item"));
    const char *status = text_of(data, "status");
    bool cancelled = strcmp(status, "cancelled") == 0;

    it->has_result = true;
    it->next = b->items;
    b->items = it;
    it->superseded = strcmp(status, "superseded") == 0;
    it->revision = (uint32_t)json_integer_value(json_object_get(data, "revision"));
    snprintf(it->client, sizeof it->client, "%s", text_of(data, "client"));
    struct newest *n = newest_of(d, it);
    it->seen_ms = pp_sim_now_ms(d->f->world);
    it->sibling = n->items;
    n->items = it;
    n->revision = n->revision < it->revision ? it->revision : n->revision;
    if (!read_photos(it, data, status))
        report_item(d, "I1", it, "a result with a status that its photos do not make");
    if (cancelled && !b->may_cancel)
        report_item(d, "I1", it, "an item ends as cancelled, and nobody has cancelled its batch");
    if (b->cancelled && !it->planned && !cancelled)
        report_item(d, "I1", it, "an item that is planned after its batch was cancelled is not cancelled");
}

size_t sim_due_missing(struct sim_due *d)
{
    size_t n = 0;

    for (struct batch *b = d->replays; b; b = b->next_replay) {
        if (!b->complete)
            b->complete = replayed(d, b) >= b->wanted;
        n += !b->complete;
    }
    return n;
}

/* --- the end --- */

/* Returns true if a result of a newer list than `old` had come before the replay was sent. */
static bool was_outdated(struct sim_due *d, const struct batch *replay, const struct item *old)
{
    for (const struct item *it = newest_of(d, old)->items; it; it = it->sibling)
        if (it->revision > old->revision && it->seen_ms < replay->sent_ms)
            return true;
    return false;
}

static void check_replay(struct sim_due *d, const struct batch *b)
{
    uint64_t n = replayed(d, b);

    if (n < b->wanted)
        report(d, "I10", NULL, b->name, NULL, "a replay has no results in time for some of its photos");
    if (n > b->wanted)
        report(d, "I2", NULL, b->name, NULL, "a replay has more photos than its answer said");
    for (const struct item *it = b->items; it; it = it->next) {
        const struct item *old = find_item(d, b->from->name, it->id);
        if (!old || !old->has_result || old->failed == 0)
            report_item(d, "I2", it, "a replay has an item in which no photo had failed");
        else if (old->photos != it->photos)
            report_item(d, "I1", it, "a replayed item with another number of photos");
        else if (old->revision >= it->revision)
            report_item(d, "I2", it, "a replayed item has no new revision");
        else if (was_outdated(d, b, old))
            report_item(d, "I2", it, "a replay has an item of which there was a newer list");
    }
}

void sim_due_end(struct sim_due *d)
{
    for (const struct batch *b = d->replays; b; b = b->next_replay)
        check_replay(d, b);
    for (const struct item *it = d->items; it; it = it->hh.next)
        if (it->superseded && it->revision >= newest_of(d, it)->revision)
            report_item(d, "I1", it, "an item ends as superseded, and there is no newer list of it");
}
