/* fetcher.c: the fetcher port on libcurl's multi interface.
 *
 * Each exchange borrows a transfer: an easy handle with its constant options set and its memory warm. Their
 * states:
 *
 *            start()            over in libcurl           done()
 *   IDLE ---------------> RUNNING ----------> ENDED -------------> IDLE
 *     \                     ^  \                                    ^
 *      `--> WAITING --------'   `--> DOOMED ------------------------'
 *           (start() from within libcurl; abort() from within libcurl)
 *
 * Invariants:
 * - t->x->impl == t while an exchange is under way, and only then; n_live counts these.
 * - A transfer is in one list at most: that of its state, if it has one (idle, waiting, doomed, ended), or,
 * running, of what settle() has to do for it (resuming, nudged).
 * - done() is called by settle() only, so outside of libcurl, and with the transfer already back in the pool:
 * the callback may start the same exchange again, or abort others.
 *
 * Whatever can end a transfer (poll.c: events and timer) or queues work leads to settle(). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/curl/internal.h"
#include "photopool/code.h"

static struct pp_curl *self(struct pp_fetcher *base)
{
    struct pp_curl *f = (struct pp_curl *)base;

    assert(f && f->magic == PP_CURL_MAGIC);
    return f;
}

static struct pp_transfer *transfer_of(struct pp_exchange *x)
{
    struct pp_transfer *t = x->impl;

    assert(t && t->magic == PP_CURL_MAGIC && t->x == x);
    return t;
}

static void unlist(struct pp_transfer *t)
{
    if (t->list)
        pp_list_remove(t->list, &t->node);
    t->list = NULL;
}

static void enlist(struct pp_transfer *t, struct pp_list *list)
{
    unlist(t);
    t->list = list;
    pp_list_push(list, &t->node);
}

static struct pp_transfer *first_of(struct pp_list *list)
{
    struct pp_transfer *t;

    if (pp_list_empty(list))
        return NULL;
    t = pp_container_of(list->head.next, struct pp_transfer, node);
    unlist(t);
    return t;
}

/* --- the pool --- */

static struct pp_transfer *transfer_new(struct pp_curl *f)
{
    struct pp_transfer *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->magic = PP_CURL_MAGIC;
    t->f = f;
    t->easy = curl_easy_init();
    if (t->easy && pp_curl_setup(t))
        return t;
    curl_easy_cleanup(t->easy);
    free(t);
    return NULL;
}

/* Last in, first out: the warmest handle is the next. */
static struct pp_transfer *transfer_take(struct pp_curl *f)
{
    struct pp_transfer *t = first_of(&f->idle);

    return t ? t : transfer_new(f);
}

static void transfer_put(struct pp_transfer *t)
{
    assert(!t->x);
    pp_curl_decoder_close(t->decoder);
    t->decoder = NULL;
    unlist(t);
    t->state = PP_T_IDLE;
    t->list = &t->f->idle;
    pp_list_push_front(t->list, &t->node);
}

/* Forgets the last exchange, keeps the handle and its options. */
static void transfer_clear(struct pp_transfer *t)
{
    /* aborted before libcurl read the addresses: they may be stale by now */
    if (t->told)
        (void)curl_easy_setopt(t->easy, CURLOPT_RESOLVE, NULL);
    memset(&t->head, 0, sizeof(t->head));
    t->verdict = 0;
    t->stopped = t->paused = t->held = false;
    t->name_missed = t->told = t->flushes = t->bad_coding = false;
    t->opened = t->denied = t->n_tried = 0;
    t->socket_errno = 0;
    t->result = CURLE_OK;
    t->error[0] = '\0';
}

static void exchange_clear(struct pp_exchange *x)
{
    x->status = 0;
    x->content_length = -1;
    x->encoded = x->stopped = x->reused = false;
    x->etag_out[0] = x->last_modified_out[0] = x->retry_after[0] = x->detail[0] = '\0';
    x->location = NULL;
    x->phase = PP_PHASE_CONNECT;
    x->code = PP_CODE_NONE;
}

/* Parts transfer and exchange; the caller frees what it returns: x->location. */
static char *part(struct pp_transfer *t)
{
    char *location = t->x->location;

    t->x->impl = NULL;
    t->x->location = NULL;
    t->x = NULL;
    t->f->n_live--;
    return location;
}

/* --- into and out of the multi handle --- */

static bool add(struct pp_transfer *t)
{
    if (curl_multi_add_handle(t->f->multi, t->easy) != CURLM_OK)
        return false;
    t->state = PP_T_RUNNING;
    return true;
}

/* Libcurl is through with it. */
static void end(struct pp_transfer *t, CURLcode rc)
{
    long connects = 0;

    unlist(t);
    if (curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK &&
        t->x->phase > PP_PHASE_CONNECT)
        t->x->reused = connects == 0;
    pp_curl_outcome(t, rc); /* asks the handle, so before it is removed */
    if (t->flushes && t->x->phase > PP_PHASE_CONNECT)
        t->f->pins.flush = false;
    (void)curl_multi_remove_handle(t->f->multi, t->easy);
    t->state = PP_T_ENDED;
    t->result = rc;
    if (!t->paused)
        enlist(t, &t->f->ended);
}

/* libcurl had forgotten the name's addresses: once more, with them. True if the request is on its way again.
 */
static bool again(struct pp_transfer *t)
{
    (void)curl_multi_remove_handle(t->f->multi, t->easy);
    pp_curl_pins_set(&t->f->pins, t->x, false);
    t->name_missed = false;
    t->error[0] = '\0';
    return pp_curl_prepare_again(t) && add(t);
}

/* --- settle --- */

static void remove_doomed(struct pp_curl *f)
{
    struct pp_transfer *t;

    while ((t = first_of(&f->doomed))) {
        (void)curl_multi_remove_handle(f->multi, t->easy);
        transfer_put(t);
    }
}

static void add_waiting(struct pp_curl *f)
{
    struct pp_transfer *t;

    while ((t = first_of(&f->waiting))) {
        if (add(t))
            continue;
        t->verdict = PP_CODE_INTERNAL;
        end(t, CURLE_OUT_OF_MEMORY);
    }
}

/* curl_easy_pause() delivers held bytes at once; a refusal of theirs does not end the transfer in libcurl. */
static void resume_held(struct pp_curl *f)
{
    struct pp_transfer *t;

    for (size_t n = f->resuming.n; n > 0 && (t = first_of(&f->resuming)); n--) {
        CURLcode rc;
        t->held = false;
        f->in_curl++;
        rc = curl_easy_pause(t->easy, CURLPAUSE_CONT);
        f->in_curl--;
        if (rc != CURLE_OK && t->state == PP_T_RUNNING)
            end(t, rc);
    }
}

/* When an attempt to connect fails, libcurl 7.88 prepares the next address and then waits for an event or a
 * time that does not come before the whole time for connecting is over. Unpausing makes it run, whether it
 * was paused or not. */
static void run_nudged(struct pp_curl *f)
{
    struct pp_transfer *t;

    while ((t = first_of(&f->nudged))) {
        if (t->x->phase != PP_PHASE_CONNECT)
            continue;
        f->in_curl++;
        (void)curl_easy_pause(t->easy, CURLPAUSE_RECV);
        (void)curl_easy_pause(t->easy, CURLPAUSE_CONT);
        f->in_curl--;
    }
}

void pp_curl_nudge(struct pp_transfer *t)
{
    if (t->state != PP_T_RUNNING || t->x->n_addrs < 2 || t->x->phase != PP_PHASE_CONNECT)
        return;
    enlist(t, &t->f->nudged);
    t->f->poll.dirty = true;
}

static void read_messages(struct pp_curl *f)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(f->multi, &left))) {
        struct pp_transfer *t = NULL;
        CURLcode rc = m->data.result; /* removing the handle frees m */
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        if (t->state != PP_T_RUNNING)
            continue; /* doomed */
        if (t->name_missed && !t->told && again(t))
            continue;
        end(t, rc);
    }
}

static void call_done(struct pp_curl *f)
{
    struct pp_transfer *t;

    while (!f->closed && (t = first_of(&f->ended))) {
        struct pp_exchange *x = t->x;
        char *location = part(t);
        x->location = location; /* readable in done() */
        transfer_put(t);
        x->events->done(x); /* may free x, or start it again */
        free(location);
    }
}

void pp_curl_settle(struct pp_curl *f)
{
    if (f->settling || f->closed)
        return;
    f->settling = true;
    f->poll.dirty = false;
    resume_held(f);
    read_messages(f);
    run_nudged(f);
    remove_doomed(f);
    add_waiting(f);
    call_done(f);
    f->settling = false;
}

/* --- the port --- */

static enum pp_err fetcher_start(struct pp_fetcher *base, struct pp_exchange *x)
{
    struct pp_curl *f = self(base);
    struct pp_transfer *t = transfer_take(f);
    enum pp_err err;

    if (!t)
        return PP_ENOMEM;
    transfer_clear(t);
    exchange_clear(x);
    t->x = x;
    err = pp_curl_prepare(t);
    if (!err && f->in_curl) {
        t->state = PP_T_WAITING;
        enlist(t, &f->waiting);
        f->poll.dirty = true;
    } else if (!err && !add(t)) {
        err = PP_ENOMEM;
    }
    if (err) {
        t->x = NULL;
        transfer_put(t);
        return err;
    }
    x->impl = t;
    f->n_live++;
    return PP_OK;
}

static void fetcher_abort(struct pp_fetcher *base, struct pp_exchange *x)
{
    struct pp_curl *f = self(base);
    struct pp_transfer *t = transfer_of(x);

    free(part(t));
    unlist(t);
    if (t->state == PP_T_RUNNING && f->in_curl) {
        /* the lines are the caller's: libcurl must not look at them again */
        (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, NULL);
        t->has_lines = false;
        t->state = PP_T_DOOMED;
        enlist(t, &f->doomed);
        f->poll.dirty = true;
        return;
    }
    if (t->state == PP_T_RUNNING)
        (void)curl_multi_remove_handle(f->multi, t->easy);
    transfer_put(t);
}

static void fetcher_resume(struct pp_fetcher *base, struct pp_exchange *x)
{
    struct pp_curl *f = self(base);
    struct pp_transfer *t = transfer_of(x);

    if (!t->paused)
        return;
    t->paused = false;
    if (t->state == PP_T_ENDED) {
        enlist(t, &f->ended);
    } else if (t->held) {
        enlist(t, &f->resuming);
    }
    pp_curl_poll_kick(f);
}

static void fetcher_close(struct pp_fetcher *base)
{
    struct pp_curl *f = self(base);
    struct pp_transfer *t;

    assert(f->n_live == 0 && !f->in_curl);
    f->closed = true;
    remove_doomed(f);
    while ((t = first_of(&f->idle))) {
        curl_easy_cleanup(t->easy);
        free(t);
    }
    (void)curl_multi_cleanup(f->multi); /* closes the connections: poll.c hears of it */
    (void)curl_share_cleanup(f->share);
    pp_curl_pins_fini(&f->pins);
    free(f->ca_file);
    free(f->user_agent);
    curl_global_cleanup();
    f->magic = 0;
    pp_curl_poll_close(f);
}

static const struct pp_fetcher_ops ops = {fetcher_start, fetcher_abort, fetcher_resume, fetcher_close};

/* --- opening --- */

static enum pp_err copy_options(struct pp_curl *f, const struct pp_curl_options *o)
{
    const char *ca = o->ca_file ? o->ca_file : curl_version_info(CURLVERSION_NOW)->cainfo;

    f->buffer_bytes = o->buffer_bytes ? o->buffer_bytes : 32768;
    f->max_header_bytes = o->max_header_bytes ? o->max_header_bytes : 65536;
    f->max_header_lines = o->max_header_lines ? o->max_header_lines : 100;
    if (f->buffer_bytes < 1024 || f->buffer_bytes > CURL_MAX_READ_SIZE)
        return PP_EINVAL;
    if (o->ca_file && access(o->ca_file, R_OK) != 0)
        return PP_EIO;
    f->ca_file = ca ? strdup(ca) : NULL;
    f->user_agent = o->user_agent ? strdup(o->user_agent) : NULL;
    return (ca && !f->ca_file) || (o->user_agent && !f->user_agent) ? PP_ENOMEM : PP_OK;
}

static enum pp_err open_handles(struct pp_curl *f, const struct pp_curl_options *o)
{
    long connections = o->max_connections ? (long)o->max_connections : 256;

    f->multi = curl_multi_init();
    f->share = curl_share_init();
    if (!f->multi || !f->share)
        return PP_ENOMEM;
    /* sessions of all handles in one place: a host's second connection is cheap, whichever handle makes it */
    if (curl_share_setopt(f->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, connections) != CURLM_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX) != CURLM_OK)
        return PP_ENOMEM;
    return PP_OK;
}

enum pp_err pp_curl_fetcher_open(struct pp_loop *loop, const struct pp_curl_options *o,
                                 struct pp_fetcher **out)
{
    static const struct pp_curl_options defaults;
    struct pp_curl *f = calloc(1, sizeof(*f));
    enum pp_err err;

    if (!f)
        return PP_ENOMEM;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(f);
        return PP_ENOMEM;
    }
    f->base.ops = &ops;
    f->magic = PP_CURL_MAGIC;
    f->uv = pp_loop_uv(loop);
    pp_list_init(&f->idle);
    pp_list_init(&f->waiting);
    pp_list_init(&f->doomed);
    pp_list_init(&f->ended);
    pp_list_init(&f->resuming);
    pp_list_init(&f->nudged);
    err = copy_options(f, o ? o : &defaults);
    if (!err)
        err = open_handles(f, o ? o : &defaults);
    if (!err) {
        err = pp_curl_poll_open(f);
        if (!err) {
            *out = &f->base;
            return PP_OK;
        }
        fetcher_close(&f->base);
        return err;
    }
    curl_multi_cleanup(f->multi);
    curl_share_cleanup(f->share);
    curl_global_cleanup();
    free(f->ca_file);
    free(f->user_agent);
    free(f);
    return err;
}
