/* api_photos.c: GET /v1/photos/{sha256}: stored bytes, which never change: cached for good, asked for in
 * ranges.
 *
 * The store says whose they are and what type; the blob store is read on a lane. An answer is in memory as a
 * whole until it is sent, and all of them together are bounded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sniff.h"
#include "pipeline/api_internal.h"

#define PHOTO_BYTES_MAX (256u << 20) /* of answers under way */

/* What is read and sent; outlives the call, until the last byte has gone. */
struct body {
    struct pp_api *api;
    uint64_t n;
    char bytes[];
};

struct photo_state {
    struct pp_store_object object;
    char hex[2 * PP_SHA256_BYTES + 1];
    uint64_t from, n; /* of the answer */
    bool partial;
    struct pp_job job;
    struct pp_blob_store *blobs;
    struct body *body;
    enum pp_err err;
};

static void body_release(void *data)
{
    struct body *body = data;
    body->api->photo_bytes -= body->n;
    free(body);
}

static void photo_cleanup(struct pp_call *call)
{
    struct photo_state *s = call->state;
    if (s->body)
        body_release(s->body);
}

static void photo_send(struct pp_call *call)
{
    struct photo_state *s = call->state;
    struct pp_http_response res = {.status = s->partial ? 206 : 200,
                                   .content_type = pp_image_mime(s->object.object.type),
                                   .body_n = s->n};
    if (s->body) {
        res.body = s->body->bytes;
        res.release = body_release;
        res.release_data = s->body;
        s->body = NULL; /* the server's now */
    }
    if (s->partial)
        pp_call_header(call, "Content-Range: bytes %llu-%llu/%llu", (unsigned long long)s->from,
                       (unsigned long long)(s->from + s->n - 1), (unsigned long long)s->object.object.bytes);
    pp_call_reply(call, &res);
}

/* --- on the lane --- */

static void photo_read(void *state, struct pp_job *job)
{
    struct photo_state *s = pp_container_of(job, struct photo_state, job);
    const char *ext = pp_image_extension(s->object.object.type);
    uint64_t done = 0, size;
    size_t n;

    (void)state;
    s->err = PP_OK;
    while (s->err == PP_OK && done < s->n) {
        s->err = s->blobs->ops->get(s->blobs, s->object.sha256, ext, s->from + done, s->body->bytes + done,
                                    s->n - done, &n, &size);
        if (s->err == PP_OK && n == 0)
            s->err = PP_ECORRUPT;
        if (s->err == PP_OK)
            done += n;
    }
}

static void photo_was_read(struct pp_job *job)
{
    struct photo_state *s = pp_container_of(job, struct photo_state, job);
    struct pp_call *call = s->object.req.data;

    if (s->err == PP_OK)
        photo_send(call);
    else /* recorded, but not there: not the caller's mistake */
        pp_call_error(call, s->err == PP_ENOTFOUND ? PP_ECORRUPT : s->err, "reading stored bytes");
}

static void photo_load(struct pp_call *call)
{
    struct photo_state *s = call->state;
    struct pp_api *api = call->api;

    if (api->photo_bytes > 0 && api->photo_bytes + s->n > PHOTO_BYTES_MAX) {
        pp_call_problem(call, PP_API_OVERLOADED, NULL, "too many photos are being read right now");
        return;
    }
    s->body = malloc(sizeof(*s->body) + s->n);
    if (!s->body) {
        pp_call_error(call, PP_ENOMEM, "reading stored bytes");
        return;
    }
    s->body->api = api;
    s->body->n = s->n;
    api->photo_bytes += s->n;
    s->blobs = call->p->blobs;
    s->job = (struct pp_job){.work = photo_read, .done = photo_was_read};
    pp_call_submitted(call, pp_lane_submit(api->photo_home, &s->job), "reading stored bytes");
}

/* --- what was asked for --- */

static bool number(const char **p, uint64_t *v)
{
    size_t n = strspn(*p, "0123456789");
    if (n == 0 || n > 18)
        return false;
    *v = strtoull(*p, NULL, 10);
    *p += n;
    return true;
}

enum range { RANGE_NONE, RANGE_PART, RANGE_OUTSIDE };

/* One range (RFC 9110 section 14.1.2). More than one, or what can't be read, is as none. */
static enum range parse_range(const char *p, uint64_t size, uint64_t *from, uint64_t *n)
{
    uint64_t first, last = size - 1;

    if (!p || strncmp(p, "bytes=", 6) != 0)
        return RANGE_NONE;
    p += 6;
    if (*p == '-') {
        p++;
        if (!number(&p, &last) || *p)
            return RANGE_NONE;
        *n = last < size ? last : size;
        *from = size - *n;
        return *n > 0 ? RANGE_PART : RANGE_OUTSIDE;
    }
    if (!number(&p, &first) || *p++ != '-')
        return RANGE_NONE;
    if (*p && (!number(&p, &last) || *p || last < first))
        return RANGE_NONE;
    if (first >= size)
        return RANGE_OUTSIDE;
    *from = first;
    *n = (last < size ? last + 1 : size) - first;
    return RANGE_PART;
}

static bool has_it(const char *if_none_match, const char *hex)
{
    char tag[2 * PP_SHA256_BYTES + 3];
    if (!if_none_match)
        return false;
    snprintf(tag, sizeof(tag), "\"%s\"", hex);
    return strcmp(if_none_match, "*") == 0 || strstr(if_none_match, tag) != NULL;
}

/* A part of other bytes is no use (RFC 9110 section 13.1.5). */
static bool is_other(const char *if_range, const char *hex)
{
    size_t n = strlen(hex);
    return if_range && (strlen(if_range) != n + 2 || if_range[0] != '"' ||
                        strncmp(if_range + 1, hex, n) != 0 || if_range[n + 1] != '"');
}

static void photo_answer(struct pp_call *call)
{
    struct photo_state *s = call->state;
    const struct pp_http_request *req = call->req;
    uint64_t size = s->object.object.bytes;

    s->n = size;
    pp_call_header(call, "ETag: \"%s\"", s->hex);
    pp_call_header(call, "Cache-Control: public, max-age=31536000, immutable");
    if (has_it(req->if_none_match, s->hex)) {
        struct pp_http_response res = {.status = 304};
        pp_call_reply(call, &res);
        return;
    }
    pp_call_header(call, "Accept-Ranges: bytes");
    if (req->method == PP_HEAD) {
        photo_send(call);
        return;
    }
    const char *asked = is_other(req->if_range, s->hex) ? NULL : req->range;
    enum range range = parse_range(asked, size, &s->from, &s->n);
    s->partial = range == RANGE_PART;
    if (range != RANGE_OUTSIDE) {
        photo_load(call);
        return;
    }
    call->n_headers = 0;
    pp_call_header(call, "Content-Range: bytes */%llu", (unsigned long long)size);
    pp_call_problem(call, PP_API_RANGE_NOT_SATISFIABLE, NULL, "the object has %llu bytes",
                    (unsigned long long)size);
}

static void photo_not_found(struct pp_call *call)
{
    pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no such photo");
}

static void photo_found(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct photo_state *s = call->state;

    if (req->err == PP_ENOTFOUND || (req->err == PP_OK && s->object.object.bytes == 0))
        photo_not_found(call);
    else if (req->err != PP_OK)
        pp_call_error(call, req->err, "looking for a photo");
    else
        photo_answer(call);
}

void pp_api_photo(struct pp_call *call)
{
    const char *hex = call->args[0];
    struct photo_state *s = pp_call_state(call, sizeof(*s));

    if (!s)
        return;
    call->cleanup = photo_cleanup;
    if (!pp_unhex(s->object.sha256, PP_SHA256_BYTES, hex, strlen(hex))) {
        photo_not_found(call);
        return;
    }
    pp_hex(s->hex, s->object.sha256, PP_SHA256_BYTES);
    s->object.client = call->only_client;
    pp_call_req(call, &s->object.req, photo_found);
    pp_call_submitted(call, call->p->store->ops->object(call->p->store, &s->object), "looking for a photo");
}
