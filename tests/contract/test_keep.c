/* test_keep.c: keep on a real lane. Every byte arrives once and in order however the body is cut
 * into pieces, memory is bounded, a body may be aborted at any moment, and a failing disk is
 * reported. The blob store is in memory; a test can hold its calls and make them fail. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/evp.h>

#include "pipeline/common/gate.h"
#include "pipeline/fetch/keep.h"
#include "test_clock.h"
#include "test_loop.h"

/* --- a blob store in memory --- */

enum blob_op { OP_PUT, OP_OPEN, OP_WRITE, OP_COMMIT, OP_CHECK, OP_COUNT };

struct store {
    struct pp_blob_store base;
    pthread_mutex_t lock;
    pthread_cond_t let_go;
    /* The fields below are protected by the store's lock. */
    bool held;   /* While this is true, each call of the store waits. */
    int waiting; /* number of calls that wait */
    /* The `fail_at`-th next call of `fail_op` returns this error. PP_OK: none fails. */
    enum pp_err fail;
    enum blob_op fail_op;
    int fail_at;
    bool probe_fails;
    int calls[OP_COUNT], aborts;
    int parts;  /* number of parts that are open now */
    char *last; /* the bytes of the object that was stored last */
    size_t last_n;
    uint8_t last_sha256[32];
    char last_ext[8];
};

struct pp_blob_part {
    struct store *s;
    char *p;
    size_t n;
};

static enum pp_err enter(struct store *s, enum blob_op op)
{
    enum pp_err err = PP_OK;

    pthread_mutex_lock(&s->lock);
    s->waiting++;
    while (s->held)
        pthread_cond_wait(&s->let_go, &s->lock);
    s->waiting--;
    s->calls[op]++;
    if (s->fail != PP_OK && op == s->fail_op && --s->fail_at <= 0)
        err = s->fail;
    pthread_mutex_unlock(&s->lock);
    return err;
}

static void stored(struct store *s, char *p, size_t n, const uint8_t sha256[32], const char *ext)
{
    pthread_mutex_lock(&s->lock);
    free(s->last);
    s->last = p;
    s->last_n = n;
    memcpy(s->last_sha256, sha256, 32);
    memcpy(s->last_ext, ext, strlen(ext) + 1);
    pthread_mutex_unlock(&s->lock);
}

static char *gather(char *p, size_t *n, const struct iovec *iov, int iovs)
{
    for (int i = 0; i < iovs; i++) {
        p = realloc(p, *n + iov[i].iov_len + 1);
        memcpy(p + *n, iov[i].iov_base, iov[i].iov_len);
        *n += iov[i].iov_len;
    }
    return p;
}

static enum pp_err store_put(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                             const struct iovec *iov, int n, bool *existed)
{
    struct store *s = (struct store *)b;
    enum pp_err err = enter(s, OP_PUT);
    size_t size = 0;

    assert_null(existed);
    if (err == PP_OK) {
        char *p = gather(NULL, &size, iov, n);
        stored(s, p, size, sha256, ext);
    }
    return err;
}

static void count_part(struct store *s, int by)
{
    pthread_mutex_lock(&s->lock);
    s->parts += by;
    pthread_mutex_unlock(&s->lock);
}

static enum pp_err store_open(struct pp_blob_store *b, struct pp_blob_part **part)
{
    enum pp_err err = enter((struct store *)b, OP_OPEN);
    if (err != PP_OK)
        return err;
    *part = calloc(1, sizeof(**part));
    (*part)->s = (struct store *)b;
    count_part((*part)->s, 1);
    return PP_OK;
}

static enum pp_err store_write(struct pp_blob_part *part, const struct iovec *iov, int n)
{
    enum pp_err err = enter(part->s, OP_WRITE);
    if (err == PP_OK)
        part->p = gather(part->p, &part->n, iov, n);
    return err;
}

static enum pp_err store_commit(struct pp_blob_part *part, const uint8_t sha256[32], const char *ext,
                                bool *existed)
{
    struct store *s = part->s;
    enum pp_err err = enter(s, OP_COMMIT);

    assert_null(existed);
    if (err == PP_OK)
        stored(s, part->p, part->n, sha256, ext);
    else
        free(part->p);
    free(part);
    count_part(s, -1);
    return err;
}

static void store_abort(struct pp_blob_part *part)
{
    struct store *s = part->s;

    free(part->p);
    free(part);
    count_part(s, -1);
    pthread_mutex_lock(&s->lock);
    s->aborts++;
    pthread_mutex_unlock(&s->lock);
}

static enum pp_err store_check(struct pp_blob_store *b)
{
    struct store *s = (struct store *)b;

    pthread_mutex_lock(&s->lock);
    s->calls[OP_CHECK]++;
    bool fails = s->probe_fails;
    pthread_mutex_unlock(&s->lock);
    return fails ? PP_EIO : PP_OK;
}

static void store_reason(struct pp_blob_store *b, char *text, size_t n)
{
    (void)b;
    (void)snprintf(text, n, "Disk full");
}

static const struct pp_blob_store_ops store_ops = {.put = store_put,
                                                   .open = store_open,
                                                   .write = store_write,
                                                   .commit = store_commit,
                                                   .abort = store_abort,
                                                   .check = store_check,
                                                   .reason = store_reason};

static void hold(struct store *s, bool held)
{
    pthread_mutex_lock(&s->lock);
    s->held = held;
    pthread_cond_broadcast(&s->let_go);
    pthread_mutex_unlock(&s->lock);
}

static int look(struct store *s, const int *what)
{
    pthread_mutex_lock(&s->lock);
    int value = *what;
    pthread_mutex_unlock(&s->lock);
    return value;
}

static bool somebody_waits(void *s)
{
    return look(s, &((struct store *)s)->waiting) > 0;
}

/* Lets the nth next call of `op` and all later ones fail, and the probes. PP_OK: all is well. */
static void fail_at(struct store *s, enum blob_op op, int nth, enum pp_err err)
{
    pthread_mutex_lock(&s->lock);
    s->probe_fails = err != PP_OK;
    s->fail_op = op;
    s->fail_at = nth;
    s->fail = err;
    pthread_mutex_unlock(&s->lock);
}

/* --- the kit --- */

struct kit {
    struct pp_loop *loop;
    struct store store;
    struct pp_lane *lane;
    struct pp_keep *keep;
    struct pp_gate *gate; /* NULL unless gated_open() has opened the kit */
    int opens;            /* how often the gate has opened */
};

/* One body, and what its callbacks have reported. */
struct one {
    struct kit *k;
    struct pp_body *body;
    bool paused;
    int resumes, kepts;
    enum pp_err err;
    uint8_t sha256[32];
};

static void on_gate_open(void *data)
{
    ((struct kit *)data)->opens++;
}

static void on_gate_retry(void *data)
{
    pp_keep_retry(((struct kit *)data)->keep);
}

static void kit_open_with(struct kit *k, unsigned threads, uint64_t buffer_bytes, bool gated)
{
    memset(k, 0, sizeof(*k));
    k->store.base.ops = &store_ops;
    pthread_mutex_init(&k->store.lock, NULL);
    pthread_cond_init(&k->store.let_go, NULL);
    k->loop = pp_loop_open();
    k->lane = pp_keep_lane_open(threads, &k->store.base);
    assert_non_null(k->lane);
    if (gated)
        k->gate = pp_gate_open(&(struct pp_gate_options){.loop = k->loop,
                                                         .blobs = &k->store.base,
                                                         .data = k,
                                                         .on_open = on_gate_open,
                                                         .on_retry = on_gate_retry});
    assert_true(!gated || k->gate);
    k->keep = pp_keep_open(k->loop, k->lane, &k->store.base, k->gate, buffer_bytes);
    assert_non_null(k->keep);
}

static void kit_open(struct kit *k, unsigned threads, uint64_t buffer_bytes)
{
    kit_open_with(k, threads, buffer_bytes, false);
}

static bool idle(void *k)
{
    return pp_keep_idle(((struct kit *)k)->keep);
}

static bool no_probe(void *k)
{
    return !pp_gate_busy(((struct kit *)k)->gate);
}

static void kit_close(struct kit *k)
{
    hold(&k->store, false);
    pp_test_until(k->loop, idle, k, 10000);
    if (k->gate) {
        pp_gate_stop(k->gate);
        pp_test_until(k->loop, no_probe, k, 10000);
    }
    assert_int_equal(look(&k->store, &k->store.parts), 0);
    pp_keep_close(k->keep);
    pp_gate_close(k->gate);
    pp_lane_close(k->lane);
    pp_loop_close(k->loop);
    free(k->store.last);
    pthread_cond_destroy(&k->store.let_go);
    pthread_mutex_destroy(&k->store.lock);
}

static void on_resume(void *data)
{
    struct one *o = data;

    assert_true(o->paused);
    assert_int_equal(o->kepts, 0);
    o->paused = false;
    o->resumes++;
}

static void on_kept(void *data, enum pp_err err, const uint8_t sha256[32])
{
    struct one *o = data;

    assert_false(o->paused);
    o->kepts++;
    o->err = err;
    memcpy(o->sha256, sha256, 32);
}

static const struct pp_body_events events = {on_resume, on_kept};

static void one_open(struct one *o, struct kit *k)
{
    memset(o, 0, sizeof(*o));
    o->k = k;
    o->body = pp_body_open(k->keep, &events, o);
    assert_non_null(o->body);
}

static bool not_paused(void *o)
{
    return !((struct one *)o)->paused;
}

static bool is_kept(void *o)
{
    return ((struct one *)o)->kepts > 0;
}

static enum pp_flow append(struct one *o, const void *p, size_t n)
{
    enum pp_flow flow = pp_body_append(o->body, p, n);

    o->paused = flow == PP_FLOW_PAUSE;
    return flow;
}

/* Appends all bytes in pieces of `piece` bytes, and waits while the body is paused. Returns false
 * if the body failed. */
static bool append_all(struct one *o, const char *p, size_t n, size_t piece)
{
    while (n > 0) {
        size_t now = n < piece ? n : piece;
        switch (append(o, p, now)) {
        case PP_FLOW_STOP: return false;
        case PP_FLOW_PAUSE: pp_test_until(o->k->loop, not_paused, o, 10000); break;
        case PP_FLOW_GO: p += now; n -= now;
        }
    }
    return true;
}

static char *pattern(size_t n)
{
    char *p = malloc(n + 1);
    uint32_t x = 2463534242u;

    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (char)(x >> 24);
    }
    return p;
}

static void finish(struct one *o)
{
    assert_int_equal(pp_body_finish(o->body, "jpg"), PP_OK);
    assert_int_equal(o->kepts, 0);
    pp_test_until(o->k->loop, is_kept, o, 10000);
    assert_int_equal(o->kepts, 1);
}

static void check_stored(const struct one *o, const char *p, size_t n)
{
    const struct store *s = &o->k->store;
    uint8_t hash[32];
    unsigned int len = 32;

    assert_int_equal(EVP_Digest(p, n, hash, &len, EVP_sha256(), NULL), 1);
    assert_int_equal(o->err, PP_OK);
    assert_memory_equal(o->sha256, hash, 32);
    assert_memory_equal(s->last_sha256, hash, 32);
    assert_string_equal(s->last_ext, "jpg");
    assert_int_equal(s->last_n, n);
    if (n > 0)
        assert_memory_equal(s->last, p, n);
}

/* --- bodies that are stored --- */

#define C PP_CHUNK_BYTES

static void every_size_arrives_whole(void **state)
{
    static const size_t sizes[] = {
        0,     1,         C - 1,     C,          C + 1,  2 * C - 1,  2 * C,  2 * C + 1,  7 * C,  8 * C - 1,
        8 * C, 8 * C + 1, 9 * C + 1, 16 * C - 1, 16 * C, 16 * C + 1, 17 * C, 64 * C + 1, 65 * C, 100 * C - 7};
    static const size_t pieces[] = {1000, 16384, C - 1, C};
    struct kit k;
    struct one o;
    char *p = pattern(100 * C);

    (void)state;
    kit_open(&k, 2, 1 << 30);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (size_t j = 0; j < sizeof(pieces) / sizeof(*pieces); j++) {
            one_open(&o, &k);
            assert_true(append_all(&o, p, sizes[i], pieces[j]));
            finish(&o);
            check_stored(&o, p, sizes[i]);
        }
    for (size_t piece = C + 1; piece < 100 * C;
         /* The bound on memory does not cover pieces of these sizes, which are larger than a
          * chunk. */
         piece *= 3) {
        one_open(&o, &k);
        assert_true(append_all(&o, p, 100 * C, piece));
        finish(&o);
        check_stored(&o, p, 100 * C);
    }
    kit_close(&k);
    free(p);
}

static void small_ones_are_one_write(void **state)
{
    struct kit k;
    struct one o;
    char *p = pattern(9 * C);

    (void)state;
    kit_open(&k, 1, 1 << 30);
    one_open(&o, &k);
    assert_true(append_all(&o, p, PP_BODY_SPILL * C, 16384));
    finish(&o);
    assert_int_equal(k.store.calls[OP_PUT], 1);
    assert_int_equal(k.store.calls[OP_OPEN], 0);
    one_open(&o, &k);
    assert_true(append_all(&o, p, PP_BODY_SPILL * C + 1, 16384));
    finish(&o);
    assert_int_equal(k.store.calls[OP_PUT], 1);
    assert_int_equal(k.store.calls[OP_OPEN], 1);
    assert_int_equal(k.store.calls[OP_COMMIT], 1);
    kit_close(&k);
    free(p);
}

static void bytes_come_in_pieces_of_any_size(void **state)
{
    struct kit k;
    char *p = pattern(40 * C);
    uint32_t x = 7;

    (void)state;
    kit_open(&k, 3, 6 * C);
    for (int round = 0; round < 60; round++) {
        struct one o;
        size_t n = 0, size = (x = x * 1103515245 + 12345) % (40 * C);
        one_open(&o, &k);
        while (n < size) {
            size_t piece = (x = x * 1103515245 + 12345) % (C + 1);
            piece = piece > size - n ? size - n : piece;
            assert_true(append_all(&o, p + n, piece, C));
            n += piece;
        }
        finish(&o);
        check_stored(&o, p, size);
    }
    kit_close(&k);
    free(p);
}

/* --- the bound on memory --- */

static size_t take_all(struct one *o, const char *p, size_t max)
{
    size_t n = 0;

    while (n < max && append(o, p + n, C) == PP_FLOW_GO)
        n += C;
    return n;
}

static void memory_is_bounded(void **state)
{
    enum { BODIES = 20, BUFFER = 12 };
    struct kit k;
    struct one o[BODIES];
    char *p = pattern(100 * C);
    size_t taken[BODIES], sum = 0;

    (void)state;
    kit_open(&k, 2, BUFFER * C);
    hold(&k.store, true); /* From here on the disk does not answer. */
    for (int i = 0; i < BODIES; i++) {
        one_open(&o[i], &k);
        taken[i] = take_all(&o[i], p, 100 * C);
        assert_true(o[i].paused);
        /* Every body may pass on its first chunk, even if the memory of all is used up. */
        assert_true(taken[i] >= C);
        sum += taken[i];
    }
    assert_true(sum >= BUFFER * C);
    assert_true(sum <= (BUFFER + BODIES) * C);
    hold(&k.store, false);
    for (int i = 0; i < BODIES; i++) {
        pp_test_until(k.loop, not_paused, &o[i], 10000);
        assert_true(append_all(&o[i], p + taken[i], 100 * C - taken[i], C));
        finish(&o[i]);
        check_stored(&o[i], p, 100 * C);
        assert_true(o[i].resumes > 0);
    }
    kit_close(&k);
    free(p);
}

static void a_body_alone_is_bounded_too(void **state)
{
    struct kit k;
    struct one o;
    char *p = pattern(100 * C);

    (void)state;
    kit_open(&k, 1, 1 << 30);
    hold(&k.store, true);
    one_open(&o, &k);
    /* One half of these chunks is being written; the other half waits for the lane. */
    assert_int_equal(take_all(&o, p, 100 * C), 2 * PP_BODY_SPILL * C);
    assert_true(o.paused);
    /* The body is paused already, so another append changes nothing. */
    assert_int_equal(append(&o, p, 1), PP_FLOW_PAUSE);
    hold(&k.store, false);
    pp_test_until(k.loop, not_paused, &o, 10000);
    assert_int_equal(o.resumes, 1);
    assert_true(append_all(&o, p + 2 * PP_BODY_SPILL * C, 84 * C, C));
    finish(&o);
    check_stored(&o, p, 100 * C);
    kit_close(&k);
    free(p);
}

/* --- bodies that are aborted --- */

static void bodies_may_be_dropped_at_any_moment(void **state)
{
    char *p = pattern(100 * C);

    (void)state;
    for (size_t n = 0; n <= 20; n++) {
        for (int held = 0; held <= 1; held++) {
            struct kit k;
            struct one o;
            kit_open(&k, 2, 1 << 30);
            hold(&k.store, held);
            one_open(&o, &k);
            (void)take_all(&o, p, n * C);
            if (held && n > PP_BODY_SPILL)
                pp_test_until(k.loop, somebody_waits, &k.store, 10000);
            pp_body_abort(o.body);
            kit_close(&k); /* This asserts that no part of an object is left. */
            assert_int_equal(o.kepts + o.resumes, 0);
            assert_int_equal(k.store.calls[OP_PUT] + k.store.calls[OP_COMMIT], 0);
        }
    }
    free(p);
}

static void a_body_that_is_being_stored_may_be_dropped(void **state)
{
    char *p = pattern(20 * C);

    (void)state;
    for (size_t n = 1; n <= 20; n += 19) {
        struct kit k;
        struct one o;
        kit_open(&k, 1, 1 << 30);
        one_open(&o, &k);
        assert_true(append_all(&o, p, n * C, C));
        hold(&k.store, true);
        assert_int_equal(pp_body_finish(o.body, "jpg"), PP_OK);
        pp_body_abort(o.body);
        kit_close(&k);
        assert_int_equal(o.kepts, 0);
    }
    free(p);
}

/* --- a disk that fails --- */

static void full_disks_are_reported(void **state)
{
    static const struct {
        enum blob_op op;
        int nth;
        size_t chunks;
    } cases[] = {{OP_PUT, 1, 1},    {OP_PUT, 1, 8},     {OP_OPEN, 1, 9},   {OP_OPEN, 1, 40},
                 {OP_WRITE, 1, 9},  {OP_WRITE, 1, 40},  {OP_WRITE, 2, 40}, {OP_WRITE, 3, 40},
                 {OP_COMMIT, 1, 9}, {OP_COMMIT, 1, 40}, {OP_WRITE, 2, 9}};
    char *p = pattern(40 * C);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kit k;
        struct one o;
        kit_open(&k, 2, 1 << 30);
        fail_at(&k.store, cases[i].op, cases[i].nth, PP_ENOSPC);
        one_open(&o, &k);
        if (!append_all(&o, p, cases[i].chunks * C, C)) {
            pp_body_abort(o.body); /* A runner also aborts a body that has failed. */
        } else {
            enum pp_err err = pp_body_finish(o.body, "jpg");
            if (err == PP_OK) {
                pp_test_until(k.loop, is_kept, &o, 10000);
                err = o.err;
            }
            assert_int_equal(err, PP_ENOSPC);
        }
        kit_close(&k);
        assert_null(k.store.last == NULL ? NULL : "stored all the same");
    }
    free(p);
}

/* A paused body resumes when its spill fails, so that the caller learns of the failure. */
static void a_paused_body_learns_that_the_disk_failed(void **state)
{
    struct kit k;
    struct one o;
    char *p = pattern(40 * C);

    (void)state;
    kit_open(&k, 1, 1 << 30);
    hold(&k.store, true);
    fail_at(&k.store, OP_WRITE, 1, PP_EIO);
    one_open(&o, &k);
    (void)take_all(&o, p, 40 * C);
    assert_true(o.paused);
    hold(&k.store, false);
    pp_test_until(k.loop, not_paused, &o, 10000);
    assert_int_equal(append(&o, p, 1), PP_FLOW_STOP);
    /* pp_body_finish() has also freed the body. */
    assert_int_equal(pp_body_finish(o.body, "jpg"), PP_EIO);
    kit_close(&k);
    assert_int_equal(o.kepts, 0);
    free(p);
}

/* The lane accepts no more jobs because the process is ending. Bodies fail, and no memory or part
 * remains. */
static void a_closed_lane_leaves_nothing_behind(void **state)
{
    char *p = pattern(40 * C);

    (void)state;
    for (int spilled = 0; spilled <= 1; spilled++) {
        struct kit k;
        struct one o, dropped, late;
        kit_open(&k, 1, 1 << 30);
        one_open(&o, &k);
        one_open(&dropped, &k);
        one_open(&late, &k);
        assert_true(append_all(&o, p, spilled ? 15 * C : C, C));
        assert_true(append_all(&dropped, p, spilled ? 15 * C : C, C));
        assert_true(append_all(&late, p, 8 * C, C));
        pp_test_until(k.loop, idle, &k, 10000);
        pp_lane_close(k.lane);
        assert_int_equal(pp_body_finish(o.body, "jpg"), PP_ECLOSED);
        pp_body_abort(dropped.body);
        assert_int_equal(append(&late, p, 1), PP_FLOW_STOP);
        pp_body_abort(late.body);
        assert_int_equal(look(&k.store, &k.store.parts), 0);
        pp_keep_close(k.keep); /* This asserts that keep has freed every chunk. */
        pp_loop_close(k.loop);
        free(k.store.last);
    }
    free(p);
}

/* --- bodies that wait while the blob store fails --- */

static bool is_closed(void *k)
{
    return pp_gate_closed(((struct kit *)k)->gate);
}

static bool is_open(void *k)
{
    return !is_closed(k);
}

static bool two_probes_failed(void *data)
{
    struct kit *k = data;
    pp_test_clock_pass(k->loop, 50);
    return look(&k->store, &k->store.calls[OP_CHECK]) >= 2;
}

static bool kept_in_time(void *data)
{
    struct one *o = data;
    pp_test_clock_pass(o->k->loop, 50);
    return o->kepts > 0;
}

/* Appends and finishes a body, and does not wait for the end. */
static void begin(struct one *o, struct kit *k, const char *p, size_t n)
{
    one_open(o, k);
    assert_true(append_all(o, p, n, C));
    assert_int_equal(pp_body_finish(o->body, "jpg"), PP_OK);
}

static void photos_wait_in_memory_while_the_store_fails(void **state)
{
    struct kit k;
    struct one o[2];
    char *p = pattern(3 * C), reason[200];

    (void)state;
    kit_open_with(&k, 1, 1 << 30, true);
    fail_at(&k.store, OP_PUT, 1, PP_ENOSPC);
    begin(&o[0], &k, p, 3 * C);
    pp_test_until(k.loop, is_closed, &k, 10000);
    assert_true(pp_gate_reason(k.gate, reason, sizeof(reason)));
    assert_string_equal(reason, "the blob store: disk full");
    /* the store is known to fail, so the second photo does not even try */
    begin(&o[1], &k, p, C);
    pp_test_until(k.loop, two_probes_failed, &k, 10000);
    assert_int_equal(look(&k.store, &k.store.calls[OP_PUT]), 1);
    assert_int_equal(o[0].kepts + o[1].kepts + k.opens, 0);
    fail_at(&k.store, OP_PUT, 1, PP_OK);
    for (int i = 0; i < 2; i++)
        pp_test_until(k.loop, kept_in_time, &o[i], 10000);
    check_stored(&o[1], p, C);
    assert_int_equal(o[0].err, PP_OK);
    pp_test_until(k.loop, is_open, &k, 10000);
    assert_int_equal(k.opens, 1);
    kit_close(&k);
    free(p);
}

static void an_object_that_the_store_refuses_alone_does_not_stop_the_others(void **state)
{
    struct kit k;
    struct one o;
    char *p = pattern(C);

    (void)state;
    kit_open_with(&k, 1, 1 << 30, true);
    fail_at(&k.store, OP_PUT, 1, PP_EIO);
    pthread_mutex_lock(&k.store.lock);
    k.store.probe_fails = false; /* the probes work */
    pthread_mutex_unlock(&k.store.lock);
    begin(&o, &k, p, C);
    pp_test_until(k.loop, kept_in_time, &o, 10000);
    assert_int_equal(o.err, PP_EIO);
    assert_int_equal(look(&k.store, &k.store.calls[OP_PUT]), 4);
    while (is_closed(&k)) {
        pp_test_clock_pass(k.loop, 100);
        (void)pp_loop_turn(k.loop, true);
    }
    kit_close(&k);
    free(p);
}

static void a_large_photo_is_given_up(void **state)
{
    struct kit k;
    struct one o;
    char *p = pattern(20 * C);

    (void)state;
    kit_open_with(&k, 1, 1 << 30, true);
    fail_at(&k.store, OP_WRITE, 1, PP_ENOSPC);
    one_open(&o, &k);
    while (append_all(&o, p, 20 * C, C))
        ;
    assert_true(pp_body_refused(o.body));
    pp_body_abort(o.body);
    pp_test_until(k.loop, is_closed, &k, 10000);
    kit_close(&k);
    free(p);
}

static void photos_that_wait_end_with_the_process(void **state)
{
    struct kit k;
    struct one o;
    char *p = pattern(C);

    (void)state;
    kit_open_with(&k, 1, 1 << 30, true);
    fail_at(&k.store, OP_PUT, 1, PP_ENOSPC);
    begin(&o, &k, p, C);
    pp_test_until(k.loop, is_closed, &k, 10000);
    pp_keep_give_up(k.keep, PP_ECANCELED);
    assert_int_equal(o.kepts, 1);
    assert_int_equal(o.err, PP_ECANCELED);
    kit_close(&k);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_arrives_whole),
        cmocka_unit_test(small_ones_are_one_write),
        cmocka_unit_test(bytes_come_in_pieces_of_any_size),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(a_body_alone_is_bounded_too),
        cmocka_unit_test(bodies_may_be_dropped_at_any_moment),
        cmocka_unit_test(a_body_that_is_being_stored_may_be_dropped),
        cmocka_unit_test(full_disks_are_reported),
        cmocka_unit_test(a_paused_body_learns_that_the_disk_failed),
        cmocka_unit_test(photos_wait_in_memory_while_the_store_fails),
        cmocka_unit_test(an_object_that_the_store_refuses_alone_does_not_stop_the_others),
        cmocka_unit_test(a_large_photo_is_given_up),
        cmocka_unit_test(photos_that_wait_end_with_the_process),
        cmocka_unit_test(a_closed_lane_leaves_nothing_behind),
    };

    return cmocka_run_group_tests_name("keep: keep", tests, NULL, NULL);
}
