/* stream.c: the record of all events that the log has taken, and consumers' places in it.
 *
 * Invariant: the record is in ascending order of the numbers, also across losses of the log. */
#include "stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "judge.h"

enum { UNDO_MS = 60000 };

struct entry {
    UT_hash_handle hh; /* by id; only the first event of a result is in the table */
    uint64_t seq;
    char key[PP_EVENT_KEY_MAX];
    char *data;
    size_t data_n;
    char id[64]; /* of the result; "": the event has none */
};

struct sim_stream {
    struct sim_fleet *f;
    struct entry **entries;
    size_t n, cap;
    struct entry *by_id;
    size_t compared;   /* this many messages of the broker were compared */
    int64_t forgot_ms; /* when the log lost data last; 0: never */
};

struct sim_stream *sim_stream_open(struct sim_fleet *f)
{
    struct sim_stream *s = calloc(1, sizeof *s);

    pp_assert(s, "the simulator needs memory");
    s->f = f;
    return s;
}

void sim_stream_report(struct sim_stream *s, const struct sim_place *p, const char *what, uint64_t number)
{
    char text[300];

    snprintf(text, sizeof text, "%s: %s, number %" PRIu64 ", the consumer had all up to %" PRIu64, p->name,
             what, number, p->known ? p->at : 0);
    sim_judge_report(s->f->judge, "events", NULL, text);
}

/* --- the record --- */

/* Finds the id of a result, which is among its first members. */
static void find_id(const struct pp_event *e, char *out, size_t cap)
{
    enum { HEAD = 64 };
    static const char name[] = "\"id\":\"";
    const char *at = memmem(e->data, e->data_n < HEAD ? e->data_n : HEAD, name, sizeof name - 1);
    size_t n = 0;

    if (at && strcmp(e->type, "photopool.item.finished") == 0)
        for (at += sizeof name - 1; n + 1 < cap && at + n < e->data + e->data_n && at[n] != '"'; n++)
            out[n] = at[n];
    out[n] = '\0';
}

static void compare_payloads(struct sim_stream *s, struct entry *e)
{
    struct entry *first;

    HASH_FIND_STR(s->by_id, e->id, first);
    if (!first)
        pp_assert(PP_HASH_ADD(s->by_id, e->id, strlen(e->id), e), "the simulator needs memory");
    else if (first->data_n != e->data_n || memcmp(first->data, e->data, e->data_n) != 0)
        sim_judge_report(s->f->judge, "I2", NULL, "one id with two payloads among the events");
}

void sim_stream_appended(struct sim_stream *s, const struct pp_event *from)
{
    if (s->f->swarm.readers == 0)
        return;
    struct entry *e = calloc(1, sizeof *e);
    char *data = malloc(from->data_n + 1);
    pp_assert(e && data, "the simulator needs memory");
    e->seq = from->seq;
    e->data = memcpy(data, from->data, from->data_n);
    e->data_n = from->data_n;
    snprintf(e->key, sizeof e->key, "%s", from->key);
    find_id(from, e->id, sizeof e->id);
    if (e->id[0])
        compare_payloads(s, e);
    if (s->n > 0 && s->entries[s->n - 1]->seq >= e->seq) {
        sim_judge_report(s->f->judge, "events", NULL, "the log gives a number twice");
        return;
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 1024;
        s->entries = realloc(s->entries, s->cap * sizeof *s->entries);
        pp_assert(s->entries, "the simulator needs memory");
    }
    s->entries[s->n++] = e;
}

void sim_stream_forgot(struct sim_stream *s)
{
    s->forgot_ms = pp_sim_now_ms(s->f->world);
}

/* --- places --- */

static bool follows(const struct sim_place *p, const struct entry *e)
{
    for (size_t i = 0; i < p->n_keys; i++) {
        size_t n = strlen(p->keys[i]);
        if (strncmp(p->keys[i], e->key, n) == 0 && (e->key[n] == ':' || e->key[n] == '\0'))
            return true;
    }
    return false;
}

/* Moves the place of a consumer that got nothing of `at`..`before` - 1, although it got what comes
 * behind. */
static void move_to(struct sim_stream *s, struct sim_place *p, uint64_t before)
{
    for (; p->next < s->n && s->entries[p->next]->seq < before; p->next++)
        if (p->known && follows(p, s->entries[p->next]))
            sim_stream_report(s, p, "an event is skipped without a gap", s->entries[p->next]->seq);
}

static void arrive(struct sim_stream *s, struct sim_place *p, uint64_t at)
{
    p->at = at;
    p->known = true;
    while (p->next < s->n && s->entries[p->next]->seq <= at)
        p->next++;
    pp_sim_hash_add(s->f->world, at);
}

/* Returns true if the text is that of the event: its data are at the end. */
static bool is_text_of(const struct entry *e, const char *json, size_t n)
{
    static const char name[] = "\"data\":";
    size_t tail = sizeof name - 1 + e->data_n + 1;

    return n > tail && memcmp(json + n - tail, name, sizeof name - 1) == 0 &&
           memcmp(json + n - 1 - e->data_n, e->data, e->data_n) == 0;
}

uint64_t sim_stream_event(struct sim_stream *s, struct sim_place *p, const char *json, size_t n)
{
    static const char head[] = "{\"seq\":";
    uint64_t seq = n > sizeof head ? strtoull(json + sizeof head - 1, NULL, 10) : 0;

    if (p->known && seq <= p->at) {
        sim_stream_report(s, p, "a number that does not ascend", seq);
        return seq;
    }
    move_to(s, p, seq);
    const struct entry *e = p->next < s->n ? s->entries[p->next] : NULL;
    if (!e || e->seq != seq)
        sim_stream_report(s, p, "an event that the log has not taken", seq);
    else if (!is_text_of(e, json, n))
        sim_stream_report(s, p, "an event with another payload", seq);
    else if (!follows(p, e))
        sim_stream_report(s, p, "an event of a key that the consumer does not follow", seq);
    arrive(s, p, seq);
    return seq;
}

void sim_stream_gap(struct sim_stream *s, struct sim_place *p, uint64_t from, uint64_t to)
{
    int64_t now = pp_sim_now_ms(s->f->world);

    if (from > to || (p->known && from <= p->at)) {
        sim_stream_report(s, p, "a gap over numbers that the consumer has", from);
        return;
    }
    if ((s->forgot_ms == 0 || now - s->forgot_ms > UNDO_MS) &&
        pp_memory_event_log_has(s->f->events, from, to))
        sim_stream_report(s, p, "a gap over events that the log has", from);
    move_to(s, p, from);
    arrive(s, p, to);
}

void sim_stream_last(struct sim_stream *s, struct sim_place *p, uint64_t last)
{
    if (p->known && last < p->at) {
        sim_stream_report(s, p, "a last number that is below an earlier one", last);
        return;
    }
    move_to(s, p, last + 1);
    arrive(s, p, last);
}

void sim_stream_begin(struct sim_stream *s, struct sim_place *p, uint64_t at)
{
    p->next = 0;
    arrive(s, p, at);
}

bool sim_stream_is_behind(const struct sim_stream *s, const struct sim_place *p)
{
    for (size_t i = p->next; p->known && i < s->n; i++)
        if (follows(p, s->entries[i]))
            return true;
    return false;
}

/* --- the broker's results --- */

size_t sim_stream_missing(struct sim_stream *s)
{
    size_t n = pp_memory_broker_count(s->f->broker);

    for (; s->f->swarm.readers > 0 && s->compared < n; s->compared++) {
        const struct pp_memory_accepted *m = pp_memory_broker_at(s->f->broker, s->compared);
        const struct entry *e;
        HASH_FIND_STR(s->by_id, m->id, e);
        if (!e)
            return n - s->compared;
        if (e->data_n != m->body_n || memcmp(e->data, m->body, m->body_n) != 0)
            sim_judge_report(s->f->judge, "I2", &(struct sim_about){.client = m->client},
                             "one id with two payloads, at the broker and among the events");
    }
    return 0;
}

void sim_stream_end(struct sim_stream *s)
{
    if (sim_stream_missing(s) > 0)
        sim_judge_report(s->f->judge, "I10", NULL, "a result is not among the events in time");
}
