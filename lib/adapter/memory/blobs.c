/* blobs.c: the blob store in memory: objects in a hash table, parts in lists.
 *
 * A mutex guards a server, its ports and their parts: each function holds it while it runs.
 *
 * Invariants: `used` is the number of bytes of all objects and all parts. A part is in the list of
 * its port until it ends or its port is cut; then it has no bytes. The hash table iterates in the
 * order in which objects appeared. */
#include "adapter/memory/blobs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"

enum { PROBE_BYTES = 262144 }; /* as large as a usual photo: so much must fit for check() */

struct memory_blob {
    struct pp_blob_name name;
    int64_t written_ms;
    size_t n;
    UT_hash_handle hh;
    uint8_t bytes[];
};

struct pp_memory_blobs {
    struct pp_memory_blobs_options options;
    pthread_mutex_t mutex;
    struct memory_blob *objects;
    uint64_t used;
    enum pp_err fault;
    size_t ports; /* number of ports that are open and not cut */
    size_t parts;
    struct pp_list cut; /* the ports that were cut */
    char owner[PP_BLOB_OWNER_MAX];
};

struct blobs_port {
    struct pp_blob_store base;
    struct pp_node node; /* in the server's list `cut` */
    struct pp_memory_blobs *server;
    struct pp_list parts;
    bool is_cut;
    enum pp_err failed; /* how the last failed call ended */
};

struct pp_blob_part {
    struct pp_node node; /* in its port's list */
    struct blobs_port *port;
    uint8_t *bytes;
    size_t n, cap;
};

static struct blobs_port *port_of(struct pp_blob_store *b)
{
    return (struct blobs_port *)b;
}

/* Begins a call: locks the server. Returns how the call must fail, or PP_OK. */
static enum pp_err enter(struct blobs_port *p)
{
    pthread_mutex_lock(&p->server->mutex);
    return p->is_cut ? PP_EIO : p->server->fault;
}

/* Ends a call. */
static enum pp_err leave(struct blobs_port *p, enum pp_err err)
{
    if (err != PP_OK && err != PP_ENOTFOUND)
        p->failed = err;
    pthread_mutex_unlock(&p->server->mutex);
    return err;
}

static bool fits(const struct pp_memory_blobs *s, uint64_t n)
{
    uint64_t max = s->options.capacity;
    return max == 0 || (s->used <= max && n <= max - s->used);
}

static size_t total(const struct iovec *iov, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

static void join(uint8_t *to, const struct iovec *iov, int n)
{
    for (int i = 0; i < n; i++) {
        if (iov[i].iov_len > 0)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

/* --- objects --- */

/* Makes a name all of whose bytes are set, because it is a key. */
static struct pp_blob_name name_of(const uint8_t sha256[32], const char *ext)
{
    struct pp_blob_name name = {.ext = ""};
    size_t n = strlen(ext);
    pp_assert(n > 0 && n < sizeof name.ext, "an extension has a wrong length");
    memcpy(name.sha256, sha256, 32);
    memcpy(name.ext, ext, n);
    return name;
}

static struct memory_blob *find(struct pp_memory_blobs *s, const struct pp_blob_name *name)
{
    struct memory_blob *x = NULL;
    HASH_FIND(hh, s->objects, name, sizeof *name, x);
    return x;
}

/* Returns whether the server has the object, also in `existed`, which may be NULL. */
static bool is_there(struct pp_memory_blobs *s, const struct pp_blob_name *name, bool *existed)
{
    bool there = find(s, name);
    if (existed)
        *existed = there;
    return there;
}

/* Adds an object, which the server does not have. */
static enum pp_err add(struct pp_memory_blobs *s, const struct pp_blob_name *name, const struct iovec *iov,
                       int n)
{
    size_t bytes = total(iov, n);
    struct memory_blob *x = malloc(sizeof *x + bytes);
    if (!x)
        return PP_ENOMEM;
    x->name = *name;
    x->written_ms = s->options.now_ms ? s->options.now_ms(s->options.data) : pp_clock_wall_ms();
    x->n = bytes;
    join(x->bytes, iov, n);
    if (!PP_HASH_ADD(s->objects, &x->name, sizeof x->name, x)) {
        free(x);
        return PP_ENOMEM;
    }
    s->used += bytes;
    return PP_OK;
}

static void forget(struct pp_memory_blobs *s, struct memory_blob *x)
{
    pp_assert(s->used >= x->n, "an object has more bytes than the server");
    s->used -= x->n;
    HASH_DELETE(hh, s->objects, x);
    free(x);
}

static enum pp_err blobs_put(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                             const struct iovec *iov, int n, bool *existed)
{
    struct blobs_port *p = port_of(b);
    const struct pp_blob_name name = name_of(sha256, ext);
    enum pp_err err = enter(p);
    if (err == PP_OK && !is_there(p->server, &name, existed))
        err = fits(p->server, total(iov, n)) ? add(p->server, &name, iov, n) : PP_ENOSPC;
    return leave(p, err);
}

static enum pp_err blobs_get(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                             uint64_t offset, void *buf, size_t max, size_t *n, uint64_t *size)
{
    struct blobs_port *p = port_of(b);
    const struct pp_blob_name name = name_of(sha256, ext);
    enum pp_err err = enter(p);
    const struct memory_blob *x = err == PP_OK ? find(p->server, &name) : NULL;
    if (err == PP_OK && !x)
        err = PP_ENOTFOUND;
    if (err != PP_OK)
        return leave(p, err);
    size_t left = offset < x->n ? x->n - (size_t)offset : 0;
    *size = x->n;
    *n = left < max ? left : max;
    if (*n > 0)
        memcpy(buf, x->bytes + offset, *n);
    return leave(p, PP_OK);
}

static enum pp_err blobs_remove(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext)
{
    struct blobs_port *p = port_of(b);
    const struct pp_blob_name name = name_of(sha256, ext);
    enum pp_err err = enter(p);
    struct memory_blob *x = err == PP_OK ? find(p->server, &name) : NULL;
    if (x)
        forget(p->server, x);
    return leave(p, err);
}

static enum pp_err blobs_recent(struct pp_blob_store *b, int64_t since_ms, struct pp_blob_name *out,
                                size_t cap, size_t *n, bool *more)
{
    struct blobs_port *p = port_of(b);
    enum pp_err err = enter(p);
    *n = 0;
    *more = false;
    const struct memory_blob *x = err == PP_OK ? p->server->objects : NULL;
    for (; x && !*more; x = x->hh.next) {
        if (x->written_ms < since_ms)
            continue;
        *more = *n == cap;
        if (!*more)
            out[(*n)++] = x->name;
    }
    return leave(p, err);
}

/* --- parts --- */

static enum pp_err blobs_open_part(struct pp_blob_store *b, struct pp_blob_part **out)
{
    struct blobs_port *p = port_of(b);
    struct pp_blob_part *part = NULL;
    enum pp_err err = enter(p);
    if (err == PP_OK && !(part = calloc(1, sizeof *part)))
        err = PP_ENOMEM;
    if (err != PP_OK)
        return leave(p, err);
    part->port = p;
    pp_list_push(&p->parts, &part->node);
    p->server->parts++;
    *out = part;
    return leave(p, PP_OK);
}

static enum pp_err append(struct pp_memory_blobs *s, struct pp_blob_part *part, const struct iovec *iov,
                          int n)
{
    size_t bytes = total(iov, n), needed = part->n + bytes;
    if (!fits(s, bytes))
        return PP_ENOSPC;
    if (needed > part->cap) {
        size_t cap = needed > 2 * part->cap ? needed : 2 * part->cap;
        uint8_t *grown = realloc(part->bytes, cap);
        if (!grown)
            return PP_ENOMEM;
        part->bytes = grown;
        part->cap = cap;
    }
    if (bytes > 0)
        join(part->bytes + part->n, iov, n);
    part->n = needed;
    s->used += bytes;
    return PP_OK;
}

static enum pp_err blobs_write(struct pp_blob_part *part, const struct iovec *iov, int n)
{
    struct blobs_port *p = part->port;
    enum pp_err err = enter(p);
    return leave(p, err == PP_OK ? append(p->server, part, iov, n) : err);
}

/* Forgets the bytes of a part. */
static void empty(struct pp_memory_blobs *s, struct pp_blob_part *part)
{
    pp_assert(s->used >= part->n && s->parts > 0, "a part has more bytes than the server");
    s->used -= part->n;
    free(part->bytes);
    part->bytes = NULL;
    part->n = part->cap = 0;
}

/* Ends a part. The server frees a part whose port was cut. */
static void end_part(struct pp_blob_part *part)
{
    struct blobs_port *p = part->port;
    if (p->is_cut)
        return;
    empty(p->server, part);
    p->server->parts--;
    pp_list_remove(&p->parts, &part->node);
    free(part);
}

static enum pp_err blobs_commit(struct pp_blob_part *part, const uint8_t sha256[32], const char *ext,
                                bool *existed)
{
    struct blobs_port *p = part->port;
    const struct pp_blob_name name = name_of(sha256, ext);
    enum pp_err err = enter(p);
    const struct iovec iov = {.iov_base = part->bytes, .iov_len = part->n};
    /* A full server accepts the object, which takes the place of the part. */
    if (err == PP_OK && !is_there(p->server, &name, existed))
        err = add(p->server, &name, &iov, 1);
    end_part(part);
    return leave(p, err);
}

static void blobs_abort(struct pp_blob_part *part)
{
    struct blobs_port *p = part->port;
    (void)enter(p);
    end_part(part);
    (void)leave(p, PP_OK);
}

/* --- the other operations --- */

static enum pp_err blobs_own(struct pp_blob_store *b, struct pp_blob_owner *owner)
{
    struct blobs_port *p = port_of(b);
    enum pp_err err = enter(p);
    owner->adopted = err == PP_OK && p->server->owner[0] == '\0';
    if (owner->adopted)
        memcpy(p->server->owner, owner->mine, sizeof owner->mine);
    if (err == PP_OK)
        memcpy(owner->found, p->server->owner, sizeof owner->found);
    return leave(p, err);
}

static enum pp_err blobs_check(struct pp_blob_store *b)
{
    struct blobs_port *p = port_of(b);
    enum pp_err err = enter(p);
    if (err == PP_OK && !fits(p->server, PROBE_BYTES))
        err = PP_ENOSPC;
    return leave(p, err);
}

static void blobs_reason(struct pp_blob_store *b, char *text, size_t n)
{
    struct blobs_port *p = port_of(b);
    (void)enter(p);
    snprintf(text, n, "%s", p->failed == PP_OK ? "" : pp_err_text(p->failed));
    (void)leave(p, PP_OK);
}

static void blobs_close(struct pp_blob_store *b)
{
    struct blobs_port *p = port_of(b);
    struct pp_memory_blobs *s = p->server;
    pthread_mutex_lock(&s->mutex);
    bool is_cut = p->is_cut;
    pp_assert(is_cut || (pp_list_empty(&p->parts) && s->ports > 0),
              "a blob store is closed while parts are open");
    s->ports -= !is_cut;
    pthread_mutex_unlock(&s->mutex);
    if (!is_cut)
        free(p);
}

static const struct pp_blob_store_ops ops = {.put = blobs_put,
                                             .open = blobs_open_part,
                                             .write = blobs_write,
                                             .commit = blobs_commit,
                                             .abort = blobs_abort,
                                             .get = blobs_get,
                                             .remove = blobs_remove,
                                             .recent = blobs_recent,
                                             .own = blobs_own,
                                             .check = blobs_check,
                                             .reason = blobs_reason,
                                             .close = blobs_close};

enum pp_err pp_memory_blobs_open(struct pp_memory_blobs *server, struct pp_blob_store **out)
{
    struct blobs_port *p = calloc(1, sizeof *p);
    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->server = server;
    pp_list_init(&p->parts);
    pthread_mutex_lock(&server->mutex);
    server->ports++;
    pthread_mutex_unlock(&server->mutex);
    *out = &p->base;
    return PP_OK;
}

void pp_memory_blobs_cut(struct pp_blob_store *store)
{
    struct blobs_port *p = port_of(store);
    struct pp_memory_blobs *s = p->server;
    pthread_mutex_lock(&s->mutex);
    pp_assert(!p->is_cut && s->ports > 0, "a port is cut twice");
    p->is_cut = true;
    s->ports--;
    pp_list_push(&s->cut, &p->node);
    pp_list_each (node, &p->parts) {
        empty(s, pp_container_of(node, struct pp_blob_part, node));
        s->parts--;
    }
    pthread_mutex_unlock(&s->mutex);
}

/* --- the server --- */

struct pp_memory_blobs *pp_memory_blobs_new(const struct pp_memory_blobs_options *o)
{
    struct pp_memory_blobs *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (o)
        s->options = *o;
    pp_list_init(&s->cut);
    if (pthread_mutex_init(&s->mutex, NULL) == 0)
        return s;
    free(s);
    return NULL;
}

static void free_cut(struct blobs_port *p)
{
    struct pp_node *node;
    while ((node = pp_list_pop(&p->parts)))
        free(pp_container_of(node, struct pp_blob_part, node));
    free(p);
}

void pp_memory_blobs_free(struct pp_memory_blobs *s)
{
    struct pp_node *node;
    if (!s)
        return;
    pp_assert(s->ports == 0 && s->parts == 0, "a server is freed before its ports are closed");
    while ((node = pp_list_pop(&s->cut)))
        free_cut(pp_container_of(node, struct blobs_port, node));
    while (s->objects)
        forget(s, s->objects);
    pp_assert(s->used == 0, "a server without objects has bytes");
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

void pp_memory_blobs_fail(struct pp_memory_blobs *s, enum pp_err err)
{
    pthread_mutex_lock(&s->mutex);
    s->fault = err;
    pthread_mutex_unlock(&s->mutex);
}

void pp_memory_blobs_limit(struct pp_memory_blobs *s, uint64_t capacity)
{
    pthread_mutex_lock(&s->mutex);
    s->options.capacity = capacity;
    pthread_mutex_unlock(&s->mutex);
}

void pp_memory_blobs_each(struct pp_memory_blobs *s,
                          void (*cb)(void *data, const struct pp_memory_blob *blob), void *data)
{
    pthread_mutex_lock(&s->mutex);
    for (const struct memory_blob *x = s->objects; x; x = x->hh.next) {
        const struct pp_memory_blob blob = {
            .name = x->name, .bytes = x->bytes, .n = x->n, .written_ms = x->written_ms};
        cb(data, &blob);
    }
    pthread_mutex_unlock(&s->mutex);
}

size_t pp_memory_blobs_parts(struct pp_memory_blobs *s)
{
    pthread_mutex_lock(&s->mutex);
    size_t n = s->parts;
    pthread_mutex_unlock(&s->mutex);
    return n;
}

uint64_t pp_memory_blobs_bytes(struct pp_memory_blobs *s)
{
    pthread_mutex_lock(&s->mutex);
    uint64_t n = s->used;
    pthread_mutex_unlock(&s->mutex);
    return n;
}
