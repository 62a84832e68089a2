/* answer.c: builds an answer of the fake photo host in this order: random choices, status, content,
 * content coding, head, transfer coding, and the byte after which sending stops. */
#include "answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "making.h"

#define OG_LAST_MODIFIED "Sat, 01 Nov 2025 10:00:00 GMT"
/* An answer with the key `endless` has this many bytes: 16 GiB. */
#define OG_ENDLESS      (UINT64_C(1) << 34)
#define OG_HEAD_ENDLESS (UINT64_C(1) << 26)

const char *og_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } table[] = {{200, "OK"},
                 {204, "No Content"},
                 {206, "Partial Content"},
                 {301, "Moved Permanently"},
                 {302, "Found"},
                 {304, "Not Modified"},
                 {307, "Temporary Redirect"},
                 {308, "Permanent Redirect"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {410, "Gone"},
                 {429, "Too Many Requests"},
                 {431, "Headers Too Large"},
                 {500, "Internal Server Error"},
                 {502, "Bad Gateway"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].status == status)
            return table[i].reason;
    }
    return "Other";
}

void *og_answer_mem(struct og_answer *a, size_t n)
{
    if (n <= OG_SCRATCH - a->used) {
        void *p = a->scratch + a->used;
        a->used += n;
        return p;
    }
    assert(a->heaps < OG_HEAPS);
    void *p = malloc(n);
    if (p != NULL)
        a->heap[a->heaps++] = p;
    return p;
}

static void init(struct og_answer *a)
{
    og_body_init(&a->wire);
    a->head_n = a->stop_at = a->delay_ms = a->drip = 0;
    a->end = OG_END_KEEP;
    a->heaps = 0;
    a->map = NULL;
    a->used = 0;
}

void og_answer_fini(struct og_answer *a)
{
    for (unsigned i = 0; i < a->heaps; i++)
        free(a->heap[i]);
    if (a->map != NULL)
        munmap(a->map, a->map_n);
    a->heaps = 0;
    a->map = NULL;
}

/* ---- random choices and status ---- */

static void draw(struct making *m, uint64_t lot)
{
    struct og_behaviour *b = m->b;
    if (b->fail.count > 0)
        og_behaviour_apply(b, og_mix_draw(&b->fail, og_mix64(m->hash + 1)));
    if (b->chance.count > 0)
        og_behaviour_apply(b, og_mix_draw(&b->chance, lot));
    if (b->flaky > 0 && og_tally_url(m->w->tally, m->hash) < b->flaky)
        og_behaviour_apply(b, b->flaky_what);
}

static bool not_modified(const struct making *m)
{
    if (m->b->etag && m->r->if_none_match.n == 18) {
        char tag[20];
        struct og_out o = {tag, tag + sizeof tag};
        out_str(&o, "\"");
        for (int i = 60; i >= 0; i -= 4)
            out_hex(&o, m->id >> i & 15);
        out_str(&o, "\"");
        return memcmp(tag, m->r->if_none_match.p, 18) == 0;
    }
    return m->b->last_modified && m->r->if_none_match.n == 0 &&
           og_slice_is(m->r->if_modified_since, OG_LAST_MODIFIED);
}

static void decide_status(struct making *m)
{
    struct og_behaviour *b = m->b;
    bool redirect = b->location.p != NULL || b->longlocation > 0 || b->hops > 0;
    if (b->status != OG_NOT_GIVEN && b->status >= 100 && b->status <= 999)
        m->status = (unsigned)b->status;
    else
        m->status = redirect ? 302 : b->ntlm ? 401 : not_modified(m) ? 304 : 200;
}

/* ---- head ---- */

static void head_text(struct og_out *o, const char *name, struct og_text t)
{
    if (t.p == NULL || (size_t)(o->end - o->p) < t.n + 600)
        return;
    out_str(o, name);
    o->p += og_unescape(o->p, t.p, t.n);
    out_str(o, "\r\n");
}

/* Returns the value of the last `hops` parameter in the query. If the query has none, p of the
 * result is NULL. */
static struct og_slice query_hops(struct og_slice q)
{
    static const char name[] = "hops=";
    struct og_slice value = {NULL, 0};
    const char *p = q.p, *end = q.p + q.n;
    while (p < end) {
        const char *amp = memchr(p, '&', (size_t)(end - p)), *stop = amp != NULL ? amp : end;
        if ((size_t)(stop - p) >= sizeof name - 1 && memcmp(p, name, sizeof name - 1) == 0)
            value = (struct og_slice){p + sizeof name - 1, (size_t)(stop - p) - (sizeof name - 1)};
        p = stop + (amp != NULL);
    }
    return value;
}

/* Writes a Location header with the request's own target and one hop less. The number of hops goes
 * into the query even if the first number came from the hosts file or the defaults: the query
 * overrides the hosts file and the defaults. */
static void head_hops(const struct making *m, struct og_out *o)
{
    struct og_slice t = m->r->target, q = m->r->query, value = query_hops(q);
    const char *end = t.p + t.n;
    if ((size_t)(o->end - o->p) < t.n + 600)
        return;
    out_str(o, "Location: ");
    if (value.p != NULL) {
        out_put(o, t.p, (size_t)(value.p - t.p));
    } else {
        out_put(o, t.p, t.n);
        out_str(o, memchr(t.p, '?', t.n) == NULL ? "?hops=" : "&hops=");
    }
    out_number(o, m->b->hops - 1);
    if (value.p != NULL)
        out_put(o, value.p + value.n, (size_t)(end - value.p) - value.n);
    out_str(o, "\r\n");
}

static void head_validators(const struct making *m, struct og_out *o)
{
    if (m->b->etag) {
        out_str(o, "ETag: \"");
        for (int i = 60; i >= 0; i -= 4)
            out_hex(o, m->id >> i & 15);
        out_str(o, "\"\r\n");
    }
    if (m->b->last_modified)
        out_str(o, "Last-Modified: " OG_LAST_MODIFIED "\r\n");
}

static void head_extras(const struct making *m, struct og_out *o)
{
    const struct og_behaviour *b = m->b;
    if (b->etag | b->last_modified)
        head_validators(m, o);
    if (b->set_cookie)
        out_str(o, "Set-Cookie: origin=tracked; Path=/; Max-Age=86400\r\n");
    if (b->alt_svc)
        out_str(o, "Alt-Svc: h2=\"alt.example:443\"; ma=86400\r\n");
    if (b->hsts)
        out_str(o, "Strict-Transport-Security: max-age=31536000; includeSubDomains\r\n");
    if (b->ntlm)
        out_str(o, "WWW-Authenticate: NTLM\r\n");
    if (b->hops > 0)
        head_hops(m, o);
    head_text(o, "Retry-After: ", b->retry_after);
    if (m->encoding != NULL)
        out_str(o, "Content-Encoding: gzip\r\n");
    if (m->status == 206) {
        out_str(o, "Content-Range: bytes 0-");
        out_number(o, m->body.n > 0 ? m->body.n - 1 : 0);
        out_str(o, "/");
        out_number(o, m->body.n * 2);
        out_str(o, "\r\n");
    }
}

static bool has_body(const struct making *m)
{
    return m->status >= 200 && m->status != 204 && m->status != 304;
}

static bool is_chunked(const struct making *m)
{
    return m->b->chunked | m->b->endless | m->b->badchunk;
}

static void head_length(const struct making *m, struct og_out *o)
{
    if (!has_body(m) || m->b->nolength)
        return;
    if (is_chunked(m)) {
        out_str(o, "Transfer-Encoding: chunked\r\n");
        return;
    }
    out_str(o, "Content-Length: ");
    out_number(o, m->body.n);
    out_str(o, "\r\n");
    if (m->b->twolengths) {
        out_str(o, "Content-Length: ");
        out_number(o, m->body.n + 17);
        out_str(o, "\r\n");
    }
}

/* Adds headers that are too long for the scratch memory to the answer, each as a separate piece. */
static void head_long(struct making *m)
{
    struct og_body *wire = &m->a->wire;
    const struct og_behaviour *b = m->b;
    if (b->location.p != NULL) {
        char *text = og_answer_mem(m->a, b->location.n + 1);
        size_t n = text != NULL ? og_unescape(text, b->location.p, b->location.n) : 0;
        og_body_add(wire, "Location: ", 10);
        og_body_add(wire, text, n);
        og_body_add(wire, "\r\n", 2);
    }
    if (b->longlocation > 0) {
        og_body_add(wire, "Location: /", 11);
        og_body_repeat(wire, m->w->bulk->letters, OG_ZEROS, b->longlocation - 1);
        og_body_add(wire, "\r\n", 2);
    }
    if (b->longheader > 0) {
        og_body_add(wire, "X-Long: ", 8);
        og_body_repeat(wire, m->w->bulk->letters, OG_ZEROS, b->longheader);
        og_body_add(wire, "\r\n", 2);
    }
    uint64_t lines = b->nohead_end ? OG_HEAD_ENDLESS : b->manyheaders;
    og_body_repeat(wire, m->w->bulk->lines, sizeof m->w->bulk->lines, lines * OG_LINE);
}

static void head(struct making *m, bool keep)
{
    struct og_answer *a = m->a;
    char *from = og_answer_mem(a, OG_HEAD_MAX);
    if (from == NULL)
        return;
    struct og_out o = {from, from + OG_HEAD_MAX};
    if (m->status == 200) {
        out_str(&o, "HTTP/1.1 200 OK\r\nServer: origin\r\n");
    } else {
        out_str(&o, "HTTP/1.1 ");
        out_number(&o, m->status);
        out_str(&o, " ");
        out_str(&o, og_reason(m->status));
        out_str(&o, "\r\nServer: origin\r\n");
    }
    out_str(&o, m->w->date);
    if (has_body(m)) {
        if (m->b->type.p != NULL) {
            head_text(&o, "Content-Type: ", m->b->type);
        } else {
            out_str(&o, "Content-Type: ");
            out_str(&o, m->mime);
            out_str(&o, "\r\n");
        }
    }
    head_length(m, &o);
    head_extras(m, &o);
    if (!keep)
        out_str(&o, "Connection: close\r\n");
    og_body_add(&a->wire, from, (uint64_t)(o.p - from));
    head_long(m);
    if (!m->b->nohead_end)
        og_body_add(&a->wire, "\r\n", 2);
    a->head_n = a->wire.n;
}

/* ---- wire ---- */

/* Wraps each piece of the body in one chunk of the chunked transfer coding. */
static void wire_chunks(struct making *m)
{
    enum { ROOM = 20 }; /* A chunk's hex digits and line break take at most this many bytes. */
    struct og_answer *a = m->a;
    char *sizes = og_answer_mem(a, (size_t)m->body.count * ROOM);
    if (sizes == NULL)
        return;
    for (unsigned i = 0; i < m->body.count; i++) {
        const struct og_piece *x = &m->body.piece[i];
        char *from = sizes + (size_t)i * ROOM;
        struct og_out o = {from, from + ROOM};
        out_hex(&o, x->n);
        out_str(&o, "\r\n");
        og_body_add(&a->wire, from, (uint64_t)(o.p - from));
        og_body_repeat(&a->wire, x->p, x->period, x->n);
        og_body_add(&a->wire, "\r\n", 2);
        if (m->b->badchunk) {
            og_body_add(&a->wire, "zz\r\nno number\r\n", 15);
            return;
        }
    }
    if (m->b->endless)
        og_body_repeat(&a->wire, m->w->bulk->chunk, OG_WIRE_CHUNK, OG_ENDLESS);
    else
        og_body_add(&a->wire, "0\r\n\r\n", 5);
}

static void wire_body(struct making *m)
{
    if (m->r->is_head || !has_body(m))
        return;
    if (is_chunked(m)) {
        wire_chunks(m);
        return;
    }
    for (unsigned i = 0; i < m->body.count; i++)
        og_body_repeat(&m->a->wire, m->body.piece[i].p, m->body.piece[i].period, m->body.piece[i].n);
}

static void stop_after(struct making *m, uint64_t body_bytes, enum og_end end)
{
    struct og_answer *a = m->a;
    uint64_t at = body_bytes < a->wire.n - a->head_n ? a->head_n + body_bytes : a->wire.n;
    if (at == a->wire.n && end == OG_END_CUT)
        return;
    a->stop_at = at;
    a->end = end;
}

static void ending(struct making *m, bool keep)
{
    struct og_answer *a = m->a;
    const struct og_behaviour *b = m->b;
    a->stop_at = a->wire.n;
    a->end = keep ? OG_END_KEEP : OG_END_CLOSE;
    if (b->cut != OG_NOT_GIVEN)
        stop_after(m, b->cut, b->reset ? OG_END_RESET : OG_END_CUT);
    if (b->stall != OG_NOT_GIVEN && b->stall != OG_STALL_HEAD)
        stop_after(m, b->stall, OG_END_STALL);
    bool silent = b->stall == OG_STALL_HEAD, dead = b->reset && b->cut == OG_NOT_GIVEN;
    if (silent || dead) {
        a->stop_at = 0;
        a->status = 0;
        a->end = dead ? OG_END_RESET : OG_END_STALL;
    }
}

void og_answer_make(struct og_answer *a, const struct og_world *w, const struct og_request *r,
                    struct og_behaviour *b, uint64_t hash, uint64_t lot)
{
    struct making m = {.a = a, .w = w, .r = r, .b = b, .hash = hash, .mime = "image/jpeg"};
    init(a);
    og_body_init(&m.body);
    m.id = b->seed != OG_NOT_GIVEN ? og_mix64(b->seed + 1) : hash;
    draw(&m, lot);
    decide_status(&m);
    og_content(&m);
    if (b->gzip == OG_GZIP_BOMB)
        og_code_bomb(&m);
    if (b->gzip == OG_GZIP_OK)
        og_code_gzip(&m);
    bool keep =
        r->keep_alive && !b->close && !b->nolength && !b->badchunk && !b->twolengths && !b->nohead_end;
    a->status = (uint16_t)m.status;
    a->delay_ms = og_range_draw(b->delay, og_mix64(hash + 2));
    a->drip = b->drip;
    head(&m, keep);
    if (!b->nohead_end)
        wire_body(&m);
    ending(&m, keep);
}

void og_answer_text(struct og_answer *a, const struct og_request *r, uint16_t status, const char *type,
                    const char *text, size_t n)
{
    init(a);
    char *from = og_answer_mem(a, 256);
    char *copy = og_answer_mem(a, n + 1);
    if (copy == NULL)
        n = 0;
    if (n > 0)
        memcpy(copy, text, n);
    int k = snprintf(from, 256,
                     "HTTP/1.1 %u %s\r\nServer: origin\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
                     status, og_reason(status), type, n, r->keep_alive ? "" : "Connection: close\r\n");
    og_body_add(&a->wire, from, (uint64_t)k);
    a->head_n = a->wire.n;
    if (!r->is_head)
        og_body_add(&a->wire, copy, n);
    a->stop_at = a->wire.n;
    a->end = r->keep_alive ? OG_END_KEEP : OG_END_CLOSE;
    a->status = status;
}
