/* loop_thread.c: starts a thread, runs a loop on it, and waits for its end. */
#include "runtime/loop_thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>

#include "base/check.h"

struct pp_loop_thread {
    struct pp_loop_thread_options options;
    pthread_t thread;
    sem_t opened;
    enum pp_err err; /* what open() returned; set before `opened` is posted */
};

static void *run(void *data)
{
    struct pp_loop_thread *t = data;
    const struct pp_loop_thread_options *o = &t->options;
    struct pp_loop *loop = pp_loop_open();
    enum pp_err err = loop ? o->open(o->data, loop) : PP_ENOMEM;

    t->err = err;
    sem_post(&t->opened);
    if (!loop)
        return NULL;
    if (err == PP_OK)
        pp_loop_run(loop);
    o->close(o->data);
    pp_loop_close(loop);
    return NULL;
}

/* Frees a thread that has ended, or has not started. */
static void destroy(struct pp_loop_thread *t)
{
    sem_destroy(&t->opened);
    free(t);
}

/* Starts the thread. All signals are blocked on it: the main thread handles them. */
static int start(struct pp_loop_thread *t)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

enum pp_err pp_loop_thread_open(const struct pp_loop_thread_options *options, struct pp_loop_thread **out)
{
    pp_assert(options->name && options->open && options->close, "a thread lacks an option");
    struct pp_loop_thread *t = calloc(1, sizeof *t);

    *out = NULL;
    if (!t)
        return PP_ENOMEM;
    t->options = *options;
    sem_init(&t->opened, 0, 0);
    if (start(t) != 0) {
        destroy(t);
        return PP_ENOMEM;
    }
    pthread_setname_np(t->thread, options->name);
    while (sem_wait(&t->opened) != 0)
        ;
    enum pp_err err = t->err;
    if (err == PP_OK) {
        *out = t;
        return PP_OK;
    }
    pthread_join(t->thread, NULL);
    destroy(t);
    return err;
}

void pp_loop_thread_close(struct pp_loop_thread *t)
{
    if (!t)
        return;
    pthread_join(t->thread, NULL);
    destroy(t);
}
