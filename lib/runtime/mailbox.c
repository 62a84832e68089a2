/* mailbox.c: a list under a mutex; the loop is woken when the list ceases to be empty, and takes the whole
 * list.
 *
 * The wake-up is sent under the mutex: a reader that has got the last message may close the mailbox, and
 * closing takes the mutex, so that no sender is still inside. */
#include "runtime/mailbox.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

struct pp_mailbox {
    uv_async_t async;
    uv_mutex_t mutex;
    struct pp_list unread;  /* under mutex */
    atomic_size_t unread_n; /* unread.n, for pp_mailbox_full() */
    size_t high_water;
    pp_mailbox_cb cb;
    void *data;
};

static void deliver(struct pp_mailbox *m)
{
    struct pp_list mail;
    pp_list_init(&mail);
    uv_mutex_lock(&m->mutex);
    pp_list_splice(&mail, &m->unread);
    atomic_store_explicit(&m->unread_n, 0, memory_order_relaxed);
    uv_mutex_unlock(&m->mutex);
    if (pp_list_empty(&mail))
        return;
    m->cb(m->data, &mail); /* may close the mailbox */
    assert(pp_list_empty(&mail));
}

static void on_async(uv_async_t *async)
{
    deliver(async->data);
}

struct pp_mailbox *pp_mailbox_open(struct pp_loop *loop, size_t high_water, pp_mailbox_cb cb, void *data)
{
    struct pp_mailbox *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->high_water = high_water;
    m->cb = cb;
    m->data = data;
    pp_list_init(&m->unread);
    atomic_init(&m->unread_n, 0);
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

void pp_mailbox_post_all(struct pp_mailbox *m, struct pp_list *mail)
{
    if (pp_list_empty(mail))
        return;
    uv_mutex_lock(&m->mutex);
    bool first = pp_list_empty(&m->unread);
    pp_list_splice(&m->unread, mail);
    atomic_store_explicit(&m->unread_n, m->unread.n, memory_order_relaxed);
    if (first) {
        int err = uv_async_send(&m->async);
        assert(err == 0);
        (void)err;
    }
    uv_mutex_unlock(&m->mutex);
}

void pp_mailbox_post(struct pp_mailbox *m, struct pp_mail *mail)
{
    struct pp_list one;
    pp_list_init(&one);
    pp_list_push(&one, &mail->node);
    pp_mailbox_post_all(m, &one);
}

bool pp_mailbox_full(const struct pp_mailbox *m)
{
    return m->high_water && atomic_load_explicit(&m->unread_n, memory_order_relaxed) >= m->high_water;
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
