/* mailbox.c: replaces runtime/mailbox.c. The post that makes the list non-empty schedules the
 * reader, which takes the whole list. */
#include "runtime/mailbox.h"

#include <stdlib.h>

#include "base/check.h"
#include "runtime/sim/sim_internal.h"

struct pp_mailbox {
    struct pp_sim_event event;
    struct pp_loop *loop;
    struct pp_list unread;
    pp_mailbox_cb cb;
    void *data;
};

static void deliver(void *data)
{
    struct pp_mailbox *m = data;
    struct pp_list mail;

    pp_list_init(&mail);
    pp_list_splice(&mail, &m->unread);
    if (pp_list_empty(&mail))
        return;
    m->cb(m->data, &mail); /* the callback may close the mailbox */
    pp_assert(pp_list_empty(&mail), "a mailbox's callback has left mail behind");
}

struct pp_mailbox *pp_mailbox_open(struct pp_loop *loop, pp_mailbox_cb cb, void *data)
{
    struct pp_mailbox *m = calloc(1, sizeof *m);

    pp_assert(cb, "a mailbox without a callback");
    if (!m)
        return NULL;
    m->loop = loop;
    m->cb = cb;
    m->data = data;
    pp_list_init(&m->unread);
    pp_sim_event_init_on(&m->event, loop, "mail", deliver, m);
    loop->mailboxes++;
    return m;
}

static void wake_loop(struct pp_mailbox *m)
{
    const struct pp_sim_options *o = &m->event.world->options;

    if (!pp_sim_event_pending(&m->event))
        pp_sim_event_in(&m->event, o->mail_us ? o->mail_us(o->data, m->event.process) : 0);
}

void pp_mailbox_post_all(struct pp_mailbox *m, struct pp_list *mail)
{
    if (pp_list_empty(mail))
        return;
    pp_list_splice(&m->unread, mail);
    wake_loop(m);
}

void pp_mailbox_post(struct pp_mailbox *m, struct pp_mail *mail)
{
    pp_list_push(&m->unread, &mail->node);
    wake_loop(m);
}

void pp_mailbox_close(struct pp_mailbox *m)
{
    if (!m)
        return;
    pp_sim_event_cancel(&m->event);
    deliver(m);
    pp_assert(pp_list_empty(&m->unread), "mail was posted to a mailbox that closes");
    pp_sim_event_cancel(&m->event);
    m->loop->mailboxes--;
    free(m);
}
