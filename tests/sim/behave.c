/* behave.c: decides how hosts behave; see behave.h. Each decision has its own number in enum what,
 * so that a new decision does not change the others of a seed. */
#include "behave.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "image_make.h"
#include "photopool/code.h"

#define DAY_MS INT64_C(86400000)

enum what {
    WHAT_PROFILE,
    WHAT_LATENCY,
    WHAT_NAMING,
    WHAT_ADDRESSES,
    WHAT_OUTAGE,
    WHAT_OUTAGE_TIMES,
    WHAT_VALIDATORS,
    WHAT_LIMIT,
    WHAT_LOOKUP,
    WHAT_LOOKUP_TIME,
    WHAT_CONNECT,
    WHAT_WAY,
    WHAT_JITTER,
    WHAT_REUSE,
    WHAT_HEAD_TIME,
    WHAT_BODY_TIME,
    WHAT_FAULT,
    WHAT_FACT,
    WHAT_DETAIL,
    WHAT_VERSION,
    WHAT_PHOTO,
};

/* --- random numbers --- */

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u; /* splitmix64 (Steele, Lea, Flood 2014) */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t sim_draw(uint64_t seed, const char *text, uint64_t what, uint64_t n)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return mix(mix(mix(h ^ mix(seed)) + what) + n);
}

int64_t sim_draw_ms(uint64_t draw, int64_t lo, int64_t hi)
{
    double share = (double)(draw >> 11) / 9007199254740992.0; /* 2^53 */

    pp_assert(lo > 0 && hi >= lo, "a range of times is empty");
    return (int64_t)((double)lo * pow((double)hi / (double)lo, share));
}

/* Subtracts `share` permille from the lot. Returns true if the lot falls into this share, so that
 * one lot chooses one of several shares. */
static bool hits(int *lot, unsigned share)
{
    bool before = *lot >= 0;

    *lot -= (int)share;
    return before && *lot < 0;
}

static int lot_of(uint64_t draw)
{
    return (int)(draw % 1000);
}

/* --- hosts --- */

/* The kinds of hosts, with their share in percent. */
static const struct {
    unsigned share;
    struct sim_behaviour b;
} profiles[] = {
    /* in order */
    {32,
     {50, 400, .missing = 60, .redirecting = 30, .lying = 10, .failing = 10, .stalling = 3, .resetting = 3,
      .cutting = 2}},
    /* careless: many photos are gone */
    {22,
     {80, 900, .missing = 600, .redirecting = 120, .lying = 60, .failing = 20, .stalling = 5, .cutting = 5}},
    /* slow, and very slow */
    {14,
     {800, 8000, .missing = 150, .redirecting = 30, .lying = 10, .failing = 40, .stalling = 40, .silent = 10,
      .cutting = 10}},
    {8,
     {5000, 30000, .missing = 150, .failing = 60, .stalling = 100, .silent = 30, .resetting = 20,
      .dns_failing = 30}},
    /* flaky */
    {12,
     {100, 2000, .missing = 100, .failing = 200, .throttling = 30, .stalling = 60, .resetting = 80,
      .cutting = 80, .refusing = 80, .silent = 30, .dns_failing = 50}},
    /* asks for fewer requests */
    {8, {60, 600, .missing = 100, .throttling = 120, .failing = 20, .limit = 1}},
    /* lies and leads astray */
    {4, {60, 600, .missing = 100, .redirecting = 450, .lying = 300}},
};

static uint16_t scaled(uint16_t share, unsigned percent)
{
    return (uint16_t)(share * percent / 100);
}

static void scale(struct sim_behaviour *b, unsigned percent)
{
    uint16_t *const shares[] = {&b->missing,    &b->redirecting, &b->lying,      &b->failing,
                                &b->throttling, &b->stalling,    &b->resetting,  &b->cutting,
                                &b->refusing,   &b->silent,      &b->dns_failing};

    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++)
        *shares[i] = scaled(*shares[i], percent);
}

static struct sim_outages draw_outages(uint64_t seed, const char *host, unsigned percent)
{
    const uint64_t draws[] = {sim_draw(seed, host, WHAT_OUTAGE, 0),
                              sim_draw(seed, host, WHAT_OUTAGE_TIMES, 0),
                              sim_draw(seed, host, WHAT_OUTAGE_TIMES, 1)};
    return sim_outages_draw(draws, percent);
}

static enum sim_naming draw_naming(uint64_t draw, unsigned percent)
{
    int lot = lot_of(draw);

    if (hits(&lot, scaled(30, percent)))
        return SIM_NAME_MIXED;
    if (hits(&lot, scaled(15, percent)))
        return SIM_NAME_DENIED;
    return hits(&lot, scaled(15, percent)) ? SIM_NAME_NOT_FOUND : SIM_NAME_PUBLIC;
}

struct sim_behaviour sim_behaviour_of(uint64_t seed, const char *host, unsigned trouble, unsigned outages)
{
    uint64_t draw = sim_draw(seed, host, WHAT_PROFILE, 0);
    unsigned lot = draw % 100, kind = 0;

    pp_assert(trouble <= 100, "more than all of the trouble");
    while (lot >= profiles[kind].share)
        lot -= profiles[kind++].share;
    struct sim_behaviour b = profiles[kind].b;
    scale(&b, trouble);
    if (b.limit)
        b.limit = trouble > 0 ? (uint16_t)(1 + sim_draw(seed, host, WHAT_LIMIT, 0) % 6) : 0;
    /* Each host has its own part of its profile's latencies. */
    b.latency_lo_ms =
        sim_draw_ms(sim_draw(seed, host, WHAT_LATENCY, 0), b.latency_lo_ms, b.latency_hi_ms / 2);
    b.bad_tls = (draw >> 32) % 1000 < scaled(10, trouble);
    b.validators = (enum sim_validators)(sim_draw(seed, host, WHAT_VALIDATORS, 0) % 3);
    b.naming = draw_naming(sim_draw(seed, host, WHAT_NAMING, 0), trouble);
    b.addresses = (uint8_t)(1 + (draw >> 48) % SIM_ADDRESSES_MAX);
    b.outages = draw_outages(seed, host, outages);
    return b;
}

char *sim_client_of(const char *host, char buf[SIM_CLIENT_MAX])
{
    const char *dot = strchr(host, '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
    size_t n = end ? (size_t)(end - dot - 1) : 0; /* the label with its "c" */

    buf[0] = '\0';
    if (host[0] == 'h' && n > 1 && n <= SIM_CLIENT_MAX && dot[1] == 'c' && strcmp(end, ".example") == 0) {
        memcpy(buf, dot + 2, n - 1);
        buf[n - 1] = '\0';
    }
    return buf;
}

/* --- names --- */

static void add_v4(struct sim_name *name, uint32_t host_order)
{
    struct sockaddr_in *sa = (struct sockaddr_in *)&name->addrs[name->n++];

    sa->sin_family = AF_INET;
    sa->sin_addr.s_addr = htonl(host_order);
}

static void add_text(struct sim_name *name, const char *text)
{
    struct sockaddr_in6 *sa = (struct sockaddr_in6 *)&name->addrs[name->n++];

    sa->sin6_family = AF_INET6;
    pp_assert(inet_pton(AF_INET6, text, &sa->sin6_addr) == 1, "an address is misspelled");
}

/* Public addresses are 93.0.0.0/8 and 2a00:cafe::/32. */
static void add_public(struct sim_name *name, uint64_t draw)
{
    char text[INET6_ADDRSTRLEN];

    if (draw % 4) {
        add_v4(name, UINT32_C(93) << 24 | (uint32_t)(draw >> 40));
        return;
    }
    snprintf(text, sizeof(text), "2a00:cafe::%x:1", (unsigned)(draw >> 48));
    add_text(name, text);
}

static void add_denied(struct sim_name *name, uint64_t draw)
{
    switch (draw % 5) {
    case 0: add_v4(name, 0x0a000000u | (uint32_t)(draw >> 40)); break; /* 10.x.x.x */
    case 1: add_v4(name, 0x7f000001u); break;                          /* 127.0.0.1 */
    case 2: add_v4(name, 0xa9fea9feu); break;                          /* 169.254.169.254 */
    case 3: add_text(name, "::1"); break;
    default: add_text(name, "::ffff:10.0.0.1"); break;
    }
}

bool sim_address_is_public(const struct sockaddr *sa)
{
    static const uint8_t prefix[] = {0x2a, 0x00, 0xca, 0xfe};

    if (sa->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24 == 93;
    return sa->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)sa)->sin6_addr, prefix, sizeof(prefix)) == 0;
}

bool sim_port_is_web(const struct sockaddr *sa)
{
    unsigned port = ntohs(sa->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)sa)->sin6_port
                                                    : ((const struct sockaddr_in *)sa)->sin_port);

    return port == 80 || port == 443;
}

struct sim_name sim_name_of(uint64_t seed, const char *host, const struct sim_behaviour *b, uint64_t n,
                            int64_t now_ms, bool calm)
{
    uint64_t draw = sim_draw(seed, host, WHAT_LOOKUP, n), time = sim_draw(seed, host, WHAT_LOOKUP_TIME, n);
    struct sim_name name = {.ms = sim_draw_ms(time, 1, 150)};
    int lot = calm ? 999 : lot_of(draw);

    if (b->naming == SIM_NAME_NOT_FOUND) {
        name.code = PP_CODE_DNS_NOT_FOUND;
        return name;
    }
    if (!calm && sim_outage_at(&b->outages, now_ms) == SIM_OUTAGE_DNS) {
        name.code = draw >> 63 ? PP_CODE_DNS_TEMPORARY : PP_CODE_DNS_NOT_FOUND;
        return name;
    }
    if (hits(&lot, b->dns_failing)) {
        name.code = PP_CODE_DNS_TEMPORARY;
        name.ms = sim_draw_ms(time, 100, 10000);
        return name;
    }
    if (hits(&lot, b->dns_failing))
        name.ms = sim_draw_ms(time, 1000, 10000);
    else
        name.cached = n > 0 && (draw >> 32) % 4 > 0;
    size_t public = b->naming == SIM_NAME_DENIED ? 0 : b->addresses;
    size_t denied = b->naming == SIM_NAME_PUBLIC ? 0 : 1 + (draw >> 40) % 2;
    /* The order changes from look-up to look-up, as a name server rotates it. */
    for (size_t i = 0; i < public + denied; i++) {
        size_t k = (i + (draw >> 48)) % (public + denied);
        uint64_t address = sim_draw(seed, host, WHAT_ADDRESSES, k);
        if (k < public)
            add_public(&name, address);
        else
            add_denied(&name, address);
    }
    return name;
}

/* --- connections --- */

enum sim_connected sim_connect_of(uint64_t seed, const char *host, const struct sim_behaviour *b, uint64_t n,
                                  int64_t now_ms, bool calm)
{
    int lot = calm ? 999 : lot_of(sim_draw(seed, host, WHAT_CONNECT, n));

    enum sim_outage outage = calm ? SIM_OUTAGE_NONE : sim_outage_at(&b->outages, now_ms);

    if (outage == SIM_OUTAGE_REFUSED)
        return SIM_REFUSED;
    if (hits(&lot, b->refusing))
        return SIM_REFUSED;
    if (hits(&lot, b->silent))
        return SIM_SILENT;
    return b->bad_tls || outage == SIM_OUTAGE_TLS ? SIM_BAD_TLS : SIM_CONNECTED;
}

int64_t sim_way_ms(uint64_t seed, const char *client)
{
    return sim_draw_ms(sim_draw(seed, client, WHAT_WAY, 0), 2, SIM_WAY_MAX_MS);
}

int64_t sim_jitter_ms(uint64_t seed, const char *host, uint64_t n)
{
    return (int64_t)(sim_draw(seed, host, WHAT_JITTER, n) % (SIM_JITTER_MS + 1));
}

bool sim_reuse_of(uint64_t seed, const char *host, uint64_t n, bool *dies)
{
    uint64_t draw = sim_draw(seed, host, WHAT_REUSE, n);

    *dies = (draw >> 32) % 50 == 0;
    return draw % 3 > 0;
}

/* --- answers --- */

uint32_t sim_version_at(uint64_t seed, const char *url, int64_t now_ms)
{
    uint64_t draw = sim_draw(seed, url, WHAT_VERSION, 0);

    if (draw % 5) /* four of five photos never change */
        return 0;
    int64_t every_ms = sim_draw_ms(sim_draw(seed, url, WHAT_VERSION, 1), 600000, 10 * DAY_MS);
    return (uint32_t)(((uint64_t)now_ms + (draw >> 32)) / (uint64_t)every_ms);
}

/* Sets the validators of this version. Returns true if the request has the same ones. */
static bool set_validators(uint64_t seed, const struct sim_behaviour *b, const struct sim_ask *ask,
                           struct sim_answer *a)
{
    uint64_t id = sim_draw(seed, ask->url, WHAT_PHOTO, a->version);

    if (b->validators == SIM_VALIDATORS_ETAG) {
        snprintf(a->etag, sizeof(a->etag), "\"%016" PRIx64 "\"", id);
        return ask->etag && strcmp(ask->etag, a->etag) == 0;
    }
    if (b->validators == SIM_VALIDATORS_DATE) {
        snprintf(a->last_modified, sizeof(a->last_modified), "Mon, 01 Jan 2024 %02u:%02u:%02u GMT",
                 (unsigned)(id % 24), (unsigned)((id >> 8) % 60), (unsigned)((id >> 16) % 60));
        return !ask->etag && ask->last_modified && strcmp(ask->last_modified, a->last_modified) == 0;
    }
    return false;
}

static void answer_status(struct sim_answer *a, int status)
{
    a->status = status;
    a->body = SIM_BODY_TEXT;
}

static void answer_photo(uint64_t seed, const struct sim_behaviour *b, const struct sim_ask *ask,
                         struct sim_answer *a)
{
    uint64_t draw = sim_draw(seed, ask->url, WHAT_DETAIL, 0);

    a->version = sim_version_at(seed, ask->url, ask->now_ms);
    if (set_validators(seed, b, ask, a)) {
        a->status = 304;
        return;
    }
    a->status = 200;
    a->body = SIM_BODY_PHOTO;
    a->chunked = draw % 4 == 0;
}

static void answer_lie(struct sim_answer *a, uint64_t draw)
{
    a->status = 200;
    a->body = SIM_BODY_PHOTO;
    switch (draw % 5) {
    case 0: a->body = SIM_BODY_HTML; break; /* as if it were a photo */
    case 1: a->body = SIM_BODY_HALF_PHOTO; break;
    case 2: a->surplus = 1 + (int64_t)((draw >> 32) % 5000); break; /* longer than the body */
    case 3: a->surplus = -4; break;
    default: a->body = SIM_BODY_NONE; break;
    }
}

/* Copies the URL up to its query. */
static void put_base(char *out, size_t size, const char *url)
{
    snprintf(out, size, "%.*s", (int)strcspn(url, "?#"), url);
}

/* Writes the URL of a place that policy denies: an address, a scheme, or a port of a host that is
 * otherwise in order. */
static void put_denied(char *out, size_t size, const char *client, uint64_t draw)
{
    static const char *const denied[] = {"http://127.0.0.1/photo.jpg", "http://10.0.0.8/", "http://[::1]/",
                                         "http://169.254.169.254/latest/", "ftp://ftp.example/photo.jpg"};
    static const unsigned ports[] = {22, 6379, 8080};

    if (*client && draw % 2)
        snprintf(out, size, "http://h%u.c%s.example:%u/photo.jpg", (unsigned)(draw >> 8) % 8, client,
                 ports[(draw >> 16) % 3]);
    else
        snprintf(out, size, "%s", denied[(draw >> 24) % 5]);
}

/* Some redirects lead to a photo, others to a denied place, into a circle, or ever on. A URL that
 * this function makes for another host has the query "moved", and redirects no more. */
static void answer_redirect(const struct sim_ask *ask, struct sim_answer *a, uint64_t draw)
{
    static const int statuses[] = {301, 302, 303, 307, 308};
    const char *on = strstr(ask->url, "?on=");
    char client[SIM_CLIENT_MAX], base[400];

    answer_status(a, statuses[draw % 5]);
    put_base(base, sizeof(base), ask->url);
    (void)sim_client_of(ask->host, client);
    if (on) {
        snprintf(a->location, sizeof(a->location), "%s?on=%ld", base, strtol(on + 4, NULL, 10) + 1);
        return;
    }
    switch ((draw >> 16) % 10) {
    case 0: put_denied(a->location, sizeof(a->location), client, draw >> 24); break;
    case 1: snprintf(a->location, sizeof(a->location), "%s", base); break; /* in a circle */
    case 2: snprintf(a->location, sizeof(a->location), "%s?on=1", base); break;
    case 3: a->location[0] = '\0'; break;
    case 4:
    case 5:
    case 6:
        if (*client) {
            snprintf(a->location, sizeof(a->location), "http://h%u.c%s.example/moved/%" PRIx64 ".jpg?moved",
                     (unsigned)(draw >> 32) % 8, client, draw);
            break;
        }
        /* fall through */
    default: snprintf(a->location, sizeof(a->location), "%s?moved", base); break;
    }
}

/* Decides what the URL always does. Returns false if it is a photo. */
static bool answer_fact(uint64_t seed, const struct sim_behaviour *b, const struct sim_ask *ask,
                        struct sim_answer *a)
{
    static const int missing[] = {404, 404, 404, 410, 403};
    uint64_t fact = sim_draw(seed, ask->url, WHAT_FACT, 0), detail = sim_draw(seed, ask->url, WHAT_DETAIL, 1);
    int lot = lot_of(fact);

    if (strstr(ask->url, "?on=")) {
        answer_redirect(ask, a, detail);
        return true;
    }
    if (hits(&lot, b->missing) &&
        ((fact >> 32) % 3 || ask->now_ms < (int64_t)((fact >> 40) % (uint64_t)DAY_MS)))
        answer_status(a, missing[detail % 5]);
    else if (hits(&lot, b->lying))
        answer_lie(a, detail);
    else if (hits(&lot, b->redirecting) && !strstr(ask->url, "?moved"))
        answer_redirect(ask, a, detail);
    else
        return false;
    return true;
}

static void put_retry_after(struct sim_answer *a, uint64_t draw)
{
    if (draw % 3 == 0)
        return;
    snprintf(a->retry_after, sizeof(a->retry_after), "%s", draw % 20 == 1 ? "soon" : "");
    if (!a->retry_after[0])
        snprintf(a->retry_after, sizeof(a->retry_after), "%u", 1 + (unsigned)(draw >> 32) % 60);
}

/* Answers what a host with an outage answers to all. Returns false if it has none, or none that
 * shows in its answers. */
static bool answer_outage(enum sim_outage outage, struct sim_answer *a)
{
    switch (outage) {
    case SIM_OUTAGE_RESET: a->status = 0; return true;
    case SIM_OUTAGE_TIMEOUT:
        a->status = 0;
        a->head_ms = SIM_STALL_MS;
        return true;
    case SIM_OUTAGE_500: answer_status(a, 500); return true;
    case SIM_OUTAGE_503: answer_status(a, 503); return true;
    case SIM_OUTAGE_404: answer_status(a, 404); return true;
    case SIM_OUTAGE_403: answer_status(a, 403); return true;
    case SIM_OUTAGE_HTML:
        a->status = 200;
        a->body = SIM_BODY_HTML;
        return true;
    default: return false;
    }
}

/* Decides if this request fails though its URL is in order. */
static bool answer_fault(const struct sim_behaviour *b, const struct sim_ask *ask, struct sim_answer *a,
                         uint64_t draw)
{
    static const int failures[] = {500, 502, 503, 504, 520};
    int lot = lot_of(draw);

    if (answer_outage(sim_outage_at(&b->outages, ask->now_ms), a)) {
        return true;
    } else if (hits(&lot, b->throttling)) {
        answer_status(a, 429);
        put_retry_after(a, draw >> 16);
    } else if (hits(&lot, b->failing)) {
        answer_status(a, failures[(draw >> 16) % 5]);
        if (a->status == 503)
            put_retry_after(a, draw >> 20);
    } else if (hits(&lot, b->resetting)) {
        a->status = 0;
    } else if (hits(&lot, b->stalling / 2u)) {
        a->status = 0;
        a->head_ms = SIM_STALL_MS;
    } else {
        return false;
    }
    return true;
}

/* Decides if the connection stalls or breaks in the body. */
static void cut_body(const struct sim_behaviour *b, struct sim_answer *a, uint64_t draw)
{
    int lot = lot_of(draw >> 24);
    bool stalls = hits(&lot, b->stalling / 2u);

    a->cut = stalls || hits(&lot, b->cutting);
    a->linger_ms = stalls ? SIM_STALL_MS : 0;
}

static enum sim_says says(const struct sim_answer *a)
{
    if (a->status == 304 || (a->status == 200 && a->body == SIM_BODY_PHOTO && !a->cut && a->surplus == 0))
        return SIM_SAYS_PHOTO;
    bool absent = a->status == 403 || a->status == 404 || a->status == 410 ||
                  (a->status == 200 && a->body == SIM_BODY_HTML);
    return absent ? SIM_SAYS_ABSENT : SIM_SAYS_OTHER;
}

/* Returns true if the answer is that of an outage, and the URL leads to a photo. */
static bool is_hidden(uint64_t seed, const struct sim_behaviour *b, const struct sim_ask *ask,
                      const struct sim_answer *a)
{
    struct sim_answer fact = {.status = 0};
    return says(a) == SIM_SAYS_ABSENT && !ask->calm && !ask->post &&
           sim_outage_hides(sim_outage_at(&b->outages, ask->now_ms)) && !answer_fact(seed, b, ask, &fact);
}

static struct sim_answer make_answer(uint64_t seed, const struct sim_behaviour *b, const struct sim_ask *ask)
{
    uint64_t time = sim_draw(seed, ask->host, WHAT_HEAD_TIME, ask->n),
             body = sim_draw(seed, ask->host, WHAT_BODY_TIME, ask->n),
             fault = sim_draw(seed, ask->host, WHAT_FAULT, ask->n);
    struct sim_answer a = {.head_ms = sim_draw_ms(time, b->latency_lo_ms, b->latency_hi_ms)};

    if (b->limit && ask->above >= b->limit) { /* a fact: a host keeps its limit when all is calm */
        a.head_ms = 5;
        answer_status(&a, 429);
        put_retry_after(&a, fault >> 16);
    } else if (!ask->calm && answer_fault(b, ask, &a, fault)) {
        return a;
    } else if (ask->post) {
        answer_status(&a, 200);
    } else if (!answer_fact(seed, b, ask, &a)) {
        answer_photo(seed, b, ask, &a);
        if (a.status == 200 && !ask->calm)
            cut_body(b, &a, fault);
    }
    a.body_ms = a.body == SIM_BODY_NONE ? 0 : sim_draw_ms(body, 1, a.head_ms);
    if (!ask->calm && sim_outage_at(&b->outages, ask->now_ms) == SIM_OUTAGE_DRIP)
        a.body_ms = SIM_STALL_MS;
    return a;
}

struct sim_answer sim_answer_of(uint64_t seed, const struct sim_behaviour *b, const struct sim_ask *ask)
{
    struct sim_answer a = make_answer(seed, b, ask);

    a.says = says(&a);
    a.hidden = is_hidden(seed, b, ask, &a);
    return a;
}

/* --- the bytes of answers --- */

void sim_photo_make(uint64_t seed, const char *url, uint32_t version, struct pp_buf *out)
{
    static const enum image_kind kinds[] = {IMAGE_JPEG, IMAGE_JPEG, IMAGE_JPEG,          IMAGE_PNG,
                                            IMAGE_GIF,  IMAGE_BMP,  IMAGE_WEBP_LOSSLESS, IMAGE_AVIF};
    uint64_t draw = sim_draw(seed, url, WHAT_PHOTO, version);

    image_make(out, kinds[draw % 8], 1 + (uint32_t)(draw >> 8) % 96, 1 + (uint32_t)(draw >> 24) % 96);
    /* Readers of images ignore what follows the image. */
    pp_buf_u64(out, draw);
}

size_t sim_photo_half(size_t whole)
{
    return whole < 24 ? whole / 2 : 12;
}

void sim_body_make(uint64_t seed, const char *url, const struct sim_answer *a, struct pp_buf *out)
{
    switch (a->body) {
    case SIM_BODY_NONE: break;
    case SIM_BODY_TEXT: pp_buf_printf(out, "status %d\n", a->status); break;
    case SIM_BODY_HTML: pp_buf_puts(out, "<!DOCTYPE html><html><title>Not here</title></html>\n"); break;
    case SIM_BODY_PHOTO: sim_photo_make(seed, url, a->version, out); break;
    case SIM_BODY_HALF_PHOTO: {
        struct pp_buf whole;
        pp_buf_init(&whole, 1 << 20);
        sim_photo_make(seed, url, a->version, &whole);
        pp_buf_put(out, whole.p, whole.failed ? 0 : sim_photo_half(whole.n));
        out->failed |= whole.failed;
        pp_buf_fini(&whole);
        break;
    }
    }
}
