/* mailbox.h: passes messages from any thread to a loop, in batches.
 *
 * Messages are intrusive (struct pp_mail in the sender's struct), so posting never allocates. The
 * reader's callback gets all messages posted since its last call as one list, which it owns; the
 * messages of each sender are in the order of posting. One wake-up of the loop (an eventfd write)
 * serves any number of messages. A mailbox has no ceiling of its own: senders limit how many
 * messages they post. Posting never fails. */
#ifndef PP_RUNTIME_MAILBOX_H
#define PP_RUNTIME_MAILBOX_H

#include "base/list.h"
#include "runtime/loop.h"

struct pp_mail {
    struct pp_node node;
};

struct pp_mailbox;

/* The reader. The mailbox calls it on the loop's thread with a list of pp_mail.node; it must pop
 * all of them before it returns. */
typedef void (*pp_mailbox_cb)(void *data, struct pp_list *mail);

/* Makes a mailbox on the loop's thread. Returns NULL when out of memory or descriptors. */
struct pp_mailbox *pp_mailbox_open(struct pp_loop *loop, pp_mailbox_cb cb, void *data);
/* Posts a message. Any thread may call it, until pp_mailbox_close() is called. */
void pp_mailbox_post(struct pp_mailbox *m, struct pp_mail *mail);
/* Posts a whole list of messages at once, and leaves `mail` empty. */
void pp_mailbox_post_all(struct pp_mailbox *m, struct pp_list *mail);
/* Delivers unread messages, then closes the mailbox. Must be called on the loop's thread, after the
 * last sender has stopped. The callback may call this when it has popped all messages. `m` may be
 * NULL. */
void pp_mailbox_close(struct pp_mailbox *m);

#endif
