/* test_sim_fetch.c: runs the real runner (pipeline/fetch) on the simulator's internet, whose
 * fetcher and resolver take the place of libcurl and c-ares. */
#include <openssl/sha.h>

#include "internet.h"
#include "pipeline/fetch/run_internal.h"
#include "suite_fetch_kit.h"

#define PLACES 16
#define GETS   2400

struct world {
    struct fetch_kit k;
    struct sim_internet *net;
    struct sim_access access;
    int64_t start_ms;
    int violations[3];
};

static int64_t world_now(void *data)
{
    const struct world *w = data;
    return pp_loop_now(w->k.loop) - w->start_ms;
}

/* Makes sure that rare kinds of hosts exist. */
static void adjust(void *data, const char *host, struct sim_behaviour *b)
{
    (void)data;
    if (strncmp(host, "h50.", 4) == 0)
        b->bad_tls = true;
    else if (strncmp(host, "h51.", 4) == 0)
        b->naming = SIM_NAME_DENIED;
    else if (strncmp(host, "h52.", 4) == 0)
        b->silent = 1000;
    else if (strncmp(host, "h49.", 4) == 0)
        b->resetting = 500;
}

static int64_t time_left(void *data, const struct pp_exchange *x)
{
    const struct fetch_run *r = pp_container_of(x, const struct fetch_run, x);
    (void)data;
    return r->deadline_ms - run_now(r);
}

static void on_violation(void *data, enum sim_rule rule, const char *text)
{
    struct world *w = data;
    w->violations[rule]++;
    print_message("%s\n", text);
}

/* Opens the kit, and replaces its fetcher and resolver. */
static void world_open(struct world *w)
{
    static const struct pp_port_range web[] = {{.lo = 80, .hi = 80}, {.lo = 443, .hi = 443}};

    memset(w, 0, sizeof(*w));
    fetch_kit_open_at(&w->k, 80);
    w->start_ms = pp_loop_now(w->k.loop);
    struct pp_runner_options o = w->k.runner->o;
    pp_runner_close(w->k.runner);
    w->k.fetcher->ops->close(w->k.fetcher);
    w->k.resolver->ops->close(w->k.resolver);
    w->k.params.policy = (struct pp_address_policy){.ports = web, .n_ports = 2}; /* that of production */
    w->net = sim_internet_open(&(struct sim_internet_options){
        .seed = 3,
        .trouble = 100,
        .now = world_now,
        .adjust = adjust,
        .time_left = time_left,
        .data = w,
        .record = {.concurrency = PLACES, .keep = true, .violated = on_violation, .data = w}});
    assert_non_null(w->net);
    w->access = (struct sim_access){.net = w->net, .process = "w1"};
    struct pp_fetch_factory factory = sim_fetch_factory(&w->access);
    assert_int_equal(factory.open(factory.data, o.loop, &w->k.fetcher, &w->k.resolver), PP_OK);
    o.fetcher = w->k.fetcher;
    o.resolver = w->k.resolver;
    w->k.runner = pp_runner_open(&o);
    assert_non_null(w->k.runner);
}

static void world_close(struct world *w)
{
    fetch_kit_close(&w->k);
    sim_internet_close(w->net);
}

static void get_prepare(struct world *w, struct run_get *g, int i)
{
    char host[64], path[32];

    snprintf(host, sizeof(host), "h%d.c42.example", i % 211);
    snprintf(path, sizeof(path), "/%d.jpg", i);
    w->k.https = i % 10 == 0 || i % 211 == 50; /* host 50 fails in TLS */
    run_get_init(g, &w->k, host, path);
    g->task.tier = i % 3 ? RUN_QUICK : RUN_LONG;
}

static void reply_to_hop(struct run_get *g)
{
    if (g->asked) {
        g->asked = false;
        pp_runner_hop(&g->t, true);
    }
}

static void check_object(const struct world *w, const struct run_get *g, int *photos)
{
    struct pp_buf photo;
    uint8_t sha256[32];

    if (g->t.outcome.code != 0 || g->hops > 0 || g->t.outcome.object.bytes < 32)
        return;
    char url[64];
    const char *path = strrchr(g->url, '/');
    const char *host = strstr(g->url, "//") + 2;
    snprintf(url, sizeof(url), "http://%.*s%s", (int)strcspn(host, ":/"), host, path);
    pp_buf_init(&photo, 1 << 20);
    sim_photo_make(3, url, sim_version_at(3, url, world_now((void *)(uintptr_t)w)), &photo);
    SHA256((const unsigned char *)photo.p, photo.n, sha256);
    *photos += photo.n == g->t.outcome.object.bytes && memcmp(sha256, g->t.outcome.object.sha256, 32) == 0;
    pp_buf_fini(&photo);
}

/* The codes that the internet must bring about. */
static const uint16_t expected[] = {0,
                                    403,
                                    404,
                                    410,
                                    429,
                                    500,
                                    503,
                                    PP_CODE_DNS_NOT_FOUND,
                                    PP_CODE_DNS_TEMPORARY,
                                    PP_CODE_CONNECT_REFUSED,
                                    PP_CODE_CONNECT_TIMEOUT,
                                    PP_CODE_FIRST_BYTE_TIMEOUT,
                                    PP_CODE_BODY_TIMEOUT,
                                    PP_CODE_CONNECTION_LOST,
                                    PP_CODE_TLS_FAILED,
                                    PP_CODE_TRUNCATED,
                                    PP_CODE_NOT_IMAGE,
                                    PP_CODE_DENIED_ADDRESS,
                                    PP_CODE_REDIRECT_LIMIT,
                                    PP_CODE_REDIRECT_DENIED,
                                    PP_CODE_BAD_RESPONSE};

static void the_runner_meets_everything(void **state)
{
    struct world w;
    struct run_get *g = calloc(GETS, sizeof(*g));
    int codes[600] = {0}, started = 0, ended = 0, first = 0, photos = 0, back = 0;
    (void)state;

    assert_non_null(g);
    world_open(&w);
    while (ended < GETS) {
        for (; started < GETS && started - ended < PLACES; started++) {
            get_prepare(&w, &g[started], started);
            run_get_start(&g[started]);
        }
        run_pass(&w.k, 10);
        for (int i = first; i < started; i++)
            reply_to_hop(&g[i]);
        ended = first;
        for (int i = first; i < started; i++)
            ended += g[i].finished > 0;
        while (first < started && g[first].finished)
            first++;
    }
    for (int i = 0; i < GETS; i++) {
        run_get_wait(&g[i], 1000);
        codes[g[i].t.outcome.code]++;
        back += g[i].t.handed_back != PP_BACK_NOT;
        check_object(&w, &g[i], &photos);
    }
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        char name[PP_CODE_NAME_MAX];
        print_message("%-20s %d\n", pp_code_name(expected[i], name), codes[expected[i]]);
        assert_true(codes[expected[i]] > 0);
    }
    assert_true(photos > codes[0] / 2);
    assert_int_equal(back, 0);
    assert_int_equal(w.violations[SIM_RULE_I4], 0);
    assert_int_equal(w.violations[SIM_RULE_I6], 0);
    assert_int_equal(sim_record_worst(sim_internet_record(w.net), "42").overlap <= PLACES, 1);
    world_close(&w);
    free(g);
}

/* Without the policy, the record sees the connections to addresses that are not public. */
static void a_policy_with_a_hole_is_seen(void **state)
{
    static const struct pp_cidr all[] = {{.addr = {.family = 4}}, {.addr = {.family = 6}}};
    struct world w;
    (void)state;

    world_open(&w);
    w.k.params.policy.allow = all;
    w.k.params.policy.n_allow = 2;
    for (int i = 0; i < 60 && w.violations[SIM_RULE_I6] == 0; i++) {
        struct run_get g;
        get_prepare(&w, &g, i);
        g.task.tier = RUN_QUICK;
        run_get_start(&g);
        for (int n = 0; n < 10000 && !g.finished; n++) {
            run_pass(&w.k, 10);
            reply_to_hop(&g);
        }
        run_get_wait(&g, 1000);
    }
    assert_true(w.violations[SIM_RULE_I6] > 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_runner_meets_everything),
        cmocka_unit_test(a_policy_with_a_hole_is_seen),
    };

    return cmocka_run_group_tests_name("fetch: the simulator's internet", tests, NULL, NULL);
}
