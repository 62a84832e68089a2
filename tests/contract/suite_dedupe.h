/* suite_dedupe.h: the contract of port/dedupe.h, run on each adapter, and the kit of its tests.
 *
 * A kit has a loop and several ports in one place, as if several processes had opened it. An
 * unexpected error fails the test. */
#ifndef PP_SUITE_DEDUPE_H
#define PP_SUITE_DEDUPE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "photopool/port/dedupe.h"
#include "runtime/loop.h"

enum { DK_PORTS = 3, DK_WINDOW_MS = 60000 };

struct pp_dedupe_subject {
    const char *name;
    /* Makes a new, empty place, whose windows last DK_WINDOW_MS. */
    void (*place)(void);
    /* Opens a port in that place. If the adapter has servers, the port has the first of them. */
    enum pp_err (*open)(struct pp_loop *loop, struct pp_dedupe **out);
    /* lets time pass, for the servers and for the ports; the clocks are held */
    void (*pass)(struct pp_loop *loop, int64_t ms);
    const char *(*server)(int i); /* the name of the i-th of 3 servers; NULL: the adapter has none */
    bool shared;                  /* several ports may share a place */
};

struct dedupe_kit {
    const struct pp_dedupe_subject *subject;
    struct pp_loop *loop;
    struct pp_dedupe *ports[DK_PORTS];
    size_t n_ports;
    struct pp_arena arena;
    uint64_t seed;
    bool done;
};

/* Runs the suite; returns the number of failed tests. */
int pp_suite_dedupe(const struct pp_dedupe_subject *subject);

/* Sets the adapter that the next tests use. ddk_open() and ddk_close() are cmocka's setup and
 * teardown of one test, whose state is a struct dedupe_kit. */
void ddk_use(const struct pp_dedupe_subject *subject);
int ddk_open(void **state);
int ddk_close(void **state);

/* Fills in the common part of a request, submits it to port i, and turns the loop until it is
 * answered. */
#define DK_RUN(k, i, op, r)                                                                 \
    do {                                                                                    \
        (r)->req = (struct pp_req){.done = ddk_on_done, .data = (k), .arena = &(k)->arena}; \
        (k)->done = false;                                                                  \
        assert_int_equal((k)->ports[i]->ops->op((k)->ports[i], (r)), PP_OK);                \
        ddk_wait(k);                                                                        \
    } while (0)
#define DK_DUE(k, i, op, r, due)                                          \
    do {                                                                  \
        DK_RUN(k, i, op, r);                                              \
        assert_string_equal(pp_err_text((r)->req.err), pp_err_text(due)); \
    } while (0)
void ddk_on_done(struct pp_req *req);
void ddk_wait(struct dedupe_kit *k);

/* Returns n rows with new random keys, for the owner. */
struct pp_dedupe_row *ddk_rows(struct dedupe_kit *k, size_t n, uint32_t owner);
/* Asks for the rows by port i, as tasks of the owner. Returns the number of duplicates. */
size_t ddk_ask(struct dedupe_kit *k, int i, struct pp_dedupe_row *rows, size_t n, uint32_t owner);
/* Returns the owner that the port names for one key. */
uint32_t ddk_owner(struct dedupe_kit *k, int i, const struct pp_dedupe_row *row, uint32_t asks);
/* Replaces an owner; returns the other owner. */
uint32_t ddk_replace(struct dedupe_kit *k, int i, const struct pp_dedupe_row *row, uint32_t owner,
                     uint32_t next);

#endif
