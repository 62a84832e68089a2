/* fetcher.c: the fetcher port on libcurl's multi interface.
 *
 * Each exchange borrows a transfer from a pool: an easy handle whose constant options are set and
 * whose memory is reused. A transfer has these states:
 *
 *            start()         libcurl finishes it        done()
 *   IDLE ---------------> RUNNING ----------> ENDED -------------> IDLE
 *     \                     ^  \                                    ^
 *      `--> WAITING --------'   `--> DOOMED ------------------------'
 *           (start() from within libcurl; abort() from within libcurl)
 *
 * Invariants:
 * - t->x->impl == t while an exchange is in flight, and only then; n_live counts the exchanges in
 *   flight.
 * - A transfer is in one list at most: the list of its state (idle, waiting, doomed, ended), or,
 *   while it runs, the list of the work that settle() has for it (resuming, nudged).
 * - Only settle() calls done(), outside of libcurl, after it has put the transfer back into the
 *   pool: the callback may start the same exchange again, or abort others.
 *
 * settle() runs after every event that can end a transfer (sockets and the timer, in poll.c) and
 * after every call that queues work. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/curl/internal.h"
#include "base/check.h"
#include "photopool/code.h"

static struct pp_curl *self(struct pp_fetcher *base)
{
    struct pp_curl *f = (struct pp_curl *)base;

    pp_assert(f && f->magic == PP_CURL_MAGIC, "not an open fetcher");
    return f;
}

static struct pp_curl_transfer *transfer_of(struct pp_exchange *x)
{
    struct pp_curl_transfer *t = x->impl;

    pp_assert(t && t->magic == PP_CURL_MAGIC && t->x == x, "the exchange is not in flight");
    return t;
}

static struct pp_curl_transfer *first_of(struct pp_list *list)
{
    struct pp_curl_transfer *t;

    if (pp_list_empty(list))
        return NULL;
    t = pp_container_of(list->head.next, struct pp_curl_transfer, node);
    pp_assert(t->list == list, "a transfer is in another list than it says");
    pp_curl_unlist(t);
    return t;
}

/* --- the pool --- */

static struct pp_curl_transfer *transfer_new(struct pp_curl *f)
{
    struct pp_curl_transfer *t = calloc(1, sizeof(*t));

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

static void transfer_put(struct pp_curl_transfer *t)
{
    pp_assert(!t->x, "a transfer goes back to the pool with its exchange");
    pp_curl_decoder_close(t->decoder);
    t->decoder = NULL;
    pp_curl_unlist(t);
    t->state = PP_T_IDLE;
    t->list = &t->f->idle;
    pp_list_push_front(t->list, &t->node);
}

/* Resets the transfer for a new exchange; keeps its handle and options. */
static void transfer_clear(struct pp_curl_transfer *t)
{
    /* The last exchange was aborted before libcurl read its addresses, and they may be stale. */
    if (t->told)
        (void)curl_easy_setopt(t->easy, CURLOPT_RESOLVE, NULL);
    memset(&t->head, 0, sizeof(t->head));
    t->verdict = 0;
    t->stopped = t->paused = t->held = false;
    t->name_missed = t->told = t->flushes = t->bad_coding = false;
    t->content = t->received_before = t->looks = 0;
    t->opened = t->denied = t->n_tried = 0;
    t->socket_errno = 0;
    t->fd = CURL_SOCKET_BAD;
    t->v6 = false;
    t->error[0] = '\0';
}

static void exchange_clear(struct pp_exchange *x)
{
    x->status = 0;
    x->content_length = -1;
    x->encoded = x->stopped = x->reused = false;
    x->etag_out[0] = x->last_modified_out[0] = x->retry_after[0] = x->content_type[0] = x->detail[0] = '\0';
    x->location = NULL;
    x->phase = PP_PHASE_CONNECT;
    x->code = PP_CODE_NONE;
    x->local_errno = 0;
}

/* Detaches the transfer from its exchange. Returns x->location, which the caller frees. */
static char *separate(struct pp_curl_transfer *t)
{
    pp_assert(t->f->n_live > 0, "more exchanges end than were started");
    char *location = t->x->location;

    t->x->impl = NULL;
    t->x->location = NULL;
    t->x = NULL;
    t->f->n_live--;
    return location;
}

/* --- into and out of the multi handle --- */

static bool add_to_multi(struct pp_curl_transfer *t)
{
    pp_assert(t->state != PP_T_ENDED && t->state != PP_T_DOOMED, "a transfer is sent that has ended");
    if (curl_multi_add_handle(t->f->multi, t->easy) != CURLM_OK)
        return false;
    t->state = PP_T_RUNNING;
    return true;
}

/* Handles the end of a transfer in libcurl: sets the outcome and the state ENDED. */
static void on_transfer_end(struct pp_curl_transfer *t, CURLcode rc)
{
    long connects = 0;

    pp_curl_unlist(t);
    if (curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK &&
        t->x->phase > PP_PHASE_CONNECT)
        t->x->reused = connects == 0;
    pp_curl_outcome(t, rc); /* reads the easy handle, so this call must precede its removal */
    if (t->flushes && t->x->phase > PP_PHASE_CONNECT)
        t->f->pins.flush = false;
    (void)curl_multi_remove_handle(t->f->multi, t->easy);
    t->state = PP_T_ENDED;
    if (!t->paused)
        pp_curl_enlist(t, &t->f->ended);
}

/* Starts the request again and passes the addresses of its host, which libcurl has forgotten. */
static bool send_again(struct pp_curl_transfer *t)
{
    (void)curl_multi_remove_handle(t->f->multi, t->easy);
    pp_curl_pins_set(&t->f->pins, t->x, false);
    t->name_missed = false;
    t->error[0] = '\0';
    return pp_curl_prepare_again(t) && add_to_multi(t);
}

/* --- settle --- */

static void remove_doomed(struct pp_curl *f)
{
    struct pp_curl_transfer *t;

    while ((t = first_of(&f->doomed))) {
        (void)curl_multi_remove_handle(f->multi, t->easy);
        transfer_put(t);
    }
}

static void add_waiting(struct pp_curl *f)
{
    struct pp_curl_transfer *t;

    while ((t = first_of(&f->waiting))) {
        if (add_to_multi(t))
            continue;
        t->verdict = PP_CODE_INTERNAL;
        on_transfer_end(t, CURLE_OUT_OF_MEMORY);
    }
}

/* Continues transfers that the user has resumed. curl_easy_pause() delivers held bytes at once. If
 * a callback refuses these bytes, libcurl does not end the transfer, so this function does. */
static void resume_held(struct pp_curl *f)
{
    struct pp_curl_transfer *t;

    for (size_t n = f->resuming.n; n > 0 && (t = first_of(&f->resuming)); n--) {
        CURLcode rc;
        t->held = false;
        f->in_curl++;
        f->entered_ns = uv_hrtime();
        rc = curl_easy_pause(t->easy, CURLPAUSE_CONT);
        f->in_curl--;
        if (rc != CURLE_OK && t->state == PP_T_RUNNING)
            on_transfer_end(t, rc);
    }
}

/* Makes libcurl try the next address after a failed connect(). libcurl 7.88 turns to the next
 * address, but then waits until the whole time for connecting is over. Pausing and unpausing the
 * transfer makes libcurl continue. */
static void run_nudged(struct pp_curl *f)
{
    struct pp_curl_transfer *t;

    while ((t = first_of(&f->nudged))) {
        if (t->x->phase != PP_PHASE_CONNECT)
            continue;
        f->in_curl++;
        (void)curl_easy_pause(t->easy, CURLPAUSE_RECV);
        (void)curl_easy_pause(t->easy, CURLPAUSE_CONT);
        f->in_curl--;
    }
}

static void read_messages(struct pp_curl *f)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(f->multi, &left))) {
        struct pp_curl_transfer *t = NULL;
        CURLcode rc = m->data.result; /* read before the handle is removed, which frees m */
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        pp_assert(t && t->magic == PP_CURL_MAGIC, "libcurl ends a handle that has no transfer");
        if (t->state != PP_T_RUNNING)
            continue; /* the user has aborted the exchange, and remove_doomed() removes the transfer */
        if (t->name_missed && !t->told && send_again(t))
            continue;
        on_transfer_end(t, rc);
    }
}

static void call_done(struct pp_curl *f)
{
    struct pp_curl_transfer *t;

    while (!f->closed && (t = first_of(&f->ended))) {
        struct pp_exchange *x = t->x;
        pp_assert(t->state == PP_T_ENDED && !t->paused, "done() for a transfer that runs or is paused");
        char *location = separate(t);
        x->location = location; /* the user may read the Location header in done() */
        transfer_put(t);
        x->events->done(x); /* the callback may free x, or start it again */
        free(location);
    }
}

static void settle(struct pp_curl *f)
{
    if (f->settling || f->closed)
        return;
    pp_assert(!f->in_curl, "settling within a callback of libcurl's");
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
    struct pp_curl_transfer *t = first_of(&f->idle);
    enum pp_err err;

    pp_assert(x->events && x->url && x->host, "an exchange without events, URL or host");
    if (!t && !(t = transfer_new(f)))
        return PP_ENOMEM;
    transfer_clear(t);
    exchange_clear(x);
    t->x = x;
    err = pp_curl_prepare(t);
    if (!err && f->in_curl) {
        t->state = PP_T_WAITING;
        pp_curl_enlist(t, &f->waiting);
        f->poll.dirty = true;
    } else if (!err && !add_to_multi(t)) {
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
    struct pp_curl_transfer *t = transfer_of(x);

    free(separate(t));
    pp_curl_unlist(t);
    if (t->state == PP_T_RUNNING && f->in_curl) {
        /* The header lines belong to the user, who may free them now, so libcurl must not read them
         * again. */
        (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, NULL);
        t->has_lines = false;
        t->state = PP_T_DOOMED;
        pp_curl_enlist(t, &f->doomed);
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
    struct pp_curl_transfer *t = transfer_of(x);

    if (!t->paused)
        return;
    t->paused = false;
    if (t->state == PP_T_ENDED)
        pp_curl_enlist(t, &f->ended);
    else if (t->held)
        pp_curl_enlist(t, &f->resuming);
    pp_curl_poll_kick(f);
}

static void fetcher_close(struct pp_fetcher *base)
{
    struct pp_curl *f = self(base);
    struct pp_curl_transfer *t;

    pp_assert(f->n_live == 0 && !f->in_curl, "exchanges are in flight at close");
    f->closed = true;
    remove_doomed(f);
    while ((t = first_of(&f->idle))) {
        curl_easy_cleanup(t->easy);
        free(t);
    }
    /* This closes the connections, so libcurl calls pp_curl_poll_forget(). */
    (void)curl_multi_cleanup(f->multi);
    (void)curl_share_cleanup(f->share);
    pp_curl_pins_empty(&f->pins);
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
    long exchanges = o->max_exchanges ? (long)o->max_exchanges : 256;
    long kept = o->max_kept ? (long)o->max_kept : 256;

    f->multi = curl_multi_init();
    f->share = curl_share_init();
    if (!f->multi || !f->share)
        return PP_ENOMEM;
    /* All handles share TLS sessions, so each of them can resume the session of a host. */
    if (curl_share_setopt(f->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, kept) != CURLM_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, kept > exchanges ? kept : exchanges) !=
            CURLM_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX) != CURLM_OK)
        return PP_ENOMEM;
    return pp_curl_poll_attach(f);
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
    f->sockets = o && o->ledger ? &o->ledger->rows[PP_RES_TRANSFERS] : NULL;
    f->settle = settle;
    pp_list_init(&f->idle);
    pp_list_init(&f->waiting);
    pp_list_init(&f->doomed);
    pp_list_init(&f->ended);
    pp_list_init(&f->resuming);
    pp_list_init(&f->resting);
    pp_list_init(&f->nudged);
    pp_curl_poll_init(f);
    if (!o)
        o = &defaults;
    err = copy_options(f, o);
    if (!err)
        err = open_handles(f, o);
    if (err)
        fetcher_close(&f->base);
    else
        *out = &f->base;
    return err;
}
