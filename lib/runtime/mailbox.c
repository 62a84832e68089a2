/* mailbox.c: a mailbox is a list of messages under a mutex. The sender whose message makes the list
 * non-empty wakes the loop, which takes the whole list.
 *
 * The sender holds the mutex while it wakes the loop. The reader may close the mailbox as soon as
 * it has the last message; closing takes the mutex, so it waits until no sender is inside. */
#include "runtime/mailbox.h"

#include <stdlib.h>
#include <uv.h>

#include "base/check.h"

struct pp_mailbox {
    uv_async_t async;
    uv_mutex_t mutex;
    /* messages that the reader has not taken yet; the mutex guards the list */
    struct pp_list unread;
    pp_mailbox_cb cb;
    void *data;
};

static void deliver(struct pp_mailbox *m)
{
    struct pp_list mail;
    pp_list_init(&mail);
    uv_mutex_lock(&m->mutex);
    pp_list_splice(&mail, &m->unread);
    uv_mutex_unlock(&m->mutex);
    if (pp_list_empty(&mail))
        return;
    m->cb(m->data, &mail); /* the callback may close the mailbox */
    pp_assert(pp_list_empty(&mail), "a mailbox's callback has left mail behind");
}

static void on_async(uv_async_t *async)
{
    deliver(async->data);
}

struct pp_mailbox *pp_mailbox_open(struct pp_loop *loop, pp_mailbox_cb cb, void *data)
{
    pp_assert(cb, "a mailbox without a callback");
    struct pp_mailbox *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->cb = cb;
    m->data = data;
    pp_list_init(&m->unread);
    if (uv_mutex_init(&m->mutex) != 0) {
        free(m);
        return NULL;
    }
    if (uv_async_init(pp_loop_uv(loop), &m->async, on_async) != 0) {
        uv_mutex_destroy(&m->mutex);
        free(m);
        return NULL;
    }
    m->async.data = m;
    return m;
}

/* Wakes the loop if the list was empty before the post. The caller holds the mutex. */
static void wake_loop(struct pp_mailbox *m)
{
    pp_assert(uv_async_send(&m->async) == 0, "mail is posted to a mailbox that is closed");
}

void pp_mailbox_post_all(struct pp_mailbox *m, struct pp_list *mail)
{
    if (pp_list_empty(mail))
        return;
    uv_mutex_lock(&m->mutex);
    bool first = pp_list_empty(&m->unread);
    pp_list_splice(&m->unread, mail);
    if (first)
        wake_loop(m);
    uv_mutex_unlock(&m->mutex);
}

void pp_mailbox_post(struct pp_mailbox *m, struct pp_mail *mail)
{
    uv_mutex_lock(&m->mutex);
    pp_list_push(&m->unread, &mail->node);
    if (m->unread.n == 1)
        wake_loop(m);
    uv_mutex_unlock(&m->mutex);
}

static void on_closed(uv_handle_t *h)
{
    struct pp_mailbox *m = h->data;
    uv_mutex_destroy(&m->mutex);
    free(m);
}

void pp_mailbox_close(struct pp_mailbox *m)
{
    if (!m)
        return;
    deliver(m);
    uv_close((uv_handle_t *)&m->async, on_closed);
}
