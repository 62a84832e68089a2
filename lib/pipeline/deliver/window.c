/* window.c: the messages of a relay, in lists by state. Invariants: n counts all messages in
 * memory; in_order has the messages that are not deferred, in ascending order of seq; each waiting
 * or settled message is in the list of that state. */
#include "pipeline/deliver/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "format/result.h"

#define BODY_MAX (64u << 20)
/* one read asks for at least this many items, because most of them may be for other sinks */
#define FITS_MIN 50
#define FITS_MAX 500

void pp_window_init(struct pp_window *w, size_t max, size_t room)
{
    *w = (struct pp_window){.max = max, .room = room};
    pp_list_init(&w->in_order);
    pp_list_init(&w->waiting);
    pp_list_init(&w->settled);
}

static void message_free(struct pp_window *w, struct pp_message *m)
{
    pp_assert(w->n > 0 && w->bytes >= m->body_n, "messages in memory do not add up");
    w->n--;
    w->bytes -= m->body_n;
    free(m->error);
    free(m);
}

static void free_deferred(struct pp_window *w, struct pp_list *list)
{
    struct pp_node *node;
    while ((node = pp_list_pop(list))) {
        struct pp_message *m = pp_container_of(node, struct pp_message, in_state);
        if (m->deferred)
            message_free(w, m);
    }
}

void pp_window_clear(struct pp_window *w)
{
    struct pp_node *node;

    pp_assert(w->sending == 0, "the driver holds a message");
    free_deferred(w, &w->waiting);
    free_deferred(w, &w->settled);
    while ((node = pp_list_pop(&w->in_order)))
        message_free(w, pp_container_of(node, struct pp_message, in_order));
    pp_assert(w->n == 0 && w->bytes == 0, "a message is in no list");
}

/* Allocates a message; its strings and its body follow the struct in the same memory block. */
static struct pp_message *message_new(const struct pp_item *item, enum pp_language language)
{
    struct pp_buf body;
    size_t client_n = strlen(item->client) + 1;

    pp_buf_init(&body, BODY_MAX);
    pp_result_write(&body, NULL, item, language);
    struct pp_message *m = body.failed ? NULL : malloc(sizeof(*m) + client_n + body.n + 1);
    if (m) {
        char *at = (char *)(m + 1);
        *m = (struct pp_message){
            .seq = item->seq, .result = item->status, .finished_at = item->finished_at, .body_n = body.n};
        pp_result_id(m->id, item->client, item->id, item->revision);
        m->client = memcpy(at, item->client, client_n);
        m->body = memcpy(at + client_n, body.p, body.n + 1);
    }
    pp_buf_fini(&body);
    return m;
}

struct pp_message *pp_window_add(struct pp_window *w, const struct pp_item *item, bool deferred)
{
    struct pp_message *m = message_new(item, w->language);

    if (!m)
        return NULL;
    m->deferred = deferred;
    pp_list_push(&w->waiting, &m->in_state);
    if (!deferred) {
        pp_assert(m->seq > w->read_seq, "the outbox was not read in order");
        pp_list_push(&w->in_order, &m->in_order);
        w->read_seq = m->seq;
    }
    w->n++;
    w->bytes += m->body_n;
    w->mean = w->bytes / w->n;
    return m;
}

void pp_window_set_state(struct pp_window *w, struct pp_message *m, enum pp_message_state state)
{
    static const bool legal[PP_MESSAGE_SAVED + 1][PP_MESSAGE_SAVED + 1] = {
        [PP_MESSAGE_WAITING] = {[PP_MESSAGE_SENDING] = true},
        [PP_MESSAGE_SENDING] = {[PP_MESSAGE_WAITING] = true, [PP_MESSAGE_SETTLED] = true},
        [PP_MESSAGE_SETTLED] = {[PP_MESSAGE_SAVED] = true},
    };
    pp_assert(legal[m->state][state], "a transition that no message makes");

    switch (m->state) {
    case PP_MESSAGE_WAITING: pp_list_remove(&w->waiting, &m->in_state); break;
    case PP_MESSAGE_SENDING:
        pp_assert(w->sending > 0, "more messages came back than were sent");
        w->sending--;
        break;
    case PP_MESSAGE_SETTLED: pp_list_remove(&w->settled, &m->in_state); break;
    case PP_MESSAGE_SAVED: break;
    }
    m->state = state;
    switch (state) {
    case PP_MESSAGE_WAITING: pp_list_push_front(&w->waiting, &m->in_state); break;
    case PP_MESSAGE_SENDING: w->sending++; break;
    case PP_MESSAGE_SETTLED: pp_list_push(&w->settled, &m->in_state); break;
    case PP_MESSAGE_SAVED: break;
    }
}

void pp_window_saved(struct pp_window *w, size_t n)
{
    pp_assert(n <= w->settled.n, "more was saved than was settled");
    for (size_t i = 0; i < n; i++) {
        struct pp_message *m = pp_container_of(w->settled.head.next, struct pp_message, in_state);
        pp_window_set_state(w, m, PP_MESSAGE_SAVED);
        if (m->deferred)
            message_free(w, m);
    }
    while (!pp_list_empty(&w->in_order)) {
        struct pp_message *m = pp_container_of(w->in_order.head.next, struct pp_message, in_order);
        if (m->state != PP_MESSAGE_SAVED)
            return;
        pp_list_remove(&w->in_order, &m->in_order);
        message_free(w, m);
    }
}

uint64_t pp_window_cursor(const struct pp_window *w)
{
    pp_list_each (node, &w->in_order) {
        const struct pp_message *m = pp_container_of(node, struct pp_message, in_order);
        if (m->state < PP_MESSAGE_SETTLED)
            return m->seq - 1;
    }
    return w->read_seq;
}

bool pp_window_unsaved(const struct pp_window *w, uint64_t seq)
{
    pp_list_each (node, &w->settled)
        if (pp_container_of(node, struct pp_message, in_state)->seq == seq)
            return true;
    return false;
}

bool pp_window_has_deferred(const struct pp_window *w)
{
    pp_assert(w->n >= w->in_order.n, "messages in memory do not add up");
    return w->n > w->in_order.n;
}

size_t pp_window_fits(const struct pp_window *w)
{
    size_t left = w->n < w->max ? w->max - w->n : 0;
    size_t n = (w->bytes < w->room ? w->room - w->bytes : 0) / (w->mean + 1);

    n = n < FITS_MIN ? FITS_MIN : n > FITS_MAX ? FITS_MAX : n;
    return n < left ? n : left;
}
