/* photos.c: GET /v1/photos/{sha256}: serves stored photos. The bytes of a photo never change, so
 * callers may cache them for ever and ask for ranges.
 * The store knows the owner and the type of a photo; a lane reads its bytes from the blob store.
 * Each answer is in memory as a whole until it is sent; the total size of all answers is bounded.
 */
#include "api/handler.h"
#include "core/sniff.h"
#include "runtime/lane.h"

/* all answers in memory have at most this many bytes together */
#define PHOTO_BYTES_MAX (256u << 20)

struct pp_photos {
    struct pp_lane *lane;
    struct pp_lane_home *home;
    uint64_t bytes; /* total bytes of the answers in memory */
};

/* The bytes of an answer. The struct outlives the call: the server frees it when it has sent all
 * bytes. */
struct body {
    struct pp_photos *photos;
    uint64_t n;
    char bytes[];
};

struct photo_state {
    struct pp_store_object object;
    struct pp_call *call;
    char hex[2 * PP_SHA256_BYTES + 1];
    uint64_t from, n; /* first byte and length of the range of the photo in the answer */
    bool partial;
    struct pp_job job;
    struct body *body;
    enum pp_err err;
};

static void free_body(void *data)
{
    struct body *body = data;
    pp_assert(body->photos->bytes >= body->n, "more bytes of photos were sent than read");
    body->photos->bytes -= body->n;
    free(body);
}

static void free_photo(struct pp_call *call)
{
    struct photo_state *s = call->state;
    if (s->body)
        free_body(s->body);
}

static void send_photo(struct pp_call *call)
{
    struct photo_state *s = call->state;
    struct pp_http_response res = {.status = s->partial ? 206 : 200,
                                   .content_type = pp_image_mime(s->object.object.type),
                                   .body_n = s->n};
    if (s->body) {
        res.body = s->body->bytes;
        res.release = free_body;
        res.release_data = s->body;
        s->body = NULL; /* the server owns the body now */
    }
    pp_assert(!s->partial || s->n > 0, "a range is empty");
    if (s->partial)
        pp_call_header(call, "Content-Range: bytes %llu-%llu/%llu", (unsigned long long)s->from,
                       (unsigned long long)(s->from + s->n - 1), (unsigned long long)s->object.object.bytes);
    pp_call_reply(call, &res);
}

/* --- reading a photo, on a thread of the lane --- */

static void read_bytes(void *state, struct pp_job *job)
{
    struct photo_state *s = pp_container_of(job, struct photo_state, job);
    struct pp_blob_store *blobs = s->call->o->blobs;
    const char *ext = pp_image_extension(s->object.object.type);
    uint64_t done = 0, size;
    size_t n;

    (void)state;
    s->err = PP_OK;
    while (s->err == PP_OK && done < s->n) {
        s->err = blobs->ops->get(blobs, s->object.sha256, ext, s->from + done, s->body->bytes + done,
                                 s->n - done, &n, &size);
        if (s->err == PP_OK && n == 0)
            s->err = PP_ECORRUPT;
        if (s->err == PP_OK)
            done += n;
    }
}

static void on_bytes_read(struct pp_job *job)
{
    struct photo_state *s = pp_container_of(job, struct photo_state, job);

    if (s->err == PP_OK)
        send_photo(s->call);
    else /* The store has a record of these bytes, so missing bytes are an error of the server. */
        pp_call_error(s->call, s->err == PP_ENOTFOUND ? PP_ECORRUPT : s->err, "reading stored bytes");
}

static void load_photo(struct pp_call *call)
{
    struct photo_state *s = call->state;
    struct pp_photos *photos = call->api->photos;

    pp_assert(s->n > 0 && s->from + s->n <= s->object.object.bytes, "a range lies outside the photo");
    if (photos->bytes > 0 && photos->bytes + s->n > PHOTO_BYTES_MAX) {
        pp_call_problem(call, PP_API_OVERLOADED, NULL, "too many photos are being read right now");
        return;
    }
    s->body = malloc(sizeof(*s->body) + s->n);
    if (!s->body) {
        pp_call_no_memory(call);
        return;
    }
    s->body->photos = photos;
    s->body->n = s->n;
    photos->bytes += s->n;
    s->call = call;
    s->job = (struct pp_job){.work = read_bytes, .done = on_bytes_read};
    enum pp_err err = pp_lane_submit(photos->home, &s->job);
    if (err != PP_OK)
        pp_call_error(call, err, "reading stored bytes");
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

static bool matches(const char *if_none_match, const char *hex)
{
    char tag[2 * PP_SHA256_BYTES + 3];
    if (!if_none_match)
        return false;
    snprintf(tag, sizeof(tag), "\"%s\"", hex);
    return strcmp(if_none_match, "*") == 0 || strstr(if_none_match, tag) != NULL;
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

    if (size == 0) {
        pp_call_not_found(call);
        return;
    }
    s->n = size;
    pp_call_header(call, "ETag: \"%s\"", s->hex);
    /* A shared cache would give the photo to callers without a key (RFC 9111 section 3.5). */
    pp_call_header(call, "Cache-Control: %s, max-age=31536000, immutable",
                   call->o->params->n_keys > 0 ? "private" : "public");
    if (matches(req->if_none_match, s->hex)) {
        struct pp_http_response res = {.status = 304};
        pp_call_reply(call, &res);
        return;
    }
    pp_call_header(call, "Accept-Ranges: bytes");
    if (req->method == PP_HEAD) {
        send_photo(call);
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

    call->cleanup = free_photo;
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
    return photos && photos->bytes > 0;
}

void pp_photos_close(struct pp_photos *photos)
{
    if (!photos)
        return;
    pp_assert(photos->bytes == 0, "photos are still being sent");
    if (photos->lane)
        pp_lane_close(photos->lane);
    pp_lane_home_close(photos->home);
    free(photos);
}
