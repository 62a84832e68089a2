/* wire_origin.c: the made-up photo host of `photopool bench`, on the HTTP server of the API. */
#include "wire_origin.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/http/http_server.h"
#include "runtime/loop_thread.h"
#include "runtime/mailbox.h"

/* Connections of one address: the product opens one for each transfer. */
enum { CONNECTIONS = 4096 };

struct pp_origin {
    struct pp_loop_thread *thread;
    struct pp_loop *loop;
    struct pp_mailbox *mailbox;
    struct pp_mail stop; /* ends the thread */
    struct pp_http_server *http;
    uint16_t port;
    atomic_uint_fast64_t served;
    uint8_t photo[PP_ORIGIN_PHOTO_BYTES];
};

/* The head of a JPEG of 640 x 480 pixels (ITU-T T.81): SOI, the frame header SOF0 with one
 * component, and the scan header SOS. */
static const uint8_t head[] = {0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 1, 0xe0, 2, 0x80, 1, 1,
                               0x11, 0,    0xff, 0xda, 0, 8,  1, 1, 0,    0, 63,   0};

/* The scan's data is random, so that nothing can compress it. It has no 0xff, which would begin a
 * marker. The last two bytes are the marker EOI. */
static void make_photo(uint8_t photo[PP_ORIGIN_PHOTO_BYTES])
{
    uint32_t x = 2463534242; /* xorshift32 (Marsaglia 2003) */
    memcpy(photo, head, sizeof head);
    for (size_t i = sizeof head; i < PP_ORIGIN_PHOTO_BYTES - 2; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        photo[i] = (uint8_t)(x % 0xff);
    }
    photo[PP_ORIGIN_PHOTO_BYTES - 2] = 0xff;
    photo[PP_ORIGIN_PHOTO_BYTES - 1] = 0xd9;
}

/* Answers a request. The photo's data begins with the path, so each path has a photo of its own. */
static bool on_head(void *data, struct pp_http_request *req)
{
    struct pp_origin *o = data;
    uint8_t *body = req->method == PP_GET ? malloc(sizeof o->photo) : NULL;
    struct pp_http_response res = {.status = 404};

    if (body) {
        memcpy(body, o->photo, sizeof o->photo);
        memcpy(body + sizeof head, req->path, strnlen(req->path, 64));
        res = (struct pp_http_response){.status = 200,
                                        .content_type = "image/jpeg",
                                        .body = (const char *)body,
                                        .body_n = sizeof o->photo,
                                        .release = free,
                                        .release_data = body};
        atomic_fetch_add(&o->served, 1);
    }
    o->http->ops->reply(o->http, req, &res);
    return false;
}

/* --- its thread --- */

static void on_mail(void *data, struct pp_list *mail)
{
    struct pp_origin *o = data;
    while (pp_list_pop(mail))
        ;
    pp_loop_stop(o->loop);
}

static enum pp_err open_on_thread(void *data, struct pp_loop *loop)
{
    struct pp_origin *o = data;
    const struct pp_http_options options = {.max_connections = CONNECTIONS, .max_per_address = CONNECTIONS};
    const struct pp_http_handler handler = {.head = on_head, .data = o};

    o->loop = loop;
    o->mailbox = pp_mailbox_open(loop, on_mail, o);
    if (!o->mailbox)
        return PP_ENOMEM;
    enum pp_err err = pp_http_server_open(loop, &options, &handler, &o->http);
    if (err == PP_OK)
        o->port = o->http->ops->port(o->http);
    return err;
}

static void close_on_thread(void *data)
{
    struct pp_origin *o = data;
    if (o->http)
        o->http->ops->close(o->http);
    pp_mailbox_close(o->mailbox);
}

enum pp_err pp_wire_origin_open(struct pp_origin **out)
{
    struct pp_origin *o = calloc(1, sizeof *o);
    if (!o)
        return PP_ENOMEM;
    make_photo(o->photo);
    const struct pp_loop_thread_options options = {
        .name = "photo host", .data = o, .open = open_on_thread, .close = close_on_thread};
    enum pp_err err = pp_loop_thread_open(&options, &o->thread);
    if (err == PP_OK)
        *out = o;
    else
        free(o);
    return err;
}

uint16_t pp_wire_origin_port(const struct pp_origin *o)
{
    return o->port;
}

uint64_t pp_wire_origin_served(const struct pp_origin *o)
{
    return atomic_load(&o->served);
}

void pp_wire_origin_close(struct pp_origin *o)
{
    if (!o)
        return;
    pp_mailbox_post(o->mailbox, &o->stop);
    pp_loop_thread_close(o->thread);
    free(o);
}
