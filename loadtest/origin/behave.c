/* behave.c: the table of keys that decide how the origin answers, and the parser of their
 * values. */
#include "behave.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(s) (s), sizeof(s) - 1

const struct og_fixed_body og_fixed_bodies[] = {
    {"html", "text/html; charset=utf-8",
     TEXT("<!DOCTYPE html>\n<html><head><title>Not found</title></head><body><h1>Sorry, this photo is "
          "gone</h1></body></html>\n")},
    {"svg", "image/svg+xml",
     TEXT("<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" "
          "height=\"10\"><script>alert(1)</script>"
          "<rect width=\"10\" height=\"10\"/></svg>\n")},
    {"text", "text/plain", TEXT("no picture here\n")},
    {"empty", "image/jpeg", "", 0},
    {"garbage", "application/octet-stream",
     TEXT("\x13\x37\xfe\xed garbage \x00\x01\x02\xff\xd8 that is no picture")},
    {"xml", "application/xml",
     TEXT("<?xml version=\"1.0\"?>\n<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b "
          "\"&a;&a;&a;&a;&a;&a;&a;&a;\">"
          "<!ENTITY f SYSTEM \"file:///etc/passwd\">]>\n<x>&b;&b;&f;</x>\n")},
    {"pdf", "application/pdf",
     TEXT("%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n")},
    {"eps", "application/postscript",
     TEXT("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n%%EOF\n")},
    {"psd", "image/vnd.adobe.photoshop",
     TEXT("8BPS\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x0a\x00\x00\x00\x0a\x00\x08\x00\x03")},
    {"script", "text/x-shellscript", TEXT("#!/bin/sh\necho no\n")},
    {NULL, NULL, NULL, 0},
};

static const struct {
    const char *name;
    uint8_t kind;
} whats[] = {
    {"reset", OG_WHAT_RESET}, {"stall", OG_WHAT_STALL},           {"stallbody", OG_WHAT_STALLBODY},
    {"cut", OG_WHAT_CUT},     {"badchunk", OG_WHAT_BADCHUNK},     {"endless", OG_WHAT_ENDLESS},
    {"bomb", OG_WHAT_BOMB},   {"twolengths", OG_WHAT_TWOLENGTHS},
};

static bool same(const char *name, const char *p, size_t n)
{
    return strlen(name) == n && memcmp(name, p, n) == 0;
}

static bool number(const char *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if (n == 0 || n > 18)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *out = v;
    return true;
}

static bool body_kind(const char *p, size_t n, uint64_t *out)
{
    for (size_t i = 0; og_fixed_bodies[i].name != NULL; i++) {
        if (same(og_fixed_bodies[i].name, p, n)) {
            *out = i + 1;
            return true;
        }
    }
    return false;
}

static bool what(const char *p, size_t n, struct og_what *out)
{
    uint64_t v;
    if (number(p, n, &v)) {
        *out = (struct og_what){OG_WHAT_STATUS, (uint16_t)v};
        return v >= 100 && v <= 999;
    }
    if (body_kind(p, n, &v)) {
        *out = (struct og_what){OG_WHAT_BODY, (uint16_t)v};
        return true;
    }
    for (size_t i = 0; i < sizeof whats / sizeof whats[0]; i++) {
        if (same(whats[i].name, p, n)) {
            *out = (struct og_what){whats[i].kind, 0};
            return true;
        }
    }
    return false;
}

/* ---- setters, one for each kind of value; each gets the field's address ---- */

static bool set_number(void *field, const char *p, size_t n)
{
    return number(p, n, field);
}

static bool set_flag(void *field, const char *p, size_t n)
{
    uint64_t *f = field;
    *f = n == 1 && *p == '0' ? 0 : 1;
    return n == 0 || same("1", p, n) || same("0", p, n) || same("ntlm", p, n);
}

static bool set_range(void *field, const char *p, size_t n)
{
    struct og_range r;
    const char *dash = memchr(p, '-', n);
    size_t lo_n = dash != NULL ? (size_t)(dash - p) : n;
    if (!number(p, lo_n, &r.lo))
        return false;
    r.hi = r.lo;
    if (dash != NULL && !number(dash + 1, n - lo_n - 1, &r.hi))
        return false;
    if (r.hi < r.lo)
        return false;
    *(struct og_range *)field = r;
    return true;
}

static bool set_text(void *field, const char *p, size_t n)
{
    *(struct og_text *)field = (struct og_text){p, n};
    return true;
}

static bool set_format(void *field, const char *p, size_t n)
{
    enum og_format f = og_format_by_name(p, n);
    *(uint64_t *)field = (uint64_t)f;
    return f != OG_FORMATS || same("any", p, n);
}

static bool set_body(void *field, const char *p, size_t n)
{
    if (same("image", p, n)) {
        *(uint64_t *)field = 0;
        return true;
    }
    return body_kind(p, n, field);
}

static bool set_stall(void *field, const char *p, size_t n)
{
    uint64_t *f = field;
    if (same("head", p, n)) {
        *f = OG_STALL_HEAD;
        return true;
    }
    if (same("body", p, n)) {
        *f = 0;
        return true;
    }
    return number(p, n, f);
}

static bool set_gzip(void *field, const char *p, size_t n)
{
    *(uint64_t *)field = same("bomb", p, n) ? OG_GZIP_BOMB : same("ok", p, n) ? OG_GZIP_OK : OG_GZIP_NONE;
    return *(uint64_t *)field != OG_GZIP_NONE || same("0", p, n);
}

/* Parses "SHARE:WHAT,SHARE:WHAT": what goes wrong for which share of the URLs. "0" means
 * nothing. */
static bool set_mix(void *field, const char *p, size_t n)
{
    struct og_mix m = {0};
    double sum = 0;
    while (n > 0 && !same("0", p, n)) {
        const char *comma = memchr(p, ',', n);
        size_t part = comma != NULL ? (size_t)(comma - p) : n;
        const char *colon = memchr(p, ':', part);
        char text[24];
        if (colon == NULL || m.count == OG_MIXES || (size_t)(colon - p) >= sizeof text)
            return false;
        memcpy(text, p, (size_t)(colon - p));
        text[colon - p] = '\0';
        char *end;
        m.share[m.count] = strtod(text, &end);
        sum += m.share[m.count];
        if (*end != '\0' || end == text || !(m.share[m.count] >= 0) || sum > 1.0000001)
            return false;
        if (!what(colon + 1, part - (size_t)(colon + 1 - p), &m.what[m.count]))
            return false;
        m.count++;
        p += part + (comma != NULL);
        n -= part + (comma != NULL);
    }
    *(struct og_mix *)field = m;
    return true;
}

/* Parses "N" or "N:WHAT": the first N requests for a URL fail with WHAT (default: status 503). Sets
 * two fields, so `field` is the whole behaviour. */
static bool set_flaky(void *field, const char *p, size_t n)
{
    struct og_behaviour *b = field;
    const char *colon = memchr(p, ':', n);
    size_t head = colon != NULL ? (size_t)(colon - p) : n;
    b->flaky_what = (struct og_what){OG_WHAT_STATUS, 503};
    if (colon != NULL && !what(colon + 1, n - head - 1, &b->flaky_what))
        return false;
    return number(p, head, &b->flaky);
}

#define KEY(field) offsetof(struct og_behaviour, field)

static const struct key {
    const char *name;
    bool (*set)(void *field, const char *p, size_t n);
    size_t at;
    bool decides; /* A key with `decides` in a query replaces the random failures of the host. */
    const char *help;
} keys[] = {
    {"delay", set_range, KEY(delay), false, "MS or LO-HI      wait before the answer"},
    {"bytes", set_range, KEY(bytes), false, "N or LO-HI       size of the picture (50000-100000)"},
    {"fmt", set_format, KEY(format), false, "jpeg|png|gif|webp|bmp|tiff|avif|heic|any"},
    {"w", set_number, KEY(w), false, "N                width that the header declares"},
    {"h", set_number, KEY(h), false, "N                height"},
    {"seed", set_number, KEY(seed), false,
     "N                same seed, size and format: same bytes for any URL"},
    {"body", set_body, KEY(body), true, "image|html|svg|text|empty|garbage|xml|pdf|eps|psd|script"},
    {"type", set_text, KEY(type), false, "TEXT             Content-Type"},
    {"status", set_number, KEY(status), true, "N                also 204, 206, 304 to a plain GET"},
    {"fail", set_mix, KEY(fail), true, "P:WHAT,...       random by URL, the same in every run"},
    {"chance", set_mix, KEY(chance), true, "P:WHAT,...       random by request"},
    {"flaky", set_flaky, 0, true, "K or K:WHAT      the first K requests of a URL fail (503)"},
    {"reset", set_flag, KEY(reset), true, "1                RST instead of an answer, or after `cut` bytes"},
    {"stall", set_stall, KEY(stall), true,
     "head|body|N      silence: no answer, after the head, after N bytes"},
    {"cut", set_number, KEY(cut), true, "N                close after N bytes of the body"},
    {"drip", set_number, KEY(drip), false, "N                bytes a second"},
    {"close", set_flag, KEY(close), false, "1                Connection: close"},
    {"nolength", set_flag, KEY(nolength), false, "1                no length, the close ends the body"},
    {"chunked", set_flag, KEY(chunked), false, "1                chunked coding"},
    {"endless", set_flag, KEY(endless), true, "1                chunks without end"},
    {"badchunk", set_flag, KEY(badchunk), true, "1                an invalid chunk size"},
    {"twolengths", set_flag, KEY(twolengths), true, "1                two Content-Length that differ"},
    {"longheader", set_number, KEY(longheader), true, "N                one header of N bytes"},
    {"manyheaders", set_number, KEY(manyheaders), true, "N                N more header lines"},
    {"nohead_end", set_flag, KEY(nohead_end), true, "1                headers without end"},
    {"gzip", set_gzip, KEY(gzip), true, "ok|bomb          Content-Encoding; the bomb is 4 GiB from 4 MB"},
    {"location", set_text, KEY(location), true, "URL              redirect (302 unless status)"},
    {"longlocation", set_number, KEY(longlocation), true, "N                redirect to a URL of N bytes"},
    {"hops", set_number, KEY(hops), true, "N                N redirects to itself, then the picture"},
    {"retry_after", set_text, KEY(retry_after), false, "TEXT             Retry-After"},
    {"etag", set_flag, KEY(etag), false, "1                ETag, and 304 where it matches"},
    {"last_modified", set_flag, KEY(last_modified), false, "1                Last-Modified, and 304"},
    {"set_cookie", set_flag, KEY(set_cookie), false, "1"},
    {"alt_svc", set_flag, KEY(alt_svc), false, "1"},
    {"hsts", set_flag, KEY(hsts), false, "1"},
    {"auth", set_flag, KEY(ntlm), true, "ntlm             401 with WWW-Authenticate: NTLM"},
    {"client", set_text, KEY(client), false, "ID               client in the record (also a path /c/ID/...)"},
};

void og_behaviour_help(void)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        printf("  %-14s %s\n", keys[i].name, keys[i].help);
}

void og_behaviour_init(struct og_behaviour *b)
{
    *b = (struct og_behaviour){.bytes = {50000, 100000},
                               .w = OG_NOT_GIVEN,
                               .h = OG_NOT_GIVEN,
                               .seed = OG_NOT_GIVEN,
                               .status = OG_NOT_GIVEN,
                               .cut = OG_NOT_GIVEN,
                               .stall = OG_NOT_GIVEN};
}

static const struct key *find(const char *p, size_t n)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (same(keys[i].name, p, n))
            return &keys[i];
    }
    return NULL;
}

void og_behaviour_query(struct og_behaviour *b, const char *p, size_t n)
{
    bool cleared = false;
    while (n > 0) {
        const char *amp = memchr(p, '&', n);
        size_t part = amp != NULL ? (size_t)(amp - p) : n;
        const char *eq = memchr(p, '=', part);
        size_t name_n = eq != NULL ? (size_t)(eq - p) : part;
        const struct key *k = find(p, name_n);
        if (k != NULL) {
            if (k->decides && !cleared) {
                b->fail.count = b->chance.count = 0;
                cleared = true;
            }
            const char *v = eq != NULL ? eq + 1 : p + part;
            k->set((char *)b + k->at, v, (size_t)(p + part - v)); /* an invalid value is ignored */
        }
        p += part + (amp != NULL);
        n -= part + (amp != NULL);
    }
}

bool og_behaviour_text(struct og_behaviour *b, const char *p, size_t n, char *why, size_t why_n)
{
    const char *end = p + n;
    while (p < end) {
        const char *from = p;
        while (p < end && *p != ' ' && *p != '\t')
            p++;
        size_t part = (size_t)(p - from);
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        if (part == 0)
            continue;
        const char *eq = memchr(from, '=', part);
        const struct key *k = eq != NULL ? find(from, (size_t)(eq - from)) : NULL;
        if (k == NULL) {
            snprintf(why, why_n, "\"%.*s\" is no key=value of ours", (int)part, from);
            return false;
        }
        if (!k->set((char *)b + k->at, eq + 1, (size_t)(from + part - eq - 1))) {
            snprintf(why, why_n, "\"%.*s\": the value is wrong; %s takes %s", (int)part, from, k->name,
                     k->help);
            return false;
        }
    }
    return true;
}

struct og_what og_mix_draw(const struct og_mix *m, uint64_t lot)
{
    double u = (double)(lot >> 11) * 0x1p-53;
    for (unsigned i = 0; i < m->count; i++) {
        if (u < m->share[i])
            return m->what[i];
        u -= m->share[i];
    }
    return (struct og_what){OG_WHAT_NONE, 0};
}

void og_behaviour_apply(struct og_behaviour *b, struct og_what x)
{
    switch (x.kind) {
    case OG_WHAT_STATUS: b->status = x.arg; break;
    case OG_WHAT_RESET: b->reset = 1; break;
    case OG_WHAT_STALL: b->stall = OG_STALL_HEAD; break;
    case OG_WHAT_STALLBODY: b->stall = 0; break;
    case OG_WHAT_CUT: b->cut = b->bytes.lo / 2; break;
    case OG_WHAT_BADCHUNK: b->badchunk = 1; break;
    case OG_WHAT_ENDLESS: b->endless = 1; break;
    case OG_WHAT_TWOLENGTHS: b->twolengths = 1; break;
    case OG_WHAT_BOMB: b->gzip = OG_GZIP_BOMB; break;
    case OG_WHAT_BODY: b->body = x.arg; break;
    default: break;
    }
}

uint64_t og_range_draw(struct og_range r, uint64_t lot)
{
    return r.lo + (r.hi > r.lo ? lot % (r.hi - r.lo + 1) : 0);
}

uint64_t og_mix64(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t og_hash(uint64_t seed, const void *p, size_t n)
{
    const uint8_t *c = p;
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 0x100000001b3u;
    return og_mix64(h);
}
