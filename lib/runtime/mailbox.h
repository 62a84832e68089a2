/* mailbox.h: messages from any thread to a loop, in batches.
 *
 * Messages are intrusive (struct pp_mail in the sender's struct), so posting never allocates. The reader's
 * callback gets all that came since its last call, in order of posting per sender, as one list that it owns.
 * One wake-up of the loop (an eventfd write) serves any number of messages. `high_water` bounds politely:
 * pp_mailbox_full() tells senders to hold back; posting itself never fails. */
#ifndef PP_RUNTIME_MAILBOX_H
#define PP_RUNTIME_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "runtime/loop.h"

struct pp_mail {
    struct pp_node node;
};

struct pp_mailbox;

/* Messages are pp_mail.node's; the callback must pop them all before it returns. Runs on the loop thread. */
typedef void (*pp_mailbox_cb)(void *data, struct pp_list *mail);

/* On the loop's thread. high_water 0: never full. NULL when out of memory or descriptors. */
struct pp_mailbox *pp_mailbox_open(struct pp_loop *loop, size_t high_water, pp_mailbox_cb cb, void *data);
/* From any thread, until pp_mailbox_close() has been called. */
void pp_mailbox_post(struct pp_mailbox *m, struct pp_mail *mail);
/* A whole list at once; `mail` is left empty. */
void pp_mailbox_post_all(struct pp_mailbox *m, struct pp_list *mail);
/* True from high_water unread messages on until they are read. Any thread. */
bool pp_mailbox_full(const struct pp_mailbox *m);
/* On the loop thread, after the last sender has stopped. Unread messages are delivered first. May be called
 * by the callback once it has popped everything. NULL is fine. */
void pp_mailbox_close(struct pp_mailbox *m);

#endif
