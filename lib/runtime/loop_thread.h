/* loop_thread.h: a thread with an event loop of its own.
 *
 *   pp_loop_thread_open() --> thread: open(data, loop) --> the loop runs until somebody on the
 *     thread calls pp_loop_stop() --> close(data) --> the thread frees the loop and ends
 *
 * The owner passes messages to the thread through mailboxes that open() makes; one message must
 * lead to pp_loop_stop(). All signals are blocked on the thread. In the simulator a thread is only
 * one more loop of its process. */
#ifndef PP_RUNTIME_LOOP_THREAD_H
#define PP_RUNTIME_LOOP_THREAD_H

#include "photopool/err.h"
#include "runtime/loop.h"

struct pp_loop_thread;

struct pp_loop_thread_options {
    const char *name; /* name of the thread, at most 15 characters */
    void *data;
    /* Opens on `loop` what the thread needs. */
    enum pp_err (*open)(void *data, struct pp_loop *loop);
    /* Closes what open() has opened, also after open() has failed. */
    void (*close)(void *data);
};

/* Starts the thread and waits until its open() has returned. If that fails, waits for the thread's
 * end and returns the error of open(). Returns PP_ENOMEM if the thread or its loop can't be made;
 * then neither function was called. */
pp_must_check enum pp_err pp_loop_thread_open(const struct pp_loop_thread_options *options,
                                              struct pp_loop_thread **out);
/* Waits for the thread's end; the owner has sent it the message to stop. `t` may be NULL. */
void pp_loop_thread_close(struct pp_loop_thread *t);

#endif
