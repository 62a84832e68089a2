/* judge.c: compares what callers were promised with what they got. */
#include "judge.h"

#include <jansson.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

enum { NAME_MAX_BYTES = 160, REPORTS_MAX = 20 };

/* A promised result, by "BATCH ITEM". */
struct promised {
    UT_hash_handle hh;
    unsigned photos;
    bool kept;
    char client[16];
    char name[NAME_MAX_BYTES];
};

/* A result that has reached the broker, by its id. */
struct result {
    UT_hash_handle hh;
    size_t at; /* its place at the broker */
    char id[NAME_MAX_BYTES];
};

struct sim_judge {
    struct sim_fleet *f;
    struct promised *promised;
    struct result *results;
    size_t n_promised, n_kept, seen;
    struct pp_buf verdict, events;
    unsigned reports, most_events;
    struct sim_first first;
};

struct sim_judge *sim_judge_open(struct sim_fleet *f)
{
    struct sim_judge *j = calloc(1, sizeof *j);

    pp_assert(j, "the simulator needs memory");
    j->f = f;
    j->most_events = 30;
    pp_buf_init(&j->verdict, 1 << 20);
    pp_buf_init(&j->events, 1 << 20);
    return j;
}

/* Notes what led to the first violation. */
static void note_first(struct sim_judge *j, const char *rule, const struct sim_about *about)
{
    struct sim_first *first = &j->first;
    static const struct sim_about nobody;
    const struct sim_about *a = about ? about : &nobody;

    first->at_us = pp_sim_now_us(j->f->world);
    sim_note_name(first->rule, sizeof first->rule, rule);
    sim_note_name(first->client, sizeof first->client, a->client ? a->client : "");
    sim_note_name(first->batch, sizeof first->batch, a->batch ? a->batch : "");
    sim_note_name(first->item, sizeof first->item, a->item ? a->item : "");
    sim_note_name(first->process, sizeof first->process, a->process ? a->process : "");
    sim_trace_print(j->f->trace, about, j->most_events, &j->events);
}

void sim_judge_report(struct sim_judge *j, const char *rule, const struct sim_about *about, const char *text)
{
    if (j->reports == 0)
        note_first(j, rule, about);
    sim_trace_note(j->f->trace, SIM_NOTE_BROKEN, rule);
    if (j->reports++ < REPORTS_MAX)
        pp_buf_printf(&j->verdict, "%s at %.3f s: %s\n", rule, (double)pp_sim_now_us(j->f->world) / 1e6,
                      text);
}

static void report(struct sim_judge *j, const char *rule, const char *what, const struct sim_about *about,
                   const char *name)
{
    char text[400];
    snprintf(text, sizeof text, "%s: %s", what, name);
    sim_judge_report(j, rule, about, text);
}

/* Reports what is wrong with a promised result. */
static void report_promise(struct sim_judge *j, const char *rule, const char *what, const struct promised *p)
{
    char batch[NAME_MAX_BYTES];
    const char *item = p->name + strcspn(p->name, " ");

    snprintf(batch, sizeof batch, "%.*s", (int)(item - p->name), p->name);
    report(j, rule, what,
           &(struct sim_about){.client = p->client, .batch = batch, .item = item + (*item == ' ')}, p->name);
}

static void note_accepted(struct sim_judge *j, const char *client, const char *batch)
{
    struct sim_note *note = sim_trace_note(j->f->trace, SIM_NOTE_POST, "accepted");

    sim_note_name(note->to, sizeof note->to, "callers");
    note->arrived_us = note->ended_us = note->at_us;
    sim_note_word(note, "batch");
    sim_note_word(note, batch);
    sim_note_word(note, "client");
    sim_note_word(note, client);
}

void sim_judge_accepted(struct sim_judge *j, const struct sim_promise *promise, const char *answer, size_t n)
{
    json_t *root = json_loadb(answer, n, 0, NULL);
    const char *batch = json_string_value(json_object_get(root, "batch_id"));
    json_int_t accepted = json_integer_value(json_object_get(root, "accepted"));

    if (!batch || accepted != promise->n)
        report(j, "I1", "a right batch is not accepted whole",
               &(struct sim_about){.client = promise->client, .batch = batch},
               batch ? batch : "(no batch_id)");
    if (batch)
        note_accepted(j, promise->client, batch);
    for (unsigned i = 0; batch && i < promise->n; i++) {
        struct promised *p = calloc(1, sizeof *p);
        pp_assert(p, "the simulator needs memory");
        p->photos = promise->items[i].photos;
        snprintf(p->client, sizeof p->client, "%s", promise->client);
        snprintf(p->name, sizeof p->name, "%s %s", batch, promise->items[i].id);
        pp_assert(PP_HASH_ADD(j->promised, p->name, strlen(p->name), p), "the simulator needs memory");
        j->n_promised++;
    }
    json_decref(root);
}

/* --- results --- */

static void check_promise(struct sim_judge *j, const json_t *data)
{
    char name[NAME_MAX_BYTES];
    struct promised *p;
    size_t photos = json_array_size(json_object_get(data, "photos"));

    snprintf(name, sizeof name, "%s %s", json_string_value(json_object_get(data, "batch_id")),
             json_string_value(json_object_get(data, "item")));
    HASH_FIND_STR(j->promised, name, p);
    /* A result can come before the answer to its post, if the answer was lost. */
    if (!p)
        return;
    if (p->kept)
        report_promise(j, "I2", "a second result for one item of a batch", p);
    if (p->photos != photos)
        report_promise(j, "I1", "a result with another number of photos", p);
    j->n_kept += !p->kept;
    p->kept = true;
}

static void check_object(struct sim_judge *j, const json_t *photo, const struct pp_memory_accepted *m)
{
    const char *outcome = json_string_value(json_object_get(photo, "outcome"));
    const char *object = json_string_value(json_object_get(photo, "object"));

    if (!outcome || (strcmp(outcome, "stored") != 0 && strcmp(outcome, "unchanged") != 0))
        return;
    if (!object)
        report(j, "I7", "a stored photo without an object", &(struct sim_about){.client = m->client}, m->id);
}

static void look_at(struct sim_judge *j, size_t at)
{
    const struct pp_memory_accepted *m = pp_memory_broker_at(j->f->broker, at);
    struct result *r;

    HASH_FIND_STR(j->results, m->id, r);
    if (r) {
        const struct pp_memory_accepted *first = pp_memory_broker_at(j->f->broker, r->at);
        if (first->body_n != m->body_n || memcmp(first->body, m->body, m->body_n) != 0)
            report(j, "I2", "one id with two payloads", &(struct sim_about){.client = m->client}, m->id);
        return;
    }
    r = calloc(1, sizeof *r);
    pp_assert(r, "the simulator needs memory");
    r->at = at;
    snprintf(r->id, sizeof r->id, "%s", m->id);
    pp_assert(PP_HASH_ADD(j->results, r->id, strlen(r->id), r), "the simulator needs memory");
    json_t *root = json_loadb(m->body, m->body_n, 0, NULL);
    const json_t *data = json_object_get(root, "data"), *photos = json_object_get(data, "photos");
    if (!data)
        report(j, "I2", "a result that is not JSON", &(struct sim_about){.client = m->client}, m->id);
    else
        check_promise(j, data);
    for (size_t i = 0; i < json_array_size(photos); i++)
        check_object(j, json_array_get(photos, i), m);
    json_decref(root);
}

void sim_judge_look(struct sim_judge *j)
{
    size_t n = pp_memory_broker_count(j->f->broker);
    for (; j->seen < n; j->seen++)
        look_at(j, j->seen);
    sim_internet_advance(j->f->net);
}

/* A result that came before its promise was known is found here. */
static void match_late(struct sim_judge *j)
{
    size_t n = pp_memory_broker_count(j->f->broker);
    for (size_t at = 0; at < n; at++) {
        const struct pp_memory_accepted *m = pp_memory_broker_at(j->f->broker, at);
        json_t *root = json_loadb(m->body, m->body_n, 0, NULL);
        const json_t *data = json_object_get(root, "data");
        char name[NAME_MAX_BYTES];
        struct promised *p;
        snprintf(name, sizeof name, "%s %s", json_string_value(json_object_get(data, "batch_id")),
                 json_string_value(json_object_get(data, "item")));
        HASH_FIND_STR(j->promised, name, p);
        if (p && !p->kept) {
            p->kept = true;
            j->n_kept++;
        }
        json_decref(root);
    }
}

size_t sim_judge_missing(const struct sim_judge *j)
{
    return j->n_promised - j->n_kept;
}

size_t sim_judge_results(const struct sim_judge *j)
{
    return HASH_COUNT(j->results);
}

int64_t sim_judge_bound_ms(const struct sim_judge *j)
{
    enum { ATTEMPTS = 4, TIMEOUT_MS = 30000, DELAYS_MS = 71000 * 6 / 5, SLOW_MS = 300000, START_MS = 30000 };
    const struct sim_swarm *s = &j->f->swarm;
    /* Each photo of a client takes its turn: by the rate, and by the places. */
    int64_t photos = 120, turns = photos * ATTEMPTS * 4;
    int64_t by_rate = s->rpm ? turns * 60000 / s->rpm : 0;
    int64_t by_places = turns * TIMEOUT_MS / s->concurrency;
    return START_MS + 10 * s->lease_ms + DELAYS_MS + SLOW_MS + by_rate + by_places;
}

/* --- the end --- */

static void check_blob(void *data, const struct pp_memory_blob *blob)
{
    uint8_t sha[SHA256_DIGEST_LENGTH];
    SHA256(blob->bytes, blob->n, sha);
    if (memcmp(sha, blob->name.sha256, sizeof sha) != 0)
        sim_judge_report(data, "I7", NULL, "an object whose bytes have another hash");
}

void sim_judge_end(struct sim_judge *j)
{
    sim_judge_look(j);
    match_late(j);
    for (const struct promised *p = j->promised; p; p = p->hh.next)
        if (!p->kept)
            report_promise(j, "I10", "no result in time", p);
    pp_memory_blobs_each(j->f->blobs, check_blob, j);
}

const char *sim_judge_verdict(const struct sim_judge *j)
{
    return j->verdict.n > 0 ? j->verdict.p : "";
}

const struct sim_first *sim_judge_first(const struct sim_judge *j)
{
    return &j->first;
}

const char *sim_judge_events(const struct sim_judge *j)
{
    return j->events.n > 0 ? j->events.p : "";
}

void sim_judge_set_events(struct sim_judge *j, unsigned most)
{
    j->most_events = most;
}
