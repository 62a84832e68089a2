/* s3_blob_store.c: implements the operations of the blob store port by requests to the store. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/s3/internal.h"
#include "base/check.h"
#include "base/object_name.h"
#include "base/text.h"

#define PROBE_ATTEMPTS 2

struct pp_blob_part {
    struct pp_s3_store *store;
    int fd;
    uint64_t bytes;
};

static struct pp_s3_store *s3_of(struct pp_blob_store *b)
{
    return (struct pp_s3_store *)b;
}

/* Returns the Content-Type for a file name extension. Browsers need it if somebody makes the bucket
 * public; photopool does not read it. */
static const char *content_type(const char *ext)
{
    static const char *const types[][2] = {
        {"jpg", "image/jpeg"},  {"png", "image/png"},   {"gif", "image/gif"},
        {"webp", "image/webp"}, {"avif", "image/avif"}, {"heic", "image/heic"},
        {"bmp", "image/bmp"},   {"tiff", "image/tiff"}, {"tif", "image/tiff"}};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(types[i][0], ext) == 0)
            return types[i][1];
    return "application/octet-stream";
}

/* --- writing --- */

/* Writes an object. If the caller asks whether the object existed, sends HEAD first: a new object
 * then costs one more round trip, and an existing object is not uploaded. */
static enum pp_err put_object(struct pp_s3_store *s, const uint8_t sha256[32], const char *ext,
                              struct pp_s3_source source, bool *existed)
{
    char path[PP_OBJECT_NAME_MAX], hex[65];

    pp_object_path(path, sha256, ext);
    pp_hex(hex, sha256, 32);
    if (existed) {
        struct pp_s3_call head = {.name = "put", .method = PP_S3_HEAD, .key = path};
        enum pp_err err = pp_s3_call(s, &head);
        *existed = err == PP_OK && head.size == source.size;
        if (*existed || (err != PP_OK && err != PP_ENOTFOUND))
            return err;
    }
    struct pp_s3_call call = {.name = "put",
                              .method = PP_S3_PUT,
                              .key = path,
                              .source = source,
                              .sha256_hex = hex,
                              .content_type = content_type(ext)};
    enum pp_err err = pp_s3_call(s, &call);
    return err == PP_ENOTFOUND ? PP_EIO : err;
}

static enum pp_err s3_put(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                          const struct iovec *iov, int n, bool *existed)
{
    struct pp_s3_source source = {.iov = iov, .n = n, .fd = -1};

    pp_assert(iov || n == 0, "pieces without an array");
    for (int i = 0; i < n; i++)
        source.size += iov[i].iov_len;
    return put_object(s3_of(b), sha256, ext, source, existed);
}

/* Opens an unlinked file, which collects an object written in parts until the object is whole and
 * its name is known. When a process is killed, the system frees its files. Returns -1 on failure;
 * errno has the reason. */
static int open_spool(const char *dir)
{
    char path[600];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
        return fd;
    /* The file system has no O_TMPFILE. */
    snprintf(path, sizeof(path), "%s/photopool-XXXXXX", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Remembers errno for s3_reason(), and returns the code for it. */
static enum pp_err from_errno(struct pp_s3_store *s)
{
    char words[PP_S3_REASON_MAX];
    (void)snprintf(words, sizeof(words), "%.400s: %s", s->spool_dir, strerror(errno));
    pp_s3_remember(s, words);
    return errno == ENOSPC || errno == EDQUOT ? PP_ENOSPC : PP_EIO;
}

static enum pp_err s3_open(struct pp_blob_store *b, struct pp_blob_part **out)
{
    struct pp_blob_part *part = calloc(1, sizeof(*part));
    if (!part)
        return PP_ENOMEM;
    part->store = s3_of(b);
    part->fd = open_spool(part->store->spool_dir);
    if (part->fd < 0) {
        enum pp_err err = from_errno(part->store);
        free(part);
        return err;
    }
    *out = part;
    return PP_OK;
}

static enum pp_err s3_write(struct pp_blob_part *part, const struct iovec *iov, int n)
{
    for (int i = 0; i < n; i++) {
        part->bytes += iov[i].iov_len;
        for (size_t at = 0; at < iov[i].iov_len;) {
            ssize_t done = write(part->fd, (const char *)iov[i].iov_base + at, iov[i].iov_len - at);
            if (done < 0 && errno == EINTR)
                continue;
            if (done < 0)
                return from_errno(part->store);
            at += (size_t)done;
        }
    }
    return PP_OK;
}

static void s3_abort(struct pp_blob_part *part)
{
    pp_assert(part->fd >= 0, "an object in parts without its spool file");
    close(part->fd);
    free(part);
}

static enum pp_err s3_commit(struct pp_blob_part *part, const uint8_t sha256[32], const char *ext,
                             bool *existed)
{
    const struct pp_s3_source source = {.fd = part->fd, .size = part->bytes};
    enum pp_err err = put_object(part->store, sha256, ext, source, existed);

    s3_abort(part);
    return err;
}

/* --- reading, removing --- */

static enum pp_err s3_get(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext, uint64_t offset,
                          void *buf, size_t max, size_t *n, uint64_t *size)
{
    char path[PP_OBJECT_NAME_MAX];

    pp_object_path(path, sha256, ext);
    *n = 0;
    *size = 0;
    if (max > 0 && offset <= INT64_MAX - (uint64_t)max) {
        struct pp_s3_call call = {
            .name = "get", .method = PP_S3_GET, .key = path, .from = offset, .buf = buf, .max = max};
        enum pp_err err = pp_s3_call(s3_of(b), &call);
        if (err != PP_OK || call.status != 416) {
            pp_assert(call.got <= max, "more bytes are read than asked for");
            *n = err == PP_OK ? call.got : 0;
            *size = err == PP_OK ? call.size : 0;
            return err;
        }
    }
    /* The caller reads no bytes and asks only for the object's size. */
    struct pp_s3_call call = {.name = "get", .method = PP_S3_HEAD, .key = path};
    enum pp_err err = pp_s3_call(s3_of(b), &call);
    *size = err == PP_OK ? call.size : 0;
    return err;
}

static enum pp_err s3_remove(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext)
{
    char path[PP_OBJECT_NAME_MAX];

    pp_object_path(path, sha256, ext);
    struct pp_s3_call call = {.name = "remove", .method = PP_S3_DELETE, .key = path};
    enum pp_err err = pp_s3_call(s3_of(b), &call);
    return err == PP_ENOTFOUND ? PP_OK : err;
}

/* --- objects written since --- */

struct recent {
    int64_t since_ms;
    struct pp_blob_name *out;
    size_t cap, n;
    bool more;
    size_t prefix; /* length of the configured prefix with its slash, which precedes "sha256/" */
};

static void add_recent(void *data, const char *key, size_t n, int64_t modified_ms)
{
    struct recent *r = data;
    struct pp_blob_name name;

    if (modified_ms < r->since_ms || n < r->prefix || !pp_object_parse(&name, key + r->prefix, n - r->prefix))
        return;
    pp_assert(r->n <= r->cap, "more names than the caller has room for");
    if (r->n < r->cap)
        r->out[r->n++] = name;
    else
        r->more = true;
}

static void put_escaped(struct pp_buf *b, const char *s)
{
    /* Escapes as RFC 3986 says, because signatures require that form. */
    char *escaped = curl_easy_escape(NULL, s, 0);

    pp_buf_puts(b, escaped ? escaped : "");
    b->failed |= !escaped;
    curl_free(escaped);
}

static void make_query(struct pp_buf *query, const struct pp_s3_store *s, const char *token)
{
    pp_buf_reset(query);
    if (token[0]) {
        pp_buf_puts(query, "continuation-token=");
        put_escaped(query, token);
        pp_buf_putc(query, '&');
    }
    pp_buf_puts(query, "list-type=2&max-keys=1000&prefix=");
    put_escaped(query, s->o.prefix);
    pp_buf_puts(query, s->o.prefix[0] ? "%2Fsha256%2F" : "sha256%2F");
}

static enum pp_err list_recent(struct pp_s3_store *s, struct recent *r, struct pp_buf *query,
                               struct pp_buf *answer)
{
    struct pp_s3_page page = {.truncated = true};

    for (unsigned i = 0; page.truncated && !r->more; i++) {
        if (i == s->o.list_pages_max) {
            r->more = true; /* the bucket has more pages than recent() may read */
            break;
        }
        make_query(query, s, page.token);
        if (query->failed)
            return PP_ENOMEM;
        struct pp_s3_call call = {.name = "list", .method = PP_S3_GET, .query = query->p, .answer = answer};
        enum pp_err err = pp_s3_call(s, &call);
        if (err != PP_OK)
            return err == PP_ENOTFOUND ? PP_EIO : err;
        if (!pp_s3_list_parse(answer->p ? answer->p : "", answer->n, add_recent, r, &page)) {
            pp_log(s->o.log, PP_LOG_WARN, "object store: list of names unreadable", "bucket", s->o.bucket,
                   NULL);
            return PP_EIO;
        }
    }
    return PP_OK;
}

/* Lists objects written at or after since_ms. Reads the whole list, because stores sort by name,
 * not by time. Rounds since_ms down to whole seconds, as stores do with their times. */
static enum pp_err s3_recent(struct pp_blob_store *b, int64_t since_ms, struct pp_blob_name *out, size_t cap,
                             size_t *n, bool *more)
{
    struct pp_s3_store *s = s3_of(b);
    struct recent r = {.since_ms = since_ms - (since_ms % 1000 + 1000) % 1000,
                       .out = out,
                       .cap = cap,
                       .prefix = strlen(s->o.prefix) + (s->o.prefix[0] != '\0')};
    struct pp_buf query, answer;

    pp_buf_init(&query, 8192);
    pp_buf_init(&answer, PP_S3_PAGE_MAX);
    enum pp_err err = list_recent(s, &r, &query, &answer);
    pp_buf_fini(&query);
    pp_buf_fini(&answer);
    *n = err == PP_OK ? r.n : 0;
    *more = r.more;
    return err;
}

/* --- the owner object --- */

static enum pp_err read_owner(struct pp_s3_store *s, char line[PP_BLOB_OWNER_MAX])
{
    struct pp_buf answer;

    pp_buf_init(&answer, 4096);
    struct pp_s3_call call = {.name = "own",
                              .method = PP_S3_GET,
                              .key = PP_BLOB_OWNER_NAME,
                              .attempts = PROBE_ATTEMPTS,
                              .timeout_ms = s->o.probe_ms,
                              .answer = &answer};
    enum pp_err err = pp_s3_call(s, &call);
    (void)snprintf(line, PP_BLOB_OWNER_MAX, "%.*s", err == PP_OK ? (int)answer.n : 0,
                   answer.p ? (const char *)answer.p : "");
    pp_buf_fini(&answer);
    return err;
}

static enum pp_err s3_own(struct pp_blob_store *b, struct pp_blob_owner *owner)
{
    struct pp_s3_store *s = s3_of(b);
    const struct iovec iov = {.iov_base = owner->mine, .iov_len = strlen(owner->mine)};
    char hex[65];

    enum pp_err err = read_owner(s, owner->found);
    owner->adopted = err == PP_ENOTFOUND;
    if (!owner->adopted)
        return err;
    pp_hex(hex, owner->sha256, 32);
    struct pp_s3_call call = {.name = "own",
                              .method = PP_S3_PUT,
                              .key = PP_BLOB_OWNER_NAME,
                              .attempts = PROBE_ATTEMPTS,
                              .timeout_ms = s->o.probe_ms,
                              .source = {.iov = &iov, .n = 1, .fd = -1, .size = iov.iov_len},
                              .sha256_hex = hex,
                              .content_type = "text/plain"};
    err = pp_s3_call(s, &call);
    if (err == PP_OK)
        err = read_owner(s, owner->found);
    return err == PP_ENOTFOUND ? PP_EIO : err;
}

/* --- probes --- */

static enum pp_err probe(struct pp_s3_store *s, struct pp_s3_failure *failure)
{
    static const char text[] = "ready";
    const struct iovec iov = {.iov_base = (void *)text, .iov_len = 5};
    struct pp_s3_call call = {.name = "check",
                              .method = PP_S3_PUT,
                              .key = "probe",
                              .attempts = PROBE_ATTEMPTS,
                              .timeout_ms = s->o.probe_ms,
                              .source = {.iov = &iov, .n = 1, .fd = -1, .size = 5},
                              .sha256_hex =
                                  "b24d6d33736ecd5604a4b17bc9c6481039fac362bb7df044ef1c10a2bfd21db6",
                              .content_type = "text/plain"};
    enum pp_err err = pp_s3_call(s, &call);

    *failure = call.failure;
    return err == PP_ENOTFOUND ? PP_EIO : err;
}

static enum pp_err s3_check(struct pp_blob_store *b)
{
    struct pp_s3_failure failure;
    return probe(s3_of(b), &failure);
}

static void s3_reason(struct pp_blob_store *b, char *text, size_t n)
{
    struct pp_s3_store *s = s3_of(b);

    pthread_mutex_lock(&s->lock);
    (void)snprintf(text, n, "%s", s->reason);
    pthread_mutex_unlock(&s->lock);
}

enum pp_err pp_s3_blob_store_probe(struct pp_blob_store *b, char reason[PP_S3_REASON_MAX])
{
    struct pp_s3_failure failure;
    enum pp_err err = probe(s3_of(b), &failure);

    reason[0] = '\0';
    if (err != PP_OK)
        pp_s3_reason(&failure, reason);
    return err != PP_OK && failure.lasting ? PP_EINVAL : err;
}

/* --- open, close --- */

static void s3_close(struct pp_blob_store *b)
{
    struct pp_s3_store *s = s3_of(b);

    pp_s3_conns_close(s);
    pthread_mutex_destroy(&s->lock);
    free(s->root);
    if (s->token_line)
        explicit_bzero(s->token_line, strlen(s->token_line));
    free(s->token_line);
    explicit_bzero(&s->o, sizeof(s->o));
    free(s);
    curl_global_cleanup();
}

static const struct pp_blob_store_ops ops = {.put = s3_put,
                                             .open = s3_open,
                                             .write = s3_write,
                                             .commit = s3_commit,
                                             .abort = s3_abort,
                                             .get = s3_get,
                                             .remove = s3_remove,
                                             .recent = s3_recent,
                                             .own = s3_own,
                                             .check = s3_check,
                                             .reason = s3_reason,
                                             .close = s3_close};

#define DEFAULT(field, value) o->field = o->field > 0 ? o->field : (value)
static void fill_defaults(struct pp_s3_options *o)
{
    DEFAULT(connect_ms, 5000);
    DEFAULT(stall_ms, 10000);
    DEFAULT(probe_ms, 5000);
    DEFAULT(timeout_ms, 60000);
    DEFAULT(backoff_ms, 100);
    DEFAULT(say_ms, 60000);
    DEFAULT(attempts, 5);
    DEFAULT(list_pages_max, 1000);
}

static enum pp_err set_spool(struct pp_s3_store *s, const char *dir)
{
    if (!dir || !*dir)
        dir = getenv("TMPDIR");
    if (!dir || dir[0] != '/')
        dir = "/tmp";
    if ((size_t)snprintf(s->spool_dir, sizeof(s->spool_dir), "%s", dir) >= sizeof(s->spool_dir))
        return PP_EINVAL;
    int fd = open_spool(s->spool_dir);
    if (fd < 0)
        return PP_EIO;
    close(fd);
    return PP_OK;
}

/* Writes the bucket's URL, "https://HOST/PATH/BUCKET/" or "https://BUCKET.HOST/PATH/", and the
 * header line with the session token. */
static bool make_root(struct pp_s3_store *s)
{
    const struct pp_s3_options *o = &s->o;
    const char *host = strstr(o->endpoint, "://");
    int scheme = host ? (int)(host + 3 - o->endpoint) : 0;
    int n = o->path_style
                ? asprintf(&s->root, "%s/%s/", o->endpoint, o->bucket)
                : asprintf(&s->root, "%.*s%s.%s/", scheme, o->endpoint, o->bucket, o->endpoint + scheme);
    if (n < 0)
        s->root = NULL;
    if (o->session_token[0] && asprintf(&s->token_line, "x-amz-security-token: %s", o->session_token) < 0)
        s->token_line = NULL;
    return s->root && (s->token_line || !o->session_token[0]);
}

enum pp_err pp_s3_blob_store_open(const struct pp_s3_options *o, struct pp_blob_store **out)
{
    if (!o->bucket[0] || !o->endpoint[0] || !o->region[0] || !o->access_key[0] || !o->secret_key[0] ||
        (o->ca_file[0] && access(o->ca_file, R_OK) != 0))
        return PP_EINVAL;
    struct pp_s3_store *s = calloc(1, sizeof(*s));
    if (!s || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(s);
        return PP_ENOMEM;
    }
    s->base.ops = &ops;
    s->o = *o;
    fill_defaults(&s->o);
    s->said_ms = INT64_MIN / 2;
    pthread_mutex_init(&s->lock, NULL);
    snprintf(s->signing, sizeof(s->signing), "aws:amz:%s:s3", o->region);
    enum pp_err err = make_root(s) ? set_spool(s, o->spool_dir) : PP_ENOMEM;
    if (err != PP_OK) {
        int saved = errno;
        s3_close(&s->base);
        errno = saved;
        return err;
    }
    s->o.spool_dir = s->spool_dir;
    *out = &s->base;
    return PP_OK;
}
