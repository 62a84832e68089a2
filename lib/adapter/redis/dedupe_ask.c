/* dedupe_ask.c: asks Redis who owns keys, in rounds. All keys of a round go out together, as few
 * BITFIELD commands.
 *
 *   round 1: set-if-absent in each key's first slot of the current table; read the previous table
 *   round 2: read the slots that were taken: the same key (then its owner is known), or another key
 *   round 3: set-if-absent in the next slot, for keys whose slot another key has; and so on
 *   last:    correct the current table for keys that the previous one knows; read outcomes
 *
 * Two tables follow each other by Redis' clock. If a round's answers come after the end of its
 * tables, the request starts again with the next ones. So when a process begins with a table, every
 * answer that another process believes was given before, and stands in the previous table. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/dedupe_internal.h"
#include "base/arena.h"
#include "base/check.h"

enum { DD_OPS = 512, DD_OUTCOMES = 1024, DD_DIGITS = 24, DD_STARTS = 3 };

enum dd_state {
    DD_TRY,   /* set-if-absent comes next */
    DD_READ,  /* the slot is taken: it must be read */
    DD_MINE,  /* the caller's task is the owner since now */
    DD_AGAIN, /* it was the owner before */
    DD_OTHER, /* another task is */
    DD_FREE,  /* the key was dropped: the caller's task can take it */
    DD_NONE,  /* there is no room for the key, or the table does not have it */
};

struct dd_key {
    uint8_t state, probe;               /* in the current table */
    uint8_t state_before, probe_before; /* in the previous table: DD_READ, DD_OTHER or DD_NONE */
    uint32_t owner, owner_before;       /* in the state DD_OTHER: of the key */
};

struct dd_asking {
    struct dd *d;
    struct pp_dedupe_ask *r;
    struct dd_view view;
    struct dd_key *keys;
    struct dd_asked asked;
    size_t pending; /* commands of the round that are not answered */
    unsigned starts;
    bool submitting; /* dd_ask() has not returned */
    bool ended;
    enum pp_err err;
    struct pp_dedupe_change *changes; /* of the last round: of the rows `changed` */
    uint32_t *changed, *read;
    size_t n_changes, n_read;
};

/* Keys of one BITFIELD command. */
struct dd_part {
    struct dd_asking *a;
    bool before; /* the command reads the previous table */
    size_t n;
    uint32_t index[DD_OPS];
};

static void round_of(struct dd_asking *a);

/* --- commands --- */

/* Writes a number as a word of a command; returns the end of the word. */
static char *put_number(char *p, uint64_t v)
{
    char digits[DD_DIGITS];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + v % 10);
    while ((v /= 10));
    *p++ = '$';
    if (n >= 10)
        *p++ = (char)('0' + n / 10);
    *p++ = (char)('0' + n % 10);
    *p++ = '\r';
    *p++ = '\n';
    while (n > 0)
        *p++ = digits[--n];
    *p++ = '\r';
    *p++ = '\n';
    return p;
}

static void put_op(struct dd_asking *a, const struct dd_part *part, uint32_t i)
{
    static const char set[] = "$6\r\nINCRBY\r\n$3\r\nu63\r\n", get[] = "$3\r\nGET\r\n$3\r\nu63\r\n";
    char words[sizeof set + 2 * (DD_DIGITS + 8)], *p = words;
    const struct pp_dedupe_row *row = &a->r->rows[i];
    const struct dd_key *k = &a->keys[i];
    uint64_t slots = part->before ? a->view.slots_before : a->view.slots;
    uint64_t slot = (dd_slot(row->key, slots) + (part->before ? k->probe_before : k->probe)) % slots;
    bool tries = !part->before && k->state == DD_TRY;

    memcpy(p, tries ? set : get, tries ? sizeof set - 1 : sizeof get - 1);
    p += tries ? sizeof set - 1 : sizeof get - 1;
    p = put_number(p, 64 * slot);
    if (tries)
        p = put_number(p, (uint64_t)dd_mark(row->key) << 32 | row->owner);
    pp_redis_put_written(&a->d->call, words, (size_t)(p - words), tries ? 4 : 3);
}

/* --- answers --- */

static void on_tried(struct dd_key *k, const struct redisReply *reply)
{
    k->state = reply->type == REDIS_REPLY_INTEGER ? DD_MINE : DD_READ;
}

/* Takes the content of the slot of a key. */
static void on_read(struct dd_key *k, const struct pp_dedupe_row *row, uint64_t v)
{
    uint32_t owner = (uint32_t)v;

    if ((uint32_t)(v >> 32) == dd_mark(row->key)) {
        k->state = owner == 0 ? DD_FREE : owner == row->owner ? DD_AGAIN : DD_OTHER;
        k->owner = owner;
    } else {
        k->probe += v != 0; /* 0: Redis has lost the table meanwhile */
        k->state = k->probe < PP_DEDUPE_PROBES ? DD_TRY : DD_NONE;
    }
}

static void on_read_before(struct dd_key *k, const struct pp_dedupe_row *row, uint64_t v)
{
    uint32_t owner = (uint32_t)v;
    bool same = (uint32_t)(v >> 32) == dd_mark(row->key);

    if (same && owner != 0 && owner != row->owner) {
        k->state_before = DD_OTHER;
        k->owner_before = owner;
    } else if (same || v == 0 || ++k->probe_before >= PP_DEDUPE_PROBES) {
        k->state_before = DD_NONE;
    }
}

static void on_part(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct dd_part *part = data;
    struct dd_asking *a = part->a;

    if (err == PP_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != part->n))
        err = PP_ECORRUPT;
    if (err != PP_OK)
        a->err = err;
    for (size_t i = 0; err == PP_OK && i < part->n; i++) {
        const struct redisReply *answer = reply->element[i];
        struct dd_key *k = &a->keys[part->index[i]];
        const struct pp_dedupe_row *row = &a->r->rows[part->index[i]];
        if (part->before)
            on_read_before(k, row, (uint64_t)answer->integer);
        else if (k->state == DD_TRY)
            on_tried(k, answer);
        else
            on_read(k, row, (uint64_t)answer->integer);
    }
    pp_assert(a->pending > 0, "a command is answered twice");
    if (--a->pending == 0)
        round_of(a);
}

/* --- the end --- */

static void end(struct dd_asking *a)
{
    struct pp_dedupe_ask *r = a->r;

    a->ended = true;
    if (a->submitting)
        return;
    r->duplicates = 0;
    for (size_t i = 0; i < r->n; i++)
        r->duplicates += r->rows[i].other != 0;
    pp_req_end(&r->req, a->err);
}

static void one_ended(struct dd_asking *a, enum pp_err err)
{
    if (err != PP_OK)
        a->err = err;
    if (--a->pending == 0)
        end(a);
}

static void on_changed(void *data, enum pp_err err)
{
    struct dd_asking *a = data;

    for (size_t i = 0; err == PP_OK && i < a->n_changes; i++) {
        struct pp_dedupe_row *row = &a->r->rows[a->changed[i]];
        if (!row->other)
            row->other = a->changes[i].other;
    }
    one_ended(a, err);
}

/* Takes an outcome: "<time> <bytes>". */
static enum pp_err take_outcome(struct dd_asking *a, struct pp_dedupe_row *row,
                                const struct redisReply *reply)
{
    char *rest;

    if (reply->type != REDIS_REPLY_STRING)
        return PP_OK;
    int64_t at = strtoll(reply->str, &rest, 10), now = dd_clock(a->d) + a->view.ahead_ms;
    if (rest == reply->str || *rest != ' ')
        return PP_ECORRUPT;
    row->outcome_n = (uint32_t)(reply->str + reply->len - (rest + 1));
    row->outcome = pp_arena_copy(a->r->req.arena, rest + 1, row->outcome_n);
    row->age_ms = at < now ? now - at : 0;
    return row->outcome ? PP_OK : PP_ENOMEM;
}

/* Outcomes that one command reads: of the rows read[0..n-1]. */
struct dd_outcomes {
    struct dd_asking *a;
    const uint32_t *read;
    size_t n;
};

static void on_outcomes(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct dd_outcomes *o = data;

    if (err == PP_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements != o->n))
        err = PP_ECORRUPT;
    for (size_t i = 0; err == PP_OK && i < o->n; i++)
        err = take_outcome(o->a, &o->a->r->rows[o->read[i]], reply->element[i]);
    one_ended(o->a, err);
}

static enum pp_err read_some(struct dd_asking *a, struct dd_outcomes *o)
{
    struct dd *d = a->d;

    pp_redis_call_begin(&d->call, "MGET", NULL);
    pp_redis_put_text(&d->call, "MGET");
    for (size_t i = 0; i < o->n; i++) {
        struct pp_buf *b = pp_redis_word_open(&d->call);
        pp_buf_puts(b, d->prefix);
        pp_buf_puts(b, "told:");
        pp_buf_put(b, a->r->rows[o->read[i]].key, PP_DEDUPE_KEY_BYTES);
        pp_redis_word_close(&d->call);
    }
    return dd_send(d, DD_ask, on_outcomes, o);
}

static enum pp_err read_outcomes(struct dd_asking *a)
{
    enum pp_err err = PP_OK;

    for (size_t i = 0; i < a->n_read && err == PP_OK; i += DD_OUTCOMES) {
        size_t left = a->n_read - i;
        struct dd_outcomes *o = pp_arena_alloc(a->r->req.arena, sizeof *o);
        if (!o)
            return PP_ENOMEM;
        *o = (struct dd_outcomes){.a = a, .read = a->read + i, .n = left < DD_OUTCOMES ? left : DD_OUTCOMES};
        err = read_some(a, o);
        a->pending += err == PP_OK;
    }
    return err;
}

/* Decides about one key, and notes what the last round does for it. */
static void decide(struct dd_asking *a, uint32_t i)
{
    const struct dd_key *k = &a->keys[i];
    struct pp_dedupe_row *row = &a->r->rows[i];
    /* the previous table counts only if the current one did not know the key */
    bool before = k->state_before == DD_OTHER && (k->state == DD_MINE || k->state == DD_NONE);

    row->other = k->state == DD_OTHER ? k->owner : before ? k->owner_before : 0;
    if (row->other)
        a->read[a->n_read++] = i;
    if ((k->state == DD_MINE && before) || k->state == DD_FREE) {
        struct pp_dedupe_change *c = &a->changes[a->n_changes];
        *c = (struct pp_dedupe_change){.owner = k->state == DD_MINE ? row->owner : 0,
                                       .next = k->state == DD_MINE ? k->owner_before : row->owner};
        memcpy(c->key, row->key, sizeof c->key);
        a->changed[a->n_changes++] = i;
    }
}

/* The owners of all keys are known. */
static void last_round(struct dd_asking *a)
{
    struct pp_arena *arena = a->r->req.arena;
    size_t n = 0;
    enum pp_err err = PP_OK;

    for (size_t i = 0; i < a->r->n; i++)
        n += a->keys[i].state == DD_OTHER || a->keys[i].state == DD_FREE ||
             a->keys[i].state_before == DD_OTHER;
    a->changes = pp_arena_array(arena, n, sizeof *a->changes);
    a->changed = pp_arena_array(arena, n, sizeof *a->changed);
    a->read = pp_arena_array(arena, n, sizeof *a->read);
    if (!a->changes || !a->changed || !a->read)
        a->err = PP_ENOMEM;
    for (uint32_t i = 0; a->err == PP_OK && i < a->r->n; i++)
        decide(a, i);
    a->pending = 1;
    if (a->n_changes > 0 && (err = dd_change(a->d, a->changes, a->n_changes, arena, on_changed, a)) == PP_OK)
        a->pending++;
    if (err == PP_OK)
        err = read_outcomes(a);
    one_ended(a, err);
}

/* --- rounds --- */

/* Sends the commands of one table for this round. */
static enum pp_err send_parts(struct dd_asking *a, bool before)
{
    struct dd *d = a->d;
    struct dd_part *part = NULL;

    for (uint32_t i = 0; i < a->r->n; i++) {
        const struct dd_key *k = &a->keys[i];
        bool has = before ? k->state_before == DD_READ : k->state == DD_TRY || k->state == DD_READ;
        if (has && !part) {
            part = pp_arena_alloc(a->r->req.arena, sizeof *part);
            if (!part)
                return PP_ENOMEM;
            *part = (struct dd_part){.a = a, .before = before};
            pp_redis_call_begin(&d->call, "BITFIELD", NULL);
            pp_redis_put_text(&d->call, "BITFIELD");
            pp_redis_put_text(&d->call, before ? a->view.previous : a->view.current);
            pp_redis_put_text(&d->call, "OVERFLOW");
            pp_redis_put_text(&d->call, "FAIL");
        }
        if (has) {
            put_op(a, part, i);
            part->index[part->n++] = i;
        }
        if (!part || (part->n < DD_OPS && i + 1 < a->r->n))
            continue;
        enum pp_err err = dd_send(d, DD_ask, on_part, part);
        if (err != PP_OK)
            return err;
        a->pending++;
        part = NULL;
    }
    return PP_OK;
}

static void on_view(void *data, enum pp_err err)
{
    struct dd_asking *a = data;
    struct pp_dedupe_ask *r = a->r;

    if (err != PP_OK) {
        a->err = err;
        end(a);
        return;
    }
    a->view = a->d->view;
    for (size_t i = 0; i < r->n; i++)
        a->keys[i] = (struct dd_key){.state_before = a->view.slots_before ? DD_READ : DD_NONE};
    round_of(a);
}

/* Begins the next round, or the last one. */
static void round_of(struct dd_asking *a)
{
    enum pp_err err;

    if (a->err != PP_OK) {
        end(a);
        return;
    }
    if (dd_clock(a->d) >= a->view.until_ms && a->starts < DD_STARTS) {
        a->starts++;
        err = dd_view(a->d, false, &a->asked, on_view, a);
        if (err != PP_OK)
            on_view(a, err);
        return;
    }
    a->pending = 1; /* so that a command that fails ends no round while it begins */
    err = send_parts(a, false);
    if (err == PP_OK && a->view.slots_before)
        err = send_parts(a, true);
    if (err != PP_OK)
        a->err = err;
    if (--a->pending > 0)
        return;
    if (a->err != PP_OK)
        end(a);
    else
        last_round(a);
}

enum pp_err dd_ask(struct pp_dedupe *base, struct pp_dedupe_ask *r)
{
    struct dd *d = (struct dd *)base;

    if (!pp_dedupe_ask_valid(r))
        return PP_EINVAL;
    struct dd_asking *a = pp_arena_alloc(r->req.arena, sizeof *a);
    if (!a || !(a->keys = pp_arena_array(r->req.arena, r->n, sizeof *a->keys)))
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++) {
        r->rows[i].other = 0;
        r->rows[i].outcome = NULL;
        r->rows[i].outcome_n = 0;
        r->rows[i].age_ms = 0;
    }
    a->d = d;
    a->r = r;
    a->submitting = true;
    enum pp_err err = dd_view(d, r->n == 0, &a->asked, on_view, a);
    a->submitting = false;
    pp_assert(!a->ended || a->err != PP_OK, "a request ended before anything was sent");
    return a->ended ? a->err : err;
}
