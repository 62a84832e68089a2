/* common.c: compares what tasks of one URL do with what is due. */
#include "common.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "format/ids.h"
#include "judge.h"
#include "photopool/code.h"
#include "row.h"

enum {
    HOSTS = 4,
    HOT_MS = 15000,        /* clients name the same URL for this time */
    QUIET_MS = 20000,      /* after this time, a fault has no effect any more */
    TOLD_MS = 500,         /* from a settlement until its outcome is told */
    WAITS_MS = 1000 - 500, /* a follower waits for this time: the shortest tier, less what is in flight */
    LONGEST_MS = 240000,   /* a claim lasts no longer if nothing fails */
    FRESH_MS = 300000,     /* window, waits and frozen processes make an outcome no older */
    FETCHES = 256
};

/* What a client's own fetch of a URL came to. */
struct fetch {
    char client[16];
    int64_t at_ms;
    uint16_t code;
    struct pp_object object;
};

struct url {
    UT_hash_handle hh;
    struct fetch fetches[FETCHES]; /* a ring: the latest ones */
    size_t n_fetches;
    unsigned claimed; /* number of its tasks that are claimed */
    /* The latest outcome that its owner must have told; told_by[0] is 0: none. */
    char told_by[16];
    int64_t told_ms;
    int64_t told_claimed_ms; /* the port keeps the owner for a window from about then on */
    char name[SIM_COMMON_URL_MAX];
};

struct photo_id { /* all bytes count, so unused ones are 0 */
    char client[16];
    struct pp_key key;
};

/* A client's photo of a URL. */
struct photo {
    UT_hash_handle hh;
    struct photo_id id;
    struct url *url;
    bool told; /* it has told an outcome, in an earlier import */
    bool claimed;
    bool lapsed; /* its latest claim was ended by another process than the worker */
    /* The following members are of the claim. */
    int64_t claimed_ms;
    char process[16];
    bool always, shares;
    bool owns;            /* no other task of the URL was claimed: it is the owner */
    bool older;           /* its worker may still fetch for an older claim, which has lapsed */
    int64_t requested_ms; /* its first request has arrived; 0: it has made none */
    int64_t answered_ms;  /* its latest request has ended, so its photo may be told; 0: none has */
};

struct sim_common {
    struct sim_fleet *f;
    struct url *urls;
    struct photo *photos;
};

struct sim_common *sim_common_open(struct sim_fleet *f)
{
    struct sim_common *c = calloc(1, sizeof *c);

    pp_assert(c, "the simulator needs memory");
    c->f = f;
    return c;
}

static int64_t now_of(const struct sim_common *c)
{
    return pp_sim_now_ms(c->f->world);
}

/* Returns true if nothing has failed since at_ms, nor shortly before. */
static bool quiet_since(const struct sim_common *c, int64_t at_ms)
{
    return at_ms - c->f->disturbed_ms >= QUIET_MS;
}

static void report(struct sim_common *c, const struct photo *p, const char *what)
{
    char text[400];

    snprintf(text, sizeof text, "client %s: %s: %s", p->id.client, what, p->url->name);
    sim_judge_report(c->f->judge, "shared",
                     &(struct sim_about){.client = p->id.client, .process = p->process}, text);
}

static struct photo_id id_of(const char *client, const struct pp_key *key)
{
    struct photo_id id = {.key = *key};

    snprintf(id.client, sizeof id.client, "%s", client);
    return id;
}

/* Returns NULL if the client has not named a common URL with this key. */
static struct photo *photo_find(const struct sim_common *c, const char *client, const struct pp_key *key)
{
    struct photo_id id = id_of(client, key);
    struct photo *p;

    HASH_FIND(hh, c->photos, &id, sizeof id, p);
    return p;
}

void sim_common_draw(struct sim_common *c, const char *client, char url[SIM_COMMON_URL_MAX])
{
    struct pp_rng *r = pp_sim_rng(c->f->world);
    unsigned hot = (unsigned)(now_of(c) / HOT_MS % SIM_COMMON_URLS),
             any = (unsigned)pp_rng_below(r, SIM_COMMON_URLS), number = pp_rng_below(r, 2) ? hot : any,
             host = number % HOSTS;

    snprintf(url, SIM_COMMON_URL_MAX, "%s://h%u.all.example/%u.jpg", host ? "http" : "https", host, number);
    struct pp_key key = pp_photo_key_sent(client, url, strlen(url));
    if (photo_find(c, client, &key))
        return;
    struct photo *p = calloc(1, sizeof *p);
    pp_assert(p, "the simulator needs memory");
    p->id = id_of(client, &key);
    SIM_ROW(c->urls, url, p->url);
    pp_assert(PP_HASH_ADD(c->photos, &p->id, sizeof p->id, p), "the simulator needs memory");
}

/* --- outcomes --- */

/* Returns true if each client would get this failure of the URL, now and with the next request. */
static bool is_of_the_url(uint16_t code)
{
    switch (code) {
    case 0:
    case PP_CODE_DNS_NOT_FOUND:
    case PP_CODE_TLS_FAILED:
    case PP_CODE_BAD_RESPONSE:
    case PP_CODE_HEADER_TOO_LARGE:
    case PP_CODE_TOO_LARGE:
    case PP_CODE_NOT_IMAGE:
    case PP_CODE_IMAGE_CORRUPT:
    case PP_CODE_TOO_MANY_PIXELS:
    case PP_CODE_TOO_SMALL:
    case PP_CODE_REDIRECT_LIMIT: return true;
    default:
        return code >= 400 && code < 500 && code != 401 && code != 407 && code != 408 && code != 425 &&
               code != 429;
    }
}

/* Returns true if the object is this version of the photo at the URL, perhaps without its end, as
 * answer_lie() in behave.c sends it. */
static bool is_version(uint64_t seed, const char *url, uint32_t version, const struct pp_object *o)
{
    enum { CUT_OFF = 4 };
    uint8_t whole[PP_SHA256_BYTES], cut[PP_SHA256_BYTES], half[PP_SHA256_BYTES];
    struct pp_buf b;

    pp_buf_init(&b, 1 << 20);
    sim_photo_make(seed, url, version, &b);
    pp_assert(!b.failed && b.n > CUT_OFF, "the simulator needs memory");
    SHA256((const unsigned char *)b.p, b.n, whole);
    SHA256((const unsigned char *)b.p, b.n - CUT_OFF, cut);
    /* the half of a GIF has all that a reader asks for: its kind and its size */
    SHA256((const unsigned char *)b.p, sim_photo_half(b.n), half);
    pp_buf_fini(&b);
    return memcmp(whole, o->sha256, sizeof whole) == 0 || memcmp(cut, o->sha256, sizeof cut) == 0 ||
           memcmp(half, o->sha256, sizeof half) == 0;
}

static bool had_bytes_at(const struct sim_common *c, const char *url, const struct pp_object *o)
{
    uint64_t seed = sim_internet_seed(c->f->net);
    int64_t now = now_of(c), then = now > FRESH_MS ? now - FRESH_MS : 0;

    /* a version lasts for ten minutes or longer; lies are of version 0 */
    return is_version(seed, url, sim_version_at(seed, url, now), o) ||
           is_version(seed, url, sim_version_at(seed, url, then), o) || is_version(seed, url, 0, o);
}

/* Returns true if the host had these bytes at the URL lately, or where the URL leads. */
static bool had_bytes(const struct sim_common *c, const struct url *u, const struct pp_object *o)
{
    char moved[SIM_COMMON_URL_MAX + 8];

    snprintf(moved, sizeof moved, "%s?moved", u->name);
    return had_bytes_at(c, u->name, o) || had_bytes_at(c, moved, o);
}

static bool same_outcome(const struct fetch *f, const struct pp_outcome *o)
{
    return f->code == o->code &&
           (o->code || memcmp(f->object.sha256, o->object.sha256, sizeof o->object.sha256) == 0);
}

static bool was_fetched(const struct sim_common *c, const struct photo *p, const struct pp_outcome *o)
{
    const struct url *u = p->url;

    for (size_t i = 0; i < FETCHES && i < u->n_fetches; i++) {
        const struct fetch *f = &u->fetches[i];
        if (now_of(c) - f->at_ms <= FRESH_MS && strcmp(f->client, p->id.client) != 0 && same_outcome(f, o))
            return true;
    }
    /* A photo is told before its settlement, which may never come: end_claim() checks its bytes. */
    for (const struct photo *other = c->photos; other && o->code == 0; other = other->hh.next)
        if (other->url == u && strcmp(other->id.client, p->id.client) != 0 && other->answered_ms > 0 &&
            now_of(c) - other->answered_ms <= FRESH_MS)
            return true;
    return false;
}

/* A task has taken an outcome. */
static void check_taken(struct sim_common *c, const struct photo *p, const struct pp_outcome *o)
{
    if (!is_of_the_url(o->code))
        report(c, p, "a shared failure that is not the URL's");
    if (!was_fetched(c, p, o))
        report(c, p, "a shared outcome that no other client's fetch had");
    if (p->requested_ms)
        report(c, p, "a shared outcome of a task that has made a request");
}

/* The task may have become the owner instead of others, which are not followed from then on. */
static void take_over(const struct sim_common *c, const struct photo *p)
{
    for (struct photo *o = c->photos; o; o = o->hh.next)
        if (o != p && o->url == p->url)
            o->owns = false;
}

/* A task has fetched, with this settlement; NULL: its claim lapsed, or its batch was cancelled. */
static void note_fetched(const struct sim_common *c, struct photo *p, const struct pp_settlement *s)
{
    struct url *u = p->url;
    bool final = s && s->kind == PP_SETTLE_FINAL;
    int64_t now = now_of(c);

    take_over(c, p);
    if (final) {
        struct fetch *f = &u->fetches[u->n_fetches++ % FETCHES];
        *f = (struct fetch){.at_ms = now, .code = s->outcome.code, .object = s->outcome.object};
        snprintf(f->client, sizeof f->client, "%s", p->id.client);
    }
    u->told_by[0] = '\0';
    if (!final || !is_of_the_url(s->outcome.code))
        return;
    p->told = true;
    if (!p->owns)
        return;
    snprintf(u->told_by, sizeof u->told_by, "%s", p->id.client);
    u->told_ms = now;
    u->told_claimed_ms = p->claimed_ms;
}

/* --- tasks --- */

static void begin_claim(struct sim_common *c, struct photo *p, const struct pp_memory_task_change *change)
{
    p->claimed = true;
    p->claimed_ms = now_of(c);
    size_t n = strcspn(change->worker, "-");
    bool same = strncmp(p->process, change->worker, n) == 0 && p->process[n] == '\0';
    p->older = same && (p->older || p->lapsed);
    snprintf(p->process, sizeof p->process, "%.*s", (int)n, change->worker);
    p->always = change->always;
    bool held = change->held || (change->last_code && is_of_the_url(change->last_code));
    p->shares = !held && change->losses == 0;
    p->owns = p->shares && p->url->claimed == 0;
    p->requested_ms = 0;
    p->url->claimed++;
}

static void end_claim(struct sim_common *c, struct photo *p, const struct pp_memory_task_change *change)
{
    const struct pp_settlement *s = change->by_worker ? change->by : NULL;
    bool final = s && s->kind == PP_SETTLE_FINAL;

    p->claimed = false;
    p->lapsed = !s;
    p->url->claimed--;
    if (final && s->outcome.object.type && !had_bytes(c, p->url, &s->outcome.object))
        report(c, p, "a photo with other bytes than those of its host");
    if (final && s->outcome.shared) {
        check_taken(c, p, &s->outcome);
        if (p->always) /* it may have become the owner before, and fetches next time */
            p->url->told_by[0] = '\0';
    } else {
        note_fetched(c, p, s);
    }
}

void sim_common_task(struct sim_common *c, const struct pp_memory_task_change *change)
{
    struct photo *p = photo_find(c, change->client, &change->key);

    if (!p)
        return;
    sim_internet_advance(c->f->net);
    if (p->claimed)
        end_claim(c, p, change);
    if (change->to == PP_TASK_CLAIMED)
        begin_claim(c, p, change);
}

/* --- requests --- */

/* Returns true if the task was to take the outcome that another one has told. */
static bool could_take(const struct sim_common *c, const struct photo *p)
{
    const struct url *u = p->url;

    return u->told_by[0] && strcmp(u->told_by, p->id.client) != 0 && !p->always &&
           p->claimed_ms >= u->told_ms + TOLD_MS &&
           p->claimed_ms <= u->told_claimed_ms + c->f->swarm.share_window_ms - TOLD_MS &&
           quiet_since(c, u->told_claimed_ms);
}

/* Returns true if an owner may look at at_ms as if it had finished: a task that has told an
 * outcome, and has followed for so long since that it may fetch instead. Its request may arrive
 * later. */
static bool may_look_finished(const struct sim_common *c, const struct photo *p, int64_t at_ms)
{
    for (const struct photo *o = c->photos; o; o = o->hh.next)
        if (o != p && o->url == p->url && o->claimed && o->told && at_ms - o->claimed_ms >= WAITS_MS)
            return true;
    return false;
}

/* Returns true if the task was to follow another one, which had made its request, instead of a
 * request that began at `at_ms`. */
static bool could_follow(const struct sim_common *c, const struct photo *p, int64_t at_ms)
{
    for (const struct photo *o = c->photos; o; o = o->hh.next)
        if (o != p && o->url == p->url && o->claimed && o->owns && !o->told && o->requested_ms &&
            o->answered_ms < o->claimed_ms && p->claimed_ms > o->requested_ms &&
            at_ms - p->claimed_ms < WAITS_MS && quiet_since(c, o->claimed_ms))
            return !may_look_finished(c, p, at_ms);
    return false;
}

void sim_common_request(struct sim_common *c, const struct sim_request *q, bool ended)
{
    const char *client = sim_request_client(q);
    struct pp_key key = {0};

    if (!strstr(q->host, ".all.example"))
        return;
    key = pp_photo_key_sent(client, q->url, strcspn(q->url, "?"));
    struct photo *p = photo_find(c, client, &key);
    if (p && ended)
        p->answered_ms = now_of(c);
    if (ended || !p || !p->claimed || p->requested_ms || q->began_ms < p->claimed_ms ||
        strcmp(p->process, q->process) != 0)
        return;
    if (p->older) { /* it may be of either claim */
        take_over(c, p);
        return;
    }
    p->requested_ms = now_of(c);
    bool checked = p->shares && sim_shares_agree(c->f);

    if (checked && could_take(c, p))
        report(c, p, "a request, although another task has told the outcome");
    else if (checked && could_follow(c, p, q->began_ms))
        report(c, p, "a request, although another task fetches the URL");
    take_over(c, p);
}

void sim_common_look(struct sim_common *c)
{
    int64_t now = now_of(c);

    for (struct photo *p = c->photos; p; p = p->hh.next) {
        int64_t since_ms = p->claimed_ms > c->f->disturbed_ms ? p->claimed_ms : c->f->disturbed_ms;
        if (!p->claimed || now - since_ms <= LONGEST_MS)
            continue;
        report(c, p, "a claimed task that does not end");
        p->claimed_ms = now;
    }
}
