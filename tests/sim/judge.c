/* judge.c: compares what callers were promised with what they got. */
#include "judge.h"

#include <jansson.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "common.h"
#include "due.h"
#include "format/json_scan.h"
#include "import.h"
#include "legal.h"
#include "order.h"
#include "patience.h"
#include "row.h"

enum { NAME_MAX_BYTES = 160, OBJECT_MAX_BYTES = 96, SPARE_MAX_BYTES = 64, REPORTS_MAX = 20, CALM_MS = 60000 };

/* One item of one batch, by "BATCH ITEM": what was promised, and its result. Either can come first,
 * because the answer to a post can be lost. */
struct item {
    UT_hash_handle hh;
    bool promised, kept;
    size_t photos;      /* the number that was promised */
    size_t kept_photos; /* the number that the result has */
    char client[16];    /* "": not known */
    char name[NAME_MAX_BYTES];
};

/* Items like this one may have results in n batches that no caller knows. */
struct spare {
    UT_hash_handle hh;
    size_t n;
    char name[SPARE_MAX_BYTES]; /* "CLIENT ITEM PHOTOS" */
};

/* A result that has reached the broker, by its id. */
struct result {
    UT_hash_handle hh;
    size_t at; /* its place at the broker */
    bool calm; /* it came when nothing failed any more */
    char id[NAME_MAX_BYTES];
};

/* An object: some photo has it, or a server has its bytes. */
struct object {
    UT_hash_handle hh;
    bool there;
    char name[OBJECT_MAX_BYTES];
};

struct sim_judge {
    struct sim_fleet *f;
    struct item *items;
    struct spare *spares;
    struct result *results;
    struct object *objects;
    size_t n_promised, n_kept, seen;
    struct pp_buf verdict, events;
    unsigned reports, most_events;
    struct sim_first first;
    int64_t calm_ms; /* nothing fails from then on; 0: not known yet */
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

/* Reports what is wrong with the result of an item. */
static void report_item(struct sim_judge *j, const char *rule, const char *what, const struct item *it)
{
    char batch[NAME_MAX_BYTES];
    const char *id = it->name + strcspn(it->name, " ");

    snprintf(batch, sizeof batch, "%.*s", (int)(id - it->name), it->name);
    report(j, rule, what,
           &(struct sim_about){
               .client = it->client[0] ? it->client : NULL, .batch = batch, .item = id + (*id == ' ')},
           it->name);
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

static struct item *item_of(struct sim_judge *j, const char *batch, const char *id)
{
    char name[NAME_MAX_BYTES];
    struct item *it;

    snprintf(name, sizeof name, "%s %s", batch ? batch : "?", id ? id : "?");
    SIM_ROW(j->items, name, it);
    return it;
}

static struct object *object_of(struct sim_judge *j, const char *name)
{
    struct object *o;

    SIM_ROW(j->objects, name, o);
    return o;
}

/* The promise of an item is kept. */
static void keep(struct sim_judge *j, const struct item *it)
{
    if (it->photos != it->kept_photos)
        report_item(j, "I1", "a result with another number of photos", it);
    j->n_kept++;
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
    if (batch) {
        note_accepted(j, promise->client, batch);
        sim_orders_know(j->f->orders, promise->client, batch);
    }
    for (unsigned i = 0; batch && i < promise->n; i++) {
        struct item *it = item_of(j, batch, promise->items[i].id);
        if (it->promised)
            report_item(j, "I2", "one batch for two posts", it);
        it->promised = true;
        snprintf(it->client, sizeof it->client, "%s", promise->client);
        it->photos = promise->items[i].photos;
        j->n_promised++;
        if (it->kept)
            keep(j, it);
    }
    json_decref(root);
}

static struct spare *spare_of(struct sim_judge *j, const char *client, const char *item, size_t photos,
                              bool add)
{
    char name[SPARE_MAX_BYTES];
    struct spare *s;

    snprintf(name, sizeof name, "%s %s %zu", client, item, photos);
    if (add)
        SIM_ROW(j->spares, name, s);
    else
        HASH_FIND_STR(j->spares, name, s);
    return s;
}

void sim_judge_sent_again(struct sim_judge *j, const struct sim_promise *promise)
{
    for (unsigned i = 0; i < promise->n; i++)
        spare_of(j, promise->client, promise->items[i].id, promise->items[i].photos, true)->n++;
}

void sim_judge_calm(struct sim_judge *j)
{
    j->calm_ms = pp_sim_now_ms(j->f->world) + CALM_MS;
}

bool sim_judge_is_calm(const struct sim_judge *j)
{
    return j->calm_ms > 0 && pp_sim_now_ms(j->f->world) >= j->calm_ms && !sim_upgrade_goes_on(j->f);
}

/* --- reading a result --- */

/* Returns the name of a member that is compared; NULL: another member. */
static const char *compared(struct pp_slice key)
{
    static const char *const names[] = {"data",   "batch_id", "item",    "client", "revision",
                                        "status", "photos",   "outcome", "object"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (key.n == strlen(names[i]) + 2 && memcmp(key.p + 1, names[i], key.n - 2) == 0)
            return names[i];
    return NULL;
}

static json_t *read_value(struct pp_scan *s);

static json_t *read_members(struct pp_scan *s)
{
    json_t *object = json_object();
    struct pp_slice key, value;
    const char *name;

    while (pp_scan_key(s, &key)) {
        if ((name = compared(key)))
            json_object_set_new(object, name, read_value(s));
        else
            pp_scan_value(s, &value);
    }
    return object;
}

static json_t *read_elements(struct pp_scan *s)
{
    json_t *array = json_array();
    struct pp_slice element;
    struct pp_scan inner;

    while (pp_scan_element(s, &element)) {
        pp_scan_begin(&inner, element.p, element.n);
        json_array_append_new(array, read_value(&inner));
        if (!pp_scan_finish(&inner))
            s->error = inner.error;
    }
    return array;
}

/* Reads the next value, and of objects only the members that are compared: jansson would take a
 * sixth of a simulation to read whole results. Returns NULL if the value is not JSON. */
static json_t *read_value(struct pp_scan *s)
{
    struct pp_slice value;

    if (pp_scan_enter(s, '{'))
        return read_members(s);
    if (pp_scan_enter(s, '['))
        return read_elements(s);
    if (!pp_scan_value(s, &value))
        return NULL;
    if (*value.p == '"' && !memchr(value.p, '\\', value.n)) /* pp_scan_parse() would take longer. */
        return json_stringn(value.p + 1, value.n - 2);
    return pp_scan_parse(s, value);
}

/* --- results --- */

static void check_promise(struct sim_judge *j, const json_t *data, const struct pp_memory_accepted *m)
{
    struct item *it = item_of(j, json_string_value(json_object_get(data, "batch_id")),
                              json_string_value(json_object_get(data, "item")));

    if (it->kept) {
        report_item(j, "I2", "a second result for one item of a batch", it);
        return;
    }
    it->kept = true;
    sim_due_result(j->f->due, data);
    snprintf(it->client, sizeof it->client, "%s", m->client);
    it->kept_photos = json_array_size(json_object_get(data, "photos"));
    if (it->promised)
        keep(j, it);
}

static void check_object(struct sim_judge *j, const json_t *photo, const struct pp_memory_accepted *m)
{
    const char *outcome = json_string_value(json_object_get(photo, "outcome"));
    const char *object = json_string_value(json_object_get(photo, "object"));

    if (!outcome || (strcmp(outcome, "stored") != 0 && strcmp(outcome, "unchanged") != 0))
        return;
    if (object)
        (void)object_of(j, object);
    else
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
        if (r->calm)
            report(j, "I2", "a result is sent twice, although nothing fails",
                   &(struct sim_about){.client = m->client}, m->id);
        return;
    }
    r = calloc(1, sizeof *r);
    pp_assert(r, "the simulator needs memory");
    r->at = at;
    r->calm = sim_judge_is_calm(j);
    snprintf(r->id, sizeof r->id, "%s", m->id);
    pp_assert(PP_HASH_ADD(j->results, r->id, strlen(r->id), r), "the simulator needs memory");
    struct pp_scan body;
    pp_scan_begin(&body, m->body, m->body_n);
    json_t *root = read_value(&body);
    const json_t *data = json_object_get(root, "data"), *photos = json_object_get(data, "photos");
    if (!data || !pp_scan_finish(&body))
        report(j, "I2", "a result that is not JSON", &(struct sim_about){.client = m->client}, m->id);
    else
        check_promise(j, data, m);
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
    sim_legal_look(j->f->legal);
    sim_patience_look(j->f->patience);
    sim_common_look(j->f->common);
}

size_t sim_judge_missing(const struct sim_judge *j)
{
    return j->n_promised - j->n_kept + sim_due_missing(j->f->due);
}

size_t sim_judge_results(const struct sim_judge *j)
{
    return HASH_COUNT(j->results);
}

int64_t sim_judge_bound_ms(const struct sim_judge *j)
{
    enum {
        ATTEMPTS = 4,
        TIMEOUT_MS = 30000,
        DELAYS_MS = 71000 * 6 / 5,
        SLOW_MS = 300000,
        START_MS = 30000,
        HOST_WAIT_MS = 60000
    };
    const struct sim_swarm *s = &j->f->swarm;
    /* Each photo of a client takes its turn: by the rate, and by the places. */
    int64_t photos = 120 + (s->common > 0 ? SIM_COMMON_URLS : 0), turns = photos * ATTEMPTS * 4;
    uint32_t rpm = s->rpm, places = s->concurrency;
    if (s->host_places > 0 && s->host_places < places)
        places = s->host_places;
    if (s->settings_every_ms > 0) { /* some client may have the lowest limits (settings.c) */
        rpm = s->rpm > 0 && s->rpm < SIM_SETTING_RPM_MIN ? s->rpm : SIM_SETTING_RPM_MIN;
        places = 1;
    }
    int64_t by_rate = rpm ? turns * 60000 / rpm : 0;
    int64_t by_places = turns * TIMEOUT_MS / places;
    return START_MS + HOST_WAIT_MS + s->believe_ms + 10 * sim_config_longest_lease_ms(s) +
           sim_upgrade_bound_ms(j->f) + DELAYS_MS + SLOW_MS + by_rate + by_places;
}

/* --- the end --- */

/* Returns true if the result of an item that was not promised can come from a post that several
 * processes have accepted. */
static bool take_spare(struct sim_judge *j, const struct item *it)
{
    const char *id = it->name + strcspn(it->name, " ");
    struct spare *s = spare_of(j, it->client, id + (*id == ' '), it->kept_photos, false);

    if (!s || s->n == 0)
        return false;
    s->n--;
    return true;
}

static void check_blob(void *data, const struct pp_memory_blob *blob)
{
    struct sim_judge *j = data;
    char hex[2 * SHA256_DIGEST_LENGTH + 1], name[OBJECT_MAX_BYTES];
    uint8_t sha[SHA256_DIGEST_LENGTH];
    struct object *o;

    pp_hex(hex, blob->name.sha256, SHA256_DIGEST_LENGTH);
    snprintf(name, sizeof name, "sha256/%.2s/%.2s/%s.%.8s", hex, hex + 2, hex, blob->name.ext);
    HASH_FIND_STR(j->objects, name, o);
    if (o)
        o->there = true;
    SHA256(blob->bytes, blob->n, sha);
    if (memcmp(sha, blob->name.sha256, sizeof sha) != 0)
        sim_judge_report(j, "I7", NULL, "an object whose bytes have another hash");
}

/* While an entry is not acked, its photos may be in the store and not yet in a filter whose build
 * began meanwhile. */
static void check_photo(void *data, const struct pp_memory_photo *photo)
{
    struct sim_judge *j = data;

    if (pp_memory_filter_absent(j->f->filter, &photo->key))
        report(j, "filter", "a photo of the store that the filter calls absent", NULL, photo->client);
}

static void count_entry(void *data, const struct pp_memory_ingest_row *row)
{
    (void)row;
    ++*(size_t *)data;
}

void sim_judge_end(struct sim_judge *j)
{
    bool all_answered = sim_imports_open_posts(j->f->imports) == 0 && sim_orders_open_ones(j->f->orders) == 0;
    char batch[NAME_MAX_BYTES];
    size_t entries = 0;

    sim_judge_look(j);
    for (const struct item *it = j->items; it; it = it->hh.next) {
        if (it->promised && !it->kept)
            report_item(j, "I10", "no result in time", it);
        snprintf(batch, sizeof batch, "%.*s", (int)strcspn(it->name, " "), it->name);
        if (!it->promised && all_answered && !sim_due_knows(j->f->due, batch) &&
            !sim_due_excused(j->f->due, batch) && !take_spare(j, it))
            report_item(j, "I2", "a result of a batch that no caller knows", it);
    }
    if (!all_answered)
        sim_judge_report(j, "I10", NULL, "a post, a cancel or a replay is not answered in time");
    sim_due_end(j->f->due);
    sim_legal_end(j->f->legal);
    pp_memory_blobs_each(j->f->blobs, check_blob, j);
    pp_memory_ingest_each(j->f->ingest, count_entry, &entries);
    if (entries == 0)
        pp_memory_store_each_photo(j->f->store, check_photo, j);
    for (const struct object *o = j->objects; o; o = o->hh.next)
        if (!o->there)
            report(j, "I7", "a stored photo without its bytes", NULL, o->name);
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
