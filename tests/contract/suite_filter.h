/* suite_filter.h: the contract of port/filter.h, run on each adapter, and the kit of its tests. An
 * unexpected error fails the test. */
#ifndef PP_SUITE_FILTER_H
#define PP_SUITE_FILTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/bloom.h"
#include "photopool/port/filter.h"
#include "runtime/loop.h"

struct pp_filter_subject {
    const char *name;
    /* Makes a new place without a filter. The returned name is valid until the process ends. */
    const char *(*place)(void);
    enum pp_err (*open)(struct pp_loop *loop, const char *place, struct pp_filter **out);
    bool shared; /* True if several processes may open one place at the same time. */
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_filter(const struct pp_filter_subject *subject);

enum { FK_LONG_MS = 30000, FK_BYTES = 16 * PP_FILTER_BLOCK_BYTES };

struct filter_kit {
    const struct pp_filter_subject *subject;
    const char *place;
    struct pp_loop *loop;
    struct pp_filter *filters[2]; /* in the same place; the setup opens only the first */
    struct pp_arena arena;
    bool done;
};

/* Sets the adapter that the next tests use. fk_open() and fk_close() are cmocka's setup and
 * teardown of one test, whose state is a struct filter_kit. */
void fk_use(const struct pp_filter_subject *subject);
int fk_open(void **state);
int fk_close(void **state);
void fk_open_filter(struct filter_kit *k, int i);
void fk_close_filter(struct filter_kit *k, int i);

/* Fills in the common part of a request, submits it, and turns the loop until it is answered. */
#define FK_RUN(k, i, op, r)                                                                \
    do {                                                                                   \
        (r)->req = (struct pp_req){.done = fk_on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                                 \
        assert_int_equal((k)->filters[i]->ops->op((k)->filters[i], (r)), PP_OK);           \
        fk_wait(k);                                                                        \
    } while (0)
#define FK_DUE(k, i, op, r, due)                                          \
    do {                                                                  \
        FK_RUN(k, i, op, r);                                              \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)
void fk_on_done(struct pp_req *req);
void fk_wait(struct filter_kit *k);

/* Returns the n-th key of a test; equal numbers have equal keys. */
struct pp_key fk_key(uint64_t n);
/* Returns n keys, of the numbers from `from` on, in the arena. */
struct pp_key *fk_keys(struct filter_kit *k, uint64_t from, size_t n);
/* Asks for these keys. */
struct pp_filter_ask fk_ask(struct filter_kit *k, int i, uint64_t from, size_t n);
/* Asks for these keys of a complete filter, and asserts how many are absent. */
void fk_absent(struct filter_kit *k, int i, uint64_t from, size_t n, size_t due);
/* Asserts that the filter is incomplete: no key is absent. */
void fk_incomplete(struct filter_kit *k, int i);
struct pp_filter_look fk_look(struct filter_kit *k, int i);

/* Steps of a build of a filter of `bytes`. Each returns whether the build was lost. */
bool fk_begin(struct filter_kit *k, int i, const char *build, uint64_t bytes);
/* Adds these keys' bits, in several pieces. */
bool fk_add(struct filter_kit *k, int i, const char *build, uint64_t bytes, uint64_t from, size_t n);
bool fk_finish(struct filter_kit *k, int i, const char *build, uint64_t bytes, size_t n);
/* A whole build of FK_BYTES with these keys. */
void fk_build(struct filter_kit *k, int i, const char *build, uint64_t from, size_t n);

#endif
