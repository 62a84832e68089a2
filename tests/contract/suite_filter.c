/* suite_filter.c: tests the contract of port/filter.h. A complete filter never calls a key absent
 * that was added, by a build or by somebody who asked for it. An incomplete one calls none
 * absent. */
#include "suite_filter.h"

#include <stdlib.h>
#include <string.h>

#include "../unit/prng.h"
#include "test_loop.h"

/* --- the kit --- */

static const struct pp_filter_subject *in_use;

void fk_use(const struct pp_filter_subject *subject)
{
    in_use = subject;
}

void fk_open_filter(struct filter_kit *k, int i)
{
    enum pp_err err = k->subject->open(k->loop, k->place, &k->filters[i]);
    assert_string_equal(pp_err_text(err), pp_err_text(PP_OK));
}

void fk_close_filter(struct filter_kit *k, int i)
{
    if (k->filters[i])
        k->filters[i]->ops->close(k->filters[i]);
    k->filters[i] = NULL;
}

int fk_open(void **state)
{
    struct filter_kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->subject = in_use;
    k->place = in_use->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, (size_t)1 << 30);
    fk_open_filter(k, 0);
    *state = k;
    return 0;
}

int fk_close(void **state)
{
    struct filter_kit *k = *state;
    for (int i = 0; i < 2; i++)
        fk_close_filter(k, i);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

void fk_on_done(struct pp_req *req)
{
    struct filter_kit *k = req->data;
    assert_false(k->done);
    k->done = true;
}

static bool is_done(void *arg)
{
    return ((struct filter_kit *)arg)->done;
}

void fk_wait(struct filter_kit *k)
{
    assert_false(k->done); /* The filter must not call done() before the request's function returns. */
    pp_test_until(k->loop, is_done, k, FK_LONG_MS);
}

struct pp_key fk_key(uint64_t n)
{
    struct pp_key key;
    uint64_t seed = n, half;
    for (size_t i = 0; i < sizeof key.b; i += sizeof half) {
        half = pp_test_rnd(&seed);
        memcpy(key.b + i, &half, sizeof half);
    }
    return key;
}

struct pp_key *fk_keys(struct filter_kit *k, uint64_t from, size_t n)
{
    struct pp_key *keys = pp_arena_array(&k->arena, n, sizeof *keys);
    assert_non_null(keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = fk_key(from + i);
    return keys;
}

struct pp_filter_ask fk_ask(struct filter_kit *k, int i, uint64_t from, size_t n)
{
    struct pp_filter_ask r = {.keys = fk_keys(k, from, n), .n = n};
    FK_DUE(k, i, ask, &r, PP_OK);
    return r;
}

void fk_absent(struct filter_kit *k, int i, uint64_t from, size_t n, size_t due)
{
    struct pp_filter_ask r = fk_ask(k, i, from, n);
    size_t absent = 0;
    assert_true(r.complete);
    for (size_t j = 0; j < n; j++)
        absent += r.absent[j];
    assert_int_equal(absent, due);
}

struct pp_filter_look fk_look(struct filter_kit *k, int i)
{
    struct pp_filter_look r = {.age_ms = -1};
    FK_DUE(k, i, look, &r, PP_OK);
    return r;
}

void fk_incomplete(struct filter_kit *k, int i)
{
    struct pp_filter_ask r = fk_ask(k, i, 1000000, 3);
    assert_false(r.complete);
    for (size_t j = 0; j < r.n; j++)
        assert_false(r.absent[j]);
    assert_false(fk_look(k, i).complete);
}

bool fk_begin(struct filter_kit *k, int i, const char *build, uint64_t bytes)
{
    struct pp_filter_build r = {.step = PP_FILTER_BEGIN, .build = build, .bytes = bytes};
    FK_DUE(k, i, build, &r, PP_OK);
    assert_false(r.lost);
    return r.lost;
}

bool fk_add(struct filter_kit *k, int i, const char *build, uint64_t bytes, uint64_t from, size_t n)
{
    enum { PIECE = 3000 };
    struct pp_bloom bloom;
    bool lost = false;
    assert_true(pp_bloom_init(&bloom, bytes));
    for (size_t j = 0; j < n; j++) {
        struct pp_key key = fk_key(from + j);
        pp_bloom_add(&bloom, &key);
    }
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        struct pp_filter_build r = {.step = PP_FILTER_ADD,
                                    .build = build,
                                    .bytes = bytes,
                                    .offset = at,
                                    .bits = bloom.bits + at,
                                    .n = bytes - at < PIECE ? bytes - at : PIECE};
        FK_DUE(k, i, build, &r, PP_OK);
        lost |= r.lost;
    }
    pp_bloom_fini(&bloom);
    return lost;
}

bool fk_finish(struct filter_kit *k, int i, const char *build, uint64_t bytes, size_t n)
{
    struct pp_filter_build r = {.step = PP_FILTER_FINISH, .build = build, .bytes = bytes, .keys = n};
    FK_DUE(k, i, build, &r, PP_OK);
    return r.lost;
}

void fk_build(struct filter_kit *k, int i, const char *build, uint64_t from, size_t n)
{
    fk_begin(k, i, build, FK_BYTES);
    assert_false(fk_add(k, i, build, FK_BYTES, from, n));
    assert_false(fk_finish(k, i, build, FK_BYTES, n));
}

/* --- tests --- */

static void without_a_build_incomplete(void **state)
{
    struct filter_kit *k = *state;
    fk_incomplete(k, 0);
    struct pp_filter_look look = fk_look(k, 0);
    assert_int_equal(look.keys, 0);
    assert_string_equal(look.build, "");
    fk_ask(k, 0, 1, 5);
    fk_incomplete(k, 0); /* what was asked for changes nothing */
}

static void a_build_makes_it_complete(void **state)
{
    struct filter_kit *k = *state;
    fk_begin(k, 0, "build 1", FK_BYTES);
    assert_string_equal(fk_look(k, 0).build, "build 1");
    fk_incomplete(k, 0);
    fk_add(k, 0, "build 1", FK_BYTES, 1, 100);
    fk_incomplete(k, 0);
    assert_false(fk_finish(k, 0, "build 1", FK_BYTES, 100));
    struct pp_filter_look look = fk_look(k, 0);
    assert_true(look.complete);
    assert_in_range(look.keys, 100, 103); /* and the keys of fk_incomplete() */
    assert_int_equal(look.bytes, FK_BYTES);
    assert_in_range(look.age_ms, 0, FK_LONG_MS);
    assert_string_equal(look.build, "");
    fk_absent(k, 0, 1, 100, 0);
}

/* What is absent is added: it is not absent a second time. */
static void asking_adds(void **state)
{
    struct filter_kit *k = *state;
    fk_build(k, 0, "b", 1, 100);
    uint64_t before = fk_look(k, 0).keys;
    fk_absent(k, 0, 1000, 50, 50);
    fk_absent(k, 0, 1000, 50, 0);
    fk_absent(k, 0, 990, 30, 10);
    assert_int_equal(fk_look(k, 0).keys, before + 60);
}

static void a_key_twice(void **state)
{
    struct filter_kit *k = *state;
    fk_build(k, 0, "b", 1, 1);
    struct pp_key keys[3] = {fk_key(7), fk_key(1), fk_key(7)};
    struct pp_filter_ask r = {.keys = keys, .n = 3};
    FK_DUE(k, 0, ask, &r, PP_OK);
    assert_true(r.absent[0] && !r.absent[1] && r.absent[2]);
    assert_int_equal(fk_look(k, 0).keys, 2);
}

/* Keys that are asked for during a build are in the new filter: those that the old filter calls
 * absent, those that it has, and those that nobody can call absent. */
static void asked_for_during_a_build(void **state)
{
    struct filter_kit *k = *state;
    fk_begin(k, 0, "first", FK_BYTES);
    fk_ask(k, 0, 1, 10);
    fk_add(k, 0, "first", FK_BYTES, 100, 10);
    fk_ask(k, 0, 11, 10);
    assert_false(fk_finish(k, 0, "first", FK_BYTES, 10));
    fk_absent(k, 0, 1, 20, 0);
    fk_absent(k, 0, 100, 10, 0);

    fk_begin(k, 0, "second", FK_BYTES);
    fk_absent(k, 0, 1, 10, 0);
    fk_absent(k, 0, 50, 10, 10);
    fk_add(k, 0, "second", FK_BYTES, 200, 10);
    fk_absent(k, 0, 60, 10, 10);
    fk_absent(k, 0, 200, 10, 10); /* absent in the old filter, which answers until the end */
    assert_false(fk_finish(k, 0, "second", FK_BYTES, 10));
    fk_absent(k, 0, 1, 10, 0);
    fk_absent(k, 0, 50, 20, 0);
    fk_absent(k, 0, 200, 10, 0);
    fk_absent(k, 0, 11, 10, 10); /* nobody has asked for these since, and the builder had none */
    fk_absent(k, 0, 100, 10, 10);
}

static void a_later_build_ends_the_earlier(void **state)
{
    struct filter_kit *k = *state;
    fk_begin(k, 0, "early", FK_BYTES);
    assert_false(fk_add(k, 0, "early", FK_BYTES, 1, 10));
    fk_begin(k, 0, "late", FK_BYTES);
    assert_true(fk_add(k, 0, "early", FK_BYTES, 1, 10));
    assert_true(fk_finish(k, 0, "early", FK_BYTES, 10));
    fk_incomplete(k, 0);
    assert_false(fk_add(k, 0, "late", FK_BYTES, 20, 10));
    assert_false(fk_finish(k, 0, "late", FK_BYTES, 10));
    fk_absent(k, 0, 1, 10, 10);
    fk_absent(k, 0, 20, 10, 0);
    assert_true(fk_finish(k, 0, "late", FK_BYTES, 10)); /* a finish that is repeated */
    fk_absent(k, 0, 20, 10, 0);
}

static void a_piece_may_be_repeated(void **state)
{
    struct filter_kit *k = *state;
    fk_begin(k, 0, "b", FK_BYTES);
    for (int i = 0; i < 3; i++)
        assert_false(fk_add(k, 0, "b", FK_BYTES, 1, 100));
    assert_false(fk_finish(k, 0, "b", FK_BYTES, 100));
    fk_absent(k, 0, 1, 100, 0);
}

static void discarded(void **state)
{
    struct filter_kit *k = *state;
    struct pp_filter_discard r = {0};
    FK_DUE(k, 0, discard, &r, PP_OK);
    fk_incomplete(k, 0);
    fk_build(k, 0, "1", 1, 10);
    fk_begin(k, 0, "2", FK_BYTES);
    FK_DUE(k, 0, discard, &r, PP_OK);
    fk_incomplete(k, 0);
    assert_true(fk_add(k, 0, "2", FK_BYTES, 1, 10));
    assert_true(fk_finish(k, 0, "2", FK_BYTES, 10));
    fk_incomplete(k, 0);
    fk_build(k, 0, "3", 1, 10);
    fk_absent(k, 0, 1, 20, 10);
}

static void another_size(void **state)
{
    struct filter_kit *k = *state;
    const uint64_t sizes[] = {PP_FILTER_BLOCK_BYTES, 64 * PP_FILTER_BLOCK_BYTES, 3 * PP_FILTER_BLOCK_BYTES};
    fk_build(k, 0, "first", 1, 10);
    for (size_t i = 0; i < 3; i++) {
        fk_begin(k, 0, "other", sizes[i]);
        assert_false(fk_add(k, 0, "other", sizes[i], 1, 50));
        assert_false(fk_finish(k, 0, "other", sizes[i], 50));
        assert_int_equal(fk_look(k, 0).bytes, sizes[i]);
        fk_absent(k, 0, 1, 50, 0);
        fk_absent(k, 0, 100, 1, 1);
    }
}

/* Every adapter sets the same bits: in a filter that is nearly full, each gives the same answers as
 * base/bloom.h, false ones included. */
static void the_same_bits_everywhere(void **state)
{
    struct filter_kit *k = *state;
    struct pp_bloom_pair model = {.complete = false};
    struct pp_filter_build begin = {.step = PP_FILTER_BEGIN, .build = "b", .bytes = FK_BYTES};
    struct pp_filter_build finish = {.step = PP_FILTER_FINISH, .build = "b", .bytes = FK_BYTES};
    size_t false_ones = 0;
    assert_int_equal(pp_bloom_pair_build(&model, &begin, 0), PP_OK);
    assert_int_equal(pp_bloom_pair_build(&model, &finish, 0), PP_OK);
    fk_build(k, 0, "b", 1, 0);
    for (uint64_t from = 1; from < 12000; from += 1500) {
        struct pp_filter_ask ours = fk_ask(k, 0, from, 1500);
        struct pp_filter_ask due = {.req.arena = &k->arena, .keys = ours.keys, .n = ours.n};
        assert_int_equal(pp_bloom_pair_ask(&model, &due), PP_OK);
        assert_memory_equal(ours.absent, due.absent, due.n * sizeof *due.absent);
        for (size_t i = 0; i < due.n; i++)
            false_ones += !due.absent[i];
    }
    assert_in_range(false_ones, 100, 8000);
    assert_int_equal(fk_look(k, 0).keys, model.current.keys);
    pp_bloom_pair_discard(&model);
}

static void count_down(struct pp_req *req)
{
    --*(int *)req->data;
}

static bool is_zero(void *arg)
{
    return *(int *)arg == 0;
}

static void many_at_once(void **state)
{
    enum { ASKS = 20 };
    struct filter_kit *k = *state;
    struct pp_filter_ask r[ASKS];
    int left = ASKS;
    fk_build(k, 0, "b", 1, 1);
    for (int i = 0; i < ASKS; i++) {
        r[i] = (struct pp_filter_ask){.req = {.done = count_down, .data = &left, .arena = &k->arena},
                                      .keys = fk_keys(k, 100 + 5 * (uint64_t)i, 10),
                                      .n = 10};
        assert_int_equal(k->filters[0]->ops->ask(k->filters[0], &r[i]), PP_OK);
    }
    pp_test_until(k->loop, is_zero, &left, FK_LONG_MS);
    for (int i = 0; i < ASKS; i++) {
        assert_int_equal(r[i].req.err, PP_OK);
        for (int j = 0; j < 10; j++) /* each request has the last five keys of the one before */
            assert_int_equal(r[i].absent[j], i == 0 || j >= 5);
    }
}

static void shared_by_processes(void **state)
{
    struct filter_kit *k = *state;
    if (!k->subject->shared)
        skip();
    fk_open_filter(k, 1);
    fk_begin(k, 0, "b", FK_BYTES);
    fk_ask(k, 1, 1, 10);
    fk_add(k, 0, "b", FK_BYTES, 20, 10);
    fk_finish(k, 0, "b", FK_BYTES, 10);
    fk_absent(k, 0, 1, 10, 0);
    fk_absent(k, 1, 20, 10, 0);
    fk_absent(k, 1, 50, 10, 10);
    fk_absent(k, 0, 50, 10, 0);
    fk_close_filter(k, 0);
    fk_begin(k, 1, "after a builder has died", FK_BYTES);
    fk_open_filter(k, 0);
    fk_absent(k, 0, 50, 10, 0);
    struct pp_filter_discard r = {0};
    FK_DUE(k, 1, discard, &r, PP_OK);
    fk_incomplete(k, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, fk_open, fk_close)

int pp_suite_filter(const struct pp_filter_subject *subject)
{
    const struct CMUnitTest tests[] = {
        T(without_a_build_incomplete),
        T(a_build_makes_it_complete),
        T(asking_adds),
        T(a_key_twice),
        T(asked_for_during_a_build),
        T(a_later_build_ends_the_earlier),
        T(a_piece_may_be_repeated),
        T(discarded),
        T(another_size),
        T(the_same_bits_everywhere),
        T(many_at_once),
        T(shared_by_processes),
    };
    fk_use(subject);
    return cmocka_run_group_tests_name(subject->name, tests, NULL, NULL);
}
