/* photos.c: GET /v1/photos/{sha256}: serves stored photos. The bytes of a photo never change, so
 * callers may cache them for ever and ask for ranges.
 *
 * The store knows the owner and the type of a photo. A lane reads the bytes from the blob store in
 * pieces: the first one before the answer begins, so that a failure is answered as such, each later
 * one when the caller has read the one before. So a caller that reads slowly takes the memory of
 * one piece, and no thread. */
#include "api/handler.h"
#include "base/ledger.h"
#include "core/sniff.h"
#include "counters/photo_views.h"
#include "runtime/lane.h"

struct pp_photos {
    struct pp_lane *lane;
    struct pp_lane_home *home;
    size_t readers; /* number of photos that are being read or sent */
};

/* Reads the bytes of one answer. It outlives the call: the server gives it up when it has sent all
 * bytes, or when the connection has ended. */
struct reader {
    struct pp_http_source source;
    struct pp_photos *photos;
    const struct pp_api_options *o;
    uint8_t sha256[PP_SHA256_BYTES];
    const char *ext;
    uint64_t at, left;          /* the part of the photo that is not read yet */
    struct pp_call *call;       /* waits for the first piece; NULL afterwards */
    struct pp_account *account; /* has taken PP_HTTP_PIECE_MAX bytes while `call` is set */
    bool reading;               /* the lane reads a piece */
    bool gone;                  /* the server has given the reader up */
    struct pp_job job;
    char *piece; /* the piece that is read, or that no want() has asked for yet; NULL: none */
    size_t n;    /* length of the piece */
    enum pp_err err;
};

struct photo_state {
    struct pp_store_object object;
    char hex[2 * PP_SHA256_BYTES + 1];
    uint64_t from, n; /* first byte and length of the range of the photo in the answer */
    bool partial;
};

static void send_photo(struct pp_call *call, struct reader *reader)
{
    struct photo_state *s = call->state;
    struct pp_http_response res = {.status = s->partial ? 206 : 200,
                                   .content_type = pp_image_mime(s->object.object.type),
                                   .body_n = s->n,
                                   .source = reader ? &reader->source : NULL};

    pp_assert(!s->partial || s->n > 0, "a range is empty");
    if (s->partial)
        pp_call_header(call, "Content-Range: bytes %llu-%llu/%llu", (unsigned long long)s->from,
                       (unsigned long long)(s->from + s->n - 1), (unsigned long long)s->object.object.bytes);
    pp_call_reply(call, &res);
}

/* --- reading a photo --- */

static void free_reader(struct reader *r)
{
    pp_assert(!r->reading && r->photos->readers > 0, "a reader ends while it reads, or twice");
    r->photos->readers--;
    free(r->piece);
    free(r);
}

/* Runs on a thread of the lane. */
static void work_read(void *state, struct pp_job *job)
{
    struct reader *r = pp_container_of(job, struct reader, job);
    struct pp_blob_store *blobs = r->o->blobs;
    uint64_t size;
    size_t done = 0, n;

    (void)state;
    r->err = PP_OK;
    while (r->err == PP_OK && done < r->n) {
        r->err =
            blobs->ops->get(blobs, r->sha256, r->ext, r->at + done, r->piece + done, r->n - done, &n, &size);
        if (r->err == PP_OK && n == 0)
            r->err = PP_ECORRUPT;
        if (r->err == PP_OK)
            done += n;
    }
}

/* Gives the piece to the server, which may give up the reader meanwhile. */
static void give_piece(struct reader *r)
{
    struct pp_http_server *server = *r->o->server;
    char *piece = r->piece;

    r->piece = NULL;
    server->ops->feed(server, &r->source, piece, r->n, r->err);
}

/* Counts a view when the answer begins with the photo's first byte: a reader that resumes, or reads
 * in parts, counts once. */
static void count_view(const struct pp_call *call)
{
    const struct photo_state *s = call->state;

    pp_assert(call->req->method == PP_GET, "only a GET reads a photo");
    if (call->o->params->photo_views && s->from == 0)
        pp_photo_views_count(call->api->views, s->hex);
}

/* The first piece is read: begins the answer. */
static void begin_answer(struct reader *r)
{
    struct pp_call *call = r->call;

    r->call = NULL;
    pp_account_give(r->account, PP_HTTP_PIECE_MAX);
    if (r->err == PP_OK) {
        count_view(call);
        send_photo(call, r);
        return;
    }
    /* The store has a record of these bytes, so missing bytes are an error of the server. */
    pp_call_error(call, r->err == PP_ENOTFOUND ? PP_ECORRUPT : r->err, "reading stored bytes");
    free_reader(r);
}

static void on_piece_read(struct pp_job *job)
{
    struct reader *r = pp_container_of(job, struct reader, job);

    r->reading = false;
    r->at += r->n;
    r->left -= r->n;
    if (r->call)
        begin_answer(r);
    else if (r->gone)
        free_reader(r);
    else
        give_piece(r);
}

/* Begins to read the next piece. Sets `reading`, or `err` if that fails. */
static void read_piece(struct reader *r)
{
    pp_assert(!r->reading && !r->piece && r->left > 0, "a piece is read before the last one is sent");
    r->n = r->left < PP_HTTP_PIECE_MAX ? (size_t)r->left : PP_HTTP_PIECE_MAX;
    r->piece = malloc(r->n);
    r->job = (struct pp_job){.work = work_read, .done = on_piece_read};
    enum pp_err err = r->piece ? pp_lane_submit(r->photos->home, &r->job) : PP_ENOMEM;
    r->reading = err == PP_OK; /* the lane's thread has r->err now */
    if (err != PP_OK)
        r->err = err;
}

static void on_want(struct pp_http_source *source)
{
    struct reader *r = pp_container_of(source, struct reader, source);

    if (!r->piece)
        read_piece(r);
    if (!r->reading)
        give_piece(r);
}

static void on_gone(struct pp_http_source *source)
{
    struct reader *r = pp_container_of(source, struct reader, source);

    r->gone = true;
    if (!r->reading)
        free_reader(r);
}

static void load_photo(struct pp_call *call)
{
    struct photo_state *s = call->state;
    struct pp_photos *photos = call->api->photos;
    struct pp_account *account = call->req->answer_account;
    struct reader *r = calloc(1, sizeof(*r));

    pp_assert(s->n > 0 && s->from + s->n <= s->object.object.bytes, "a range lies outside the photo");
    account = account ? account : &call->o->ledger->rows[PP_RES_ANSWERS];
    if (!r || !pp_account_take(account, PP_HTTP_PIECE_MAX)) {
        free(r);
        pp_call_problem(call, PP_API_OVERLOADED, NULL, "too many answers wait for their readers");
        return;
    }
    *r = (struct reader){.source = {.want = on_want, .gone = on_gone},
                         .photos = photos,
                         .o = call->o,
                         .ext = pp_image_extension(s->object.object.type),
                         .at = s->from,
                         .left = s->n,
                         .call = call,
                         .account = account};
    memcpy(r->sha256, s->object.sha256, sizeof(r->sha256));
    photos->readers++;
    read_piece(r);
    if (!r->reading)
        begin_answer(r);
}

/* --- ranges and conditional requests --- */

static bool read_number(const char **p, uint64_t *v)
{
    size_t n = strspn(*p, "0123456789");
    if (n == 0 || n > 18)
        return false;
    *v = strtoull(*p, NULL, 10);
    *p += n;
    return true;
}

enum range { RANGE_NONE, RANGE_PART, RANGE_OUTSIDE };

/* Reads the Range header (RFC 9110 section 14.1.2). Ignores a header with several ranges, or one
 * that is not valid. */
static enum range parse_range(const char *p, uint64_t size, uint64_t *from, uint64_t *n)
{
    uint64_t first, last = size - 1;

    if (!p || strncmp(p, "bytes=", 6) != 0)
        return RANGE_NONE;
    p += 6;
    if (*p == '-') {
        p++;
        if (!read_number(&p, &last) || *p)
            return RANGE_NONE;
        *n = last < size ? last : size;
        *from = size - *n;
        return *n > 0 ? RANGE_PART : RANGE_OUTSIDE;
    }
    if (!read_number(&p, &first) || *p++ != '-')
        return RANGE_NONE;
    if (*p && (!read_number(&p, &last) || *p || last < first))
        return RANGE_NONE;
    if (first >= size)
        return RANGE_OUTSIDE;
    *from = first;
    *n = (last < size ? last + 1 : size) - first;
    return RANGE_PART;
}

/* Returns true if the If-Range header names other bytes than the stored ones (RFC 9110 section
 * 13.1.5); the caller then ignores the range. */
static bool is_other(const char *if_range, const char *hex)
{
    size_t n = strlen(hex);
    return if_range && (strlen(if_range) != n + 2 || if_range[0] != '"' ||
                        strncmp(if_range + 1, hex, n) != 0 || if_range[n + 1] != '"');
}

static void on_photo_found(struct pp_call *call)
{
    struct photo_state *s = call->state;
    const struct pp_http_request *req = call->req;
    uint64_t size = s->object.object.bytes;
    char tag[sizeof(s->hex) + 2];

    if (size == 0) {
        pp_call_not_found(call);
        return;
    }
    s->n = size;
    snprintf(tag, sizeof(tag), "\"%s\"", s->hex);
    pp_call_header(call, "ETag: %s", tag);
    /* A shared cache would give the photo to callers without a key (RFC 9111 section 3.5). */
    pp_call_header(call, "Cache-Control: %s, max-age=31536000, immutable",
                   call->o->params->n_keys > 0 ? "private" : "public");
    if (pp_etag_matches(req->if_none_match, tag)) {
        struct pp_http_response res = {.status = 304};
        pp_call_reply(call, &res);
        return;
    }
    pp_call_header(call, "Accept-Ranges: bytes");
    if (req->method == PP_HEAD) {
        send_photo(call, NULL);
        return;
    }
    const char *asked = is_other(req->if_range, s->hex) ? NULL : req->range;
    enum range range = parse_range(asked, size, &s->from, &s->n);
    s->partial = range == RANGE_PART;
    if (range != RANGE_OUTSIDE) {
        load_photo(call);
        return;
    }
    call->n_headers = 0;
    pp_call_header(call, "Content-Range: bytes */%llu", (unsigned long long)size);
    pp_call_problem(call, PP_API_RANGE_NOT_SATISFIABLE, NULL, "the object has %llu bytes",
                    (unsigned long long)size);
}

void pp_api_get_photo(struct pp_call *call)
{
    const char *hex = call->args[0];
    struct photo_state *s = pp_call_state(call, sizeof(*s));

    call->missing = "there is no such photo";
    if (!pp_unhex(s->object.sha256, PP_SHA256_BYTES, hex, strlen(hex))) {
        pp_call_not_found(call);
        return;
    }
    pp_hex(s->hex, s->object.sha256, PP_SHA256_BYTES);
    s->object.client = call->only_client;
    PP_CALL_ASK(call, call->o->store, object, &s->object, "looking for a photo", on_photo_found);
}

/* --- opening and closing --- */

struct pp_photos *pp_photos_open(struct pp_api *api)
{
    const struct pp_lane_options lane = {.name = "photos", .threads = 2, .capacity = 1024, .max_batch = 8};
    struct pp_photos *photos = calloc(1, sizeof(*photos));

    if (!photos)
        return NULL;
    photos->lane = pp_lane_open(&lane);
    photos->home = photos->lane ? pp_lane_home_open(photos->lane, api->o.loop) : NULL;
    if (photos->home)
        return photos;
    pp_photos_close(photos);
    return NULL;
}

bool pp_photos_busy(const struct pp_photos *photos)
{
    return photos && photos->readers > 0;
}

void pp_photos_close(struct pp_photos *photos)
{
    if (!photos)
        return;
    pp_assert(photos->readers == 0, "photos are still being sent");
    if (photos->lane)
        pp_lane_close(photos->lane);
    pp_lane_home_close(photos->home);
    free(photos);
}
