/* suite_fetcher_flow.c: tests that a caller may stop, pause, abort and restart an exchange in
 * every phase that the contract allows. */
#include <uv.h>

#include "suite_fetcher_kit.h"

/* --- pauses and stops --- */

static void stop_at_the_head(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/begin");
    g.head_flow = PP_FLOW_STOP;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_true(g.x.stopped);
    assert_int_equal(g.bodies, 0);
    get_fini(&g);
    /* The stopped answer has bytes that the fetcher has not read, so it must close the
     * connection. */
    kit_until(k, origin_idle, k->o);
    /* These answers have no body, so nothing is unread after a stop: the fetcher must keep the
     * connection. */
    for (int i = 0; i < 3; i++) {
        get_init(&g, k, "/empty");
        g.head_flow = PP_FLOW_STOP;
        get_start(&g);
        get_wait(&g);
        assert_true(g.x.stopped);
        assert_int_equal(g.x.status, 404);
        get_fini(&g);
    }
    assert_int_equal(pp_origin_connections(k->o), 2);
}

static void stop_in_the_body(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/big");
    g.stop_at = 100000;
    get_start(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_true(g.x.stopped);
    assert_true(g.n >= 100000 && g.n < KIT_BIG);
    get_fini(&g);
    kit_until(k, origin_idle, k->o);
}

static void pause_at(size_t where, const char *path, size_t total)
{
    struct kit k;
    struct get g;

    kit_open(&k, kit_serve, NULL, NULL);
    get_init(&g, &k, path);
    if (where)
        g.pause_at = where;
    else
        g.head_flow = PP_FLOW_PAUSE;
    get_start(&g);
    kit_until(&k, get_paused, &g);
    kit_turn(&k);
    assert_int_equal(g.dones, 0);
    get_unpause(&g);
    get_wait(&g);
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.n, total);
    get_fini(&g);
    kit_close(&k);
}

static void a_paused_body_resumes(void **state)
{
    (void)state;
    pause_at(0, "/big", KIT_BIG);
    pause_at(1, "/big", KIT_BIG);
    pause_at(1000000, "/big", KIT_BIG);
    pause_at(KIT_BIG, "/big", KIT_BIG);
    pause_at(0, "/", 2);
    pause_at(1, "/", 2);
    pause_at(0, "/empty", 0); /* The host has sent everything, but the caller has not resumed. */
}

static void stop_after_a_pause(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/begin");
    g.pause_at = 1;
    g.stop_at = 1;
    get_start(&g);
    kit_until(k, get_paused, &g);
    get_unpause(&g);
    get_wait(&g);
    assert_true(g.x.stopped);
    get_fini(&g);
    kit_until(k, origin_idle, k->o);
}

/* --- fast hosts --- */

enum { MANY = 64 << 20, PIECES_A_TURN = 250, READ_NS = 100000 };

struct turns {
    struct get g;
    int bodies, most; /* calls of body() until the last turn; most calls in one turn */
};

/* Takes long enough to read a piece that the host always has the next one ready. */
static void read_slowly(struct get *g)
{
    uint64_t begin = uv_hrtime();
    (void)g;
    while (uv_hrtime() - begin < READ_NS)
        ;
}

static bool has_much(void *arg)
{
    struct turns *t = arg;
    int n = t->g.bodies - t->bodies;
    if (n > t->most)
        t->most = n;
    t->bodies = t->g.bodies;
    return t->g.n >= MANY;
}

/* A host whose bytes arrive faster than they are read leaves the loop its turns. */
static void a_fast_host_leaves_turns(void **state)
{
    struct kit *k = *state;
    struct turns t = {.most = 0};
    get_init(&t.g, k, "/endless");
    t.g.on_body = read_slowly;
    get_start(&t.g);
    kit_until(k, has_much, &t);
    get_abort(&t.g);
    get_fini(&t.g);
    assert_in_range(t.most, 1, PIECES_A_TURN);
}

/* --- abort --- */

static bool has_sent(void *g)
{
    return ((struct get *)g)->sents > 0;
}

static bool has_head(void *g)
{
    return ((struct get *)g)->heads > 0;
}

static bool has_body(void *g)
{
    return ((struct get *)g)->bodies > 0;
}

static bool has_request(void *o)
{
    return pp_origin_requests(o) > 0;
}

static void abort_when(const char *path, bool (*when)(void *))
{
    struct kit k;
    struct get g;

    kit_open(&k, kit_serve, NULL, NULL);
    get_init(&g, &k, path);
    if (when == get_paused)
        g.pause_at = 1;
    get_start(&g);
    if (when == has_request)
        kit_until(&k, when, k.o);
    else if (when)
        kit_until(&k, when, &g);
    get_abort(&g);
    memset(&g.x, 0xee, sizeof(g.x)); /* The fetcher must not read the exchange after an abort. */
    kit_turn(&k);
    assert_int_equal(g.dones, 0);
    get_fini(&g);
    kit_close(&k);
}

static void abort_in_every_phase(void **state)
{
    (void)state;
    abort_when("/hang", NULL);
    abort_when("/hang", has_sent);
    abort_when("/hang", has_request);
    abort_when("/head", has_head);
    abort_when("/begin", has_body);
    abort_when("/endless", has_body);
    abort_when("/big", get_paused);
    abort_when("/begin", get_paused);
}

static void abort_closes_the_connection(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/hang");
    get_start(&g);
    kit_until(k, has_request, k->o);
    get_abort(&g);
    kit_until(k, origin_idle, k->o);
    get_fini(&g);
}

static void abort_other(struct get *g)
{
    struct get *other = g->data;

    if (!other)
        return;
    g->data = NULL;
    get_abort(other);
    memset(&other->x, 0xee, sizeof(other->x));
}

/* Each callback of one exchange aborts another exchange. The other one is in a different phase
 * in each round. */
static void abort_from_a_callback(void **state)
{
    static const struct {
        const char *path;
        bool (*when)(void *);
    } others[] = {{"/hang", NULL},
                  {"/hang", has_sent},
                  {"/begin", has_body},
                  {"/begin", get_paused},
                  {"/big", get_paused}};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        for (int from = 0; from < 4; from++) {
            struct kit k;
            struct get a, b;
            kit_open(&k, kit_serve, NULL, NULL);
            get_init(&b, &k, others[i].path);
            if (others[i].when == get_paused)
                b.pause_at = 1;
            get_start(&b);
            if (others[i].when)
                kit_until(&k, others[i].when, &b);
            get_init(&a, &k, "/");
            a.data = &b;
            *(from == 0   ? &a.on_sent
              : from == 1 ? &a.on_head
              : from == 2 ? &a.on_body
                          : &a.on_done) = abort_other;
            get_start(&a);
            get_wait(&a);
            assert_int_equal(a.x.code, 0);
            kit_turn(&k);
            assert_int_equal(b.dones, 0);
            get_fini(&a);
            get_fini(&b);
            kit_close(&k);
        }
    }
}

/* Two exchanges end in the same turn of the loop. The first one aborts the second in its done(),
 * so that only one done() may come. */
static void abort_of_one_that_is_over(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct kit k;
        struct get a, b;
        kit_open(&k, kit_serve, NULL, NULL);
        get_init(&a, &k, "/");
        get_init(&b, &k, "/");
        a.data = &b;
        b.data = &a;
        a.head_flow = b.head_flow = PP_FLOW_PAUSE;
        get_start(&a);
        get_start(&b);
        kit_until(&k, get_paused, &a);
        kit_until(&k, get_paused, &b);
        a.on_done = b.on_done = abort_other;
        get_unpause(&a);
        get_unpause(&b);
        while (a.dones + b.dones == 0)
            (void)pp_loop_turn(k.loop, true);
        kit_turn(&k);
        assert_int_equal(a.dones + b.dones, 1);
        get_fini(&a);
        get_fini(&b);
        kit_close(&k);
    }
}

static void start_again(struct get *g)
{
    struct get fresh;

    if (g->data == NULL)
        return;
    g->data = NULL;
    get_init(&fresh, g->kit, "/");
    g->allows = g->sents = g->heads = g->bodies = g->dones = 0;
    g->n = 0;
    memcpy(g->url, fresh.url, sizeof(g->url));
    get_fini(&fresh);
    get_start(g);
}

/* done() starts the same exchange with another URL, as a caller does that follows a redirect. */
static void an_exchange_may_start_again_in_done(void **state)
{
    struct kit *k = *state;
    struct get g;

    get_init(&g, k, "/empty");
    g.data = &g;
    g.on_done = start_again;
    get_start(&g);
    get_wait(&g);
    kit_until(k, gets_done, ((struct get[2]){g, {.kit = NULL}}));
    assert_int_equal(g.x.status, 200);
    assert_int_equal(g.dones, 1);
    assert_int_equal(pp_origin_connections(k->o), 1);
    get_fini(&g);
}

static void start_other(struct get *g)
{
    struct get *other = g->data;

    if (other)
        get_start(other);
    g->data = NULL;
}

static void an_exchange_may_start_in_a_callback(void **state)
{
    (void)state;
    for (int from = 0; from < 3; from++) {
        struct kit k;
        struct get a, b;
        kit_open(&k, kit_serve, NULL, NULL);
        get_init(&a, &k, "/");
        get_init(&b, &k, "/");
        a.data = &b;
        *(from == 0 ? &a.on_head : from == 1 ? &a.on_body : &a.on_done) = start_other;
        get_start(&a);
        get_wait(&a);
        get_wait(&b);
        assert_int_equal(a.x.code + b.x.code, 0);
        get_fini(&a);
        get_fini(&b);
        kit_close(&k);
    }
}

int pp_suite_fetcher_flow(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(stop_at_the_head, kit_serve),
        KIT_TEST(stop_in_the_body, kit_serve),
        cmocka_unit_test(a_paused_body_resumes),
        KIT_TEST(stop_after_a_pause, kit_serve),
        KIT_TEST(a_fast_host_leaves_turns, kit_serve),
        cmocka_unit_test(abort_in_every_phase),
        KIT_TEST(abort_closes_the_connection, kit_serve),
        cmocka_unit_test(abort_from_a_callback),
        cmocka_unit_test(abort_of_one_that_is_over),
        KIT_TEST(an_exchange_may_start_again_in_done, kit_serve),
        cmocka_unit_test(an_exchange_may_start_in_a_callback),
    };

    return cmocka_run_group_tests_name("fetcher: flow", tests, NULL, NULL);
}
