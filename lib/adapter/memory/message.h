/* message.h: what a server in memory tells ports that did not ask, such as the messages between the
 * processes of a fleet.
 *
 *   server --pp_memory_tell--> post --pp_memory_arrive--> inbox: on_message()
 *                                \----pp_memory_lose----> inbox: on_lost()
 *
 * One content goes to any number of inboxes, each as a message of its own. The post decides when
 * each message arrives, and whether it is lost. The plain post lets it arrive in a later turn of
 * the receiver's loop, in the order of sending. The simulator has a post of its own, with delays
 * and losses.
 *
 * A receiver's connection to a real server notices that it has lost messages. So a receiver learns
 * that a message was lost, but not which one.
 *
 * Invariant: a message whose receiver closes belongs to nobody (`to` is NULL), and is freed when it
 * arrives. All functions must be called on the thread of the loop. */
#ifndef PP_ADAPTER_MEMORY_MESSAGE_H
#define PP_ADAPTER_MEMORY_MESSAGE_H

#include "adapter/memory/call.h"

/* The content of messages, in `arena`. It belongs to its sender and to all messages that have
 * it. */
struct pp_memory_content {
    size_t holders;
    struct pp_arena arena;
    void *body; /* as the sender and the receivers know it */
};

struct pp_memory_inbox;

struct pp_memory_message {
    struct pp_node node;        /* for the post */
    struct pp_node on_way;      /* links the message into to->on_way */
    struct pp_memory_inbox *to; /* NULL: the receiver has closed its inbox */
    struct pp_memory_content *content;
};

/* Carries messages. With `post` NULL it is the plain post. */
struct pp_memory_post {
    /* Takes over a message to the process that has the line `to`. It must later, but not before it
     * returns, call pp_memory_arrive(); or call pp_memory_lose(), at any time. */
    void (*post)(void *data, struct pp_memory_line *to, struct pp_memory_message *m);
    void *data;
};

struct pp_memory_inbox {
    struct pp_memory_line *line;
    /* Gets a message, which is valid until the function returns. It may close the inbox. `in_order`
     * is true if all earlier messages to this inbox have arrived, or have been lost. */
    void (*on_message)(void *data, const void *body, bool in_order);
    /* Hears that a message was lost. It is called within the call of any process, so it must only
     * take a note and start a timer. */
    void (*on_lost)(void *data);
    void *data;
    struct pp_list on_way; /* all messages to this inbox, in the order of sending */
    /* The plain post uses the following members. */
    struct pp_timer *timer;
    struct pp_list waiting;
};

/* Opens an inbox whose caller has set the first four members. Returns PP_ENOMEM if there is no
 * memory for its timer. */
pp_must_check enum pp_err pp_memory_inbox_open(struct pp_memory_inbox *inbox);
/* Closes the inbox. Messages on the way do not arrive. */
void pp_memory_inbox_close(struct pp_memory_inbox *inbox);
/* Drops the messages on the way, as a lost connection does; on_lost() does not hear of them. */
void pp_memory_inbox_clear(struct pp_memory_inbox *inbox);

/* Makes a content whose body has `size` zeroed bytes. Returns NULL when out of memory. */
struct pp_memory_content *pp_memory_content_new(size_t size);
/* Ends the sender's hold of the content, or a message's. */
void pp_memory_content_drop(struct pp_memory_content *content);

/* Sends the content to an inbox. When out of memory, the message is lost. */
void pp_memory_tell(const struct pp_memory_post *post, struct pp_memory_inbox *to,
                    struct pp_memory_content *content);

/* A post calls one of the following functions for each message. They free the message. */
void pp_memory_arrive(struct pp_memory_message *m);
void pp_memory_lose(struct pp_memory_message *m);

#endif
