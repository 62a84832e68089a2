/* test_sim_internet.c: tests of the simulator's internet (tests/sim/): the decisions alone, and the
 * ports on a loop whose clock the test moves. test_sim_record.c tests its record. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/address.h"
#include "core/sniff.h"
#include "internet.h"
#include "photopool/code.h"
#include "pipeline/fetch/policy.h"
#include "prng.h"
#include "test_clock.h"
#include "test_loop.h"

struct seen {
    int rules[3]; /* how often each rule was broken */
};

static void on_violation(void *data, enum sim_rule rule, const char *text)
{
    struct seen *s = data;
    (void)text;
    s->rules[rule]++;
}

/* --- decisions --- */

static void draws_are_the_same_everywhere(void **state)
{
    (void)state;
    assert_int_equal(sim_draw(1, "h1.c1.example", 2, 3), sim_draw(1, "h1.c1.example", 2, 3));
    assert_int_equal(sim_draw(1, "h1.c1.example", 2, 3), UINT64_C(0x191b217781830231));
    assert_int_not_equal(sim_draw(1, "a", 2, 3), sim_draw(2, "a", 2, 3));
    for (uint64_t i = 0; i < 1000; i++) {
        int64_t ms = sim_draw_ms(sim_draw(1, "x", 0, i), 50, 30000);
        assert_true(ms >= 50 && ms <= 30000);
    }
}

static void hosts_name_their_clients(void **state)
{
    char buf[SIM_CLIENT_MAX];
    (void)state;

    assert_string_equal(sim_client_of("h3.c17.example", buf), "17");
    assert_string_equal(sim_client_of("h.cshop-7.example", buf), "shop-7");
    assert_string_equal(sim_client_of("h3.c.example", buf), "");
    assert_string_equal(sim_client_of("h3.c17.example.com", buf), "");
    assert_string_equal(sim_client_of("cdn.example", buf), "");
    assert_string_equal(sim_client_of("localhost", buf), "");
}

static void photos_are_photos(void **state)
{
    struct pp_buf a, b;
    char url[64];
    (void)state;

    pp_buf_init(&a, 1 << 20);
    pp_buf_init(&b, 1 << 20);
    for (int i = 0; i < 2000; i++) {
        struct pp_sniff sniff;
        snprintf(url, sizeof(url), "http://h1.c1.example/%d.jpg", i);
        pp_buf_reset(&a);
        pp_buf_reset(&b);
        sim_photo_make(7, url, 3, &a);
        sim_photo_make(7, url, 4, &b);
        assert_false(a.failed);
        assert_true(a.n != b.n || memcmp(a.p, b.p, a.n) != 0);
        pp_sniff_init(&sniff, 1000000);
        assert_int_not_equal(pp_sniff_feed(&sniff, (const uint8_t *)a.p, a.n), PP_SNIFF_REFUSED);
        assert_int_equal(pp_sniff_finish(&sniff), 0);
    }
    pp_buf_fini(&a);
    pp_buf_fini(&b);
}

/* What is made up as public is what photopool's policy allows, and the reverse. */
static void addresses_agree_with_the_policy(void **state)
{
    const struct pp_port_range ports = {1, 65535};
    const struct pp_address_policy policy = {.ports = &ports, .n_ports = 1};
    int denied = 0, failed = 0, n = 0;
    (void)state;

    for (int i = 0; i < 2000; i++) {
        char host[64];
        snprintf(host, sizeof(host), "h%d.c%d.example", i % 7, i);
        struct sim_behaviour b = sim_behaviour_of(1, host, 100, 30);
        struct sim_name name = sim_name_of(1, host, &b, (uint64_t)i % 3, i * 1000, false);
        failed += name.code != 0;
        assert_true(name.code ? name.n == 0 : name.n > 0 && name.n <= PP_RESOLVE_MAX);
        for (size_t k = 0; k < name.n; k++) {
            const struct sockaddr *sa = (const struct sockaddr *)&name.addrs[k];
            assert_int_equal(sim_address_is_public(sa), pp_policy_allows(&policy, sa));
            denied += !sim_address_is_public(sa);
            n++;
        }
    }
    assert_in_range(denied, 50, n / 4);
    assert_in_range(failed, 20, 400);
}

/* Every way to behave occurs, and nothing occurs that is out of bounds. */
static void answers_cover_everything(void **state)
{
    int statuses[600] = {0}, cut = 0, stalled = 0, early = 0, moved = 0, total = 0;
    (void)state;

    for (int i = 0; i < 60000; i++) {
        char host[64], url[128];
        snprintf(host, sizeof(host), "h%d.c%d.example", i % 5, i % 97);
        snprintf(url, sizeof(url), "http://%s/%d.jpg", host, i);
        struct sim_behaviour b = sim_behaviour_of(5, host, 100, 30);
        const struct sim_ask ask = {host, url, .n = (uint64_t)i, .above = (unsigned)i % 3, .now_ms = i * 50};
        struct sim_answer a = sim_answer_of(5, &b, &ask);
        assert_true(a.status == 0 || (a.status >= 200 && a.status < 600));
        assert_true(a.head_ms >= 1 && a.head_ms <= SIM_STALL_MS && a.body_ms >= 0);
        assert_true(a.status / 100 == 3 || !a.location[0]);
        statuses[a.status]++;
        cut += a.cut && a.linger_ms == 0;
        stalled += a.linger_ms > 0;
        early += a.head_ms == SIM_STALL_MS;
        moved += a.location[0] != '\0';
        total++;
    }
    const int expected[] = {0, 200, 301, 302, 303, 307, 308, 403, 404, 410, 429, 500, 502, 503, 504, 520};
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        assert_true(statuses[expected[i]] > 0);
    assert_true(cut > 0 && stalled > 0 && early > 0 && moved > 0);
    assert_in_range(statuses[200], total / 4, total * 3 / 4);
}

/* Each kind of outage occurs, begins after the start, lasts as long as it may, and ends. */
static void outages_come_and_go(void **state)
{
    int kinds[SIM_OUTAGES] = {0};
    (void)state;

    for (int i = 0; i < 500; i++) {
        char host[64];
        snprintf(host, sizeof(host), "h1.c%d.example", i);
        const struct sim_outages o = sim_behaviour_of(5, host, 0, 80).outages;
        int64_t begin = 0, end;
        kinds[o.kind]++;
        if (o.kind == SIM_OUTAGE_NONE)
            continue;
        for (; sim_outage_at(&o, begin) == SIM_OUTAGE_NONE; begin += 1000)
            assert_true(begin <= 480000);
        for (end = begin; sim_outage_at(&o, end) == o.kind; end += 1000)
            assert_true(end - begin <= 901000);
        assert_true(end - begin >= 59000);
        assert_int_equal(sim_outage_at(&o, begin + o.every_ms), o.kind);
    }
    for (int k = 0; k < SIM_OUTAGES; k++)
        assert_true(kinds[k] > 10);
}

/* What a host with an outage answers, and whether a photo that is there seems to be gone. */
static void outages_answer_to_all(void **state)
{
    static const struct {
        enum sim_outage kind;
        int status;
        enum sim_says says;
    } cases[] = {{SIM_OUTAGE_NONE, 200, SIM_SAYS_PHOTO},  {SIM_OUTAGE_500, 500, SIM_SAYS_OTHER},
                 {SIM_OUTAGE_503, 503, SIM_SAYS_OTHER},   {SIM_OUTAGE_RESET, 0, SIM_SAYS_OTHER},
                 {SIM_OUTAGE_404, 404, SIM_SAYS_ABSENT},  {SIM_OUTAGE_403, 403, SIM_SAYS_ABSENT},
                 {SIM_OUTAGE_HTML, 200, SIM_SAYS_ABSENT}, {SIM_OUTAGE_DRIP, 200, SIM_SAYS_PHOTO}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct sim_behaviour b = {50, 100, .outages = {cases[i].kind, 1000, 1000, 0}};
        struct sim_ask ask = {"h1.c1.example", "http://h1.c1.example/a.jpg"};
        struct sim_answer a = sim_answer_of(5, &b, &ask);
        assert_int_equal(a.status, cases[i].status);
        assert_int_equal(a.says, cases[i].says);
        assert_int_equal(a.hidden, sim_outage_hides(cases[i].kind));
        assert_int_equal(a.body_ms == SIM_STALL_MS, cases[i].kind == SIM_OUTAGE_DRIP);
        b.missing = 1000; /* then nothing is hidden */
        ask.url = "http://h1.c1.example/b.jpg";
        assert_false(sim_answer_of(5, &b, &ask).hidden);
        b.missing = 0;
        ask.calm = true;
        assert_int_equal(sim_answer_of(5, &b, &ask).says, SIM_SAYS_PHOTO);
    }
    struct sim_behaviour b = {50, 100, .outages = {SIM_OUTAGE_TLS, 1000, 1000, 0}};
    assert_int_equal(sim_connect_of(5, "h1.c1.example", &b, 0, 0, false), SIM_BAD_TLS);
    assert_int_equal(sim_connect_of(5, "h1.c1.example", &b, 0, 0, true), SIM_CONNECTED);
}

static void a_photo_is_asked_for_again(void **state)
{
    (void)state;
    for (int v = 1; v <= 2; v++) {
        struct sim_behaviour b = {50, 100, .validators = (enum sim_validators)v, .addresses = 1};
        struct sim_ask ask = {"h1.c1.example", "http://h1.c1.example/a.jpg"};
        struct sim_answer a = sim_answer_of(5, &b, &ask);
        assert_int_equal(a.status, 200);
        ask.etag = v == SIM_VALIDATORS_ETAG ? a.etag : NULL;
        ask.last_modified = a.last_modified;
        struct sim_answer again = sim_answer_of(5, &b, &ask);
        assert_int_equal(again.status, 304);
        ask.etag = "\"other\"";
        again = sim_answer_of(5, &b, &ask);
        assert_int_equal(again.status, 200);
    }
}

static void a_calm_internet_has_only_facts(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char host[64], url[128];
        snprintf(host, sizeof(host), "h1.c%d.example", i % 97);
        snprintf(url, sizeof(url), "http://%s/%d.jpg", host, i / 2);
        struct sim_behaviour b = sim_behaviour_of(5, host, 100, 30);
        struct sim_ask ask = {host, url, .n = (uint64_t)i, .now_ms = i, .calm = true};
        struct sim_answer a = sim_answer_of(5, &b, &ask);
        assert_true(a.status >= 200 && a.status < 500 && a.status != 429);
        assert_false(a.cut);
        ask.n += 1000;
        assert_int_equal(sim_answer_of(5, &b, &ask).status, a.status);
        assert_int_equal(sim_connect_of(5, host, &b, (uint64_t)i, i, true) == SIM_CONNECTED, !b.bad_tls);
    }
}

/* --- the ports --- */

struct kit {
    struct sim_access access;
    struct pp_loop *loop;
    struct sim_internet *net;
    struct pp_fetcher *f;
    struct pp_resolver *r;
    struct seen seen;
    struct sim_behaviour b; /* of all hosts */
    bool own;               /* `b` is used */
    int64_t start_ms;       /* the world's time 0 */
};

/* One exchange, and what it reported. `order` has a letter for each callback. */
struct get {
    struct pp_exchange x;
    struct pp_query q;
    struct kit *kit;
    char url[128], host[64], order[64], location[64];
    struct sockaddr_storage addrs[4];
    enum pp_flow head_flow;
    enum pp_flow body_flow; /* the reply to the second part of the body */
    bool deny;
    size_t n;
    int dones;
    struct pp_buf body;
    struct get *victim; /* aborted in head() */
    bool again;         /* started again in done() */
};

static int64_t world_now(void *data)
{
    const struct kit *k = data;
    return pp_loop_now(k->loop) - k->start_ms;
}

static void adjust(void *data, const char *host, struct sim_behaviour *b)
{
    struct kit *k = data;
    (void)host;
    if (k->own)
        *b = k->b;
}

static int64_t time_left(void *data, const struct pp_exchange *x)
{
    (void)data;
    return x->connect_ms;
}

static void kit_open(struct kit *k, const struct sim_behaviour *b, unsigned trouble, bool deadlines)
{
    memset(k, 0, sizeof(*k));
    k->loop = pp_loop_open();
    assert_non_null(k->loop);
    pp_test_clock_hold(k->loop);
    k->start_ms = pp_loop_now(k->loop);
    k->own = b != NULL;
    if (b)
        k->b = *b;
    k->net = sim_internet_open(&(struct sim_internet_options){
        .seed = 9,
        .trouble = trouble,
        .now = world_now,
        .adjust = adjust,
        .time_left = deadlines ? time_left : NULL,
        .data = k,
        .record = {.keep = true, .grace_ms = 5000, .violated = on_violation, .data = &k->seen}});
    assert_non_null(k->net);
    k->access = (struct sim_access){.net = k->net, .process = "w1"};
    struct pp_fetch_factory factory = sim_fetch_factory(&k->access);
    assert_int_equal(factory.open(factory.data, k->loop, &k->f, &k->r), PP_OK);
}

static void kit_close(struct kit *k)
{
    k->f->ops->close(k->f);
    k->r->ops->close(k->r);
    sim_internet_close(k->net);
    pp_loop_close(k->loop);
    pp_test_clock_release(NULL);
}

/* Moves the clock by ms, in steps of 1 ms. */
static void pass(struct kit *k, int64_t ms)
{
    for (; ms > 0; ms--) {
        (void)pp_loop_turn(k->loop, false);
        (void)pp_loop_turn(k->loop, false);
        pp_test_clock_pass(k->loop, 1);
    }
    (void)pp_loop_turn(k->loop, false);
    (void)pp_loop_turn(k->loop, false);
}

static void note(struct get *g, char what)
{
    size_t n = strlen(g->order);
    assert_true(n + 1 < sizeof(g->order));
    g->order[n] = what;
    g->order[n + 1] = '\0';
}

static struct get *get_of(struct pp_exchange *x)
{
    return pp_container_of(x, struct get, x);
}

static bool on_allow(struct pp_exchange *x, const struct sockaddr *sa)
{
    (void)sa;
    note(get_of(x), 'a');
    return !get_of(x)->deny;
}

static void on_sent(struct pp_exchange *x)
{
    assert_int_equal(x->phase, PP_PHASE_FIRST_BYTE);
    note(get_of(x), 's');
}

static enum pp_flow on_head(struct pp_exchange *x)
{
    struct get *g = get_of(x);
    assert_int_equal(x->phase, PP_PHASE_BODY);
    note(g, 'h');
    if (g->victim)
        g->kit->f->ops->abort(g->kit->f, &g->victim->x);
    return g->head_flow;
}

static enum pp_flow on_body(struct pp_exchange *x, const void *p, size_t n)
{
    struct get *g = get_of(x);
    enum pp_flow flow = g->n > 0 ? g->body_flow : PP_FLOW_GO;
    note(g, flow == PP_FLOW_PAUSE ? 'p' : 'b');
    if (flow == PP_FLOW_GO) {
        pp_buf_put(&g->body, p, n);
        g->n += n;
    }
    return flow;
}

static void get_start(struct get *g);

static void on_done(struct pp_exchange *x)
{
    struct get *g = get_of(x);
    note(g, 'd');
    g->dones++;
    snprintf(g->location, sizeof(g->location), "%s", x->location ? x->location : "");
    assert_true(x->code == 0 ? x->detail[0] == '\0' : x->detail[0] != '\0');
    if (g->again) {
        g->again = false;
        get_start(g);
    }
}

static const struct pp_exchange_events events = {on_allow, on_sent, on_head, on_body, on_done};

static void get_init(struct get *g, struct kit *k, const char *host, const char *path)
{
    memset(g, 0, sizeof(*g));
    g->kit = k;
    snprintf(g->host, sizeof(g->host), "%s", host);
    snprintf(g->url, sizeof(g->url), "http://%s%s", host, path);
    pp_buf_init(&g->body, 1 << 20);
    struct sockaddr_in *sa = (struct sockaddr_in *)&g->addrs[0];
    sa->sin_family = AF_INET;
    sa->sin_port = htons(80);
    sa->sin_addr.s_addr = htonl(UINT32_C(93) << 24 | 1);
    g->x = (struct pp_exchange){.events = &events,
                                .url = g->url,
                                .host = g->host,
                                .port = 80,
                                .addrs = g->addrs,
                                .n_addrs = 1,
                                .connect_ms = 5000};
}

static void get_start(struct get *g)
{
    assert_int_equal(g->kit->f->ops->start(g->kit->f, &g->x), PP_OK);
}

static void get_fini(struct get *g)
{
    pp_buf_fini(&g->body);
}

static const struct sim_behaviour good = {100, 101, .addresses = 1};

static void one_photo(void **state)
{
    struct kit k;
    struct get g;
    struct pp_buf photo;
    (void)state;

    kit_open(&k, &good, 100, false);
    get_init(&g, &k, "h1.c1.example", "/a.jpg");
    get_start(&g);
    assert_string_equal(g.order, ""); /* nothing happens within start() */
    pass(&k, 600);
    assert_string_equal(g.order, "aashbbbbd");
    assert_int_equal(g.x.code, 0);
    assert_int_equal(g.x.status, 200);
    pp_buf_init(&photo, 1 << 20);
    sim_photo_make(9, g.url, sim_version_at(9, g.url, world_now(&k)), &photo);
    assert_int_equal(g.body.n, photo.n);
    assert_memory_equal(g.body.p, photo.p, photo.n);
    assert_int_equal(sim_record_requests(sim_internet_record(k.net)), 1);
    assert_int_equal(sim_record_worst(sim_internet_record(k.net), "1").requests, 1);
    assert_int_equal(sim_internet_in_flight(k.net, "h1.c1.example"), 0);
    pp_buf_fini(&photo);
    get_fini(&g);
    kit_close(&k);
}

static void pauses_and_stops(void **state)
{
    struct kit k;
    struct get g;
    (void)state;

    kit_open(&k, &good, 0, false);
    get_init(&g, &k, "h1.c1.example", "/a.jpg");
    g.head_flow = PP_FLOW_PAUSE;
    g.body_flow = PP_FLOW_PAUSE;
    get_start(&g);
    pass(&k, 2000);
    assert_string_equal(g.order, "aash");
    k.f->ops->resume(k.f, &g.x);
    assert_string_equal(g.order, "aash"); /* resume() calls nothing itself */
    pass(&k, 2000);
    assert_string_equal(g.order, "aashbp");
    g.body_flow = PP_FLOW_GO;
    k.f->ops->resume(k.f, &g.x);
    k.f->ops->resume(k.f, &g.x);
    pass(&k, 10);
    assert_string_equal(g.order, "aashbpbbbd");
    get_fini(&g);
    for (int body = 0; body < 2; body++) {
        get_init(&g, &k, "h1.c1.example", "/a.jpg");
        *(body ? &g.body_flow : &g.head_flow) = PP_FLOW_STOP;
        get_start(&g);
        pass(&k, 600);
        assert_int_equal(g.dones, 1);
        assert_true(g.x.stopped);
        assert_int_equal(g.x.code, 0);
        get_fini(&g);
    }
    kit_close(&k);
}

/* An abort in each ms of an exchange ends the callbacks at once, and the request at the origin one
 * way later. */
static void abort_at_any_time(void **state)
{
    (void)state;
    for (int64_t ms = 0; ms < 300; ms += 3) {
        struct kit k;
        struct get g;
        char order[64];
        kit_open(&k, &good, 0, false);
        get_init(&g, &k, "h1.c1.example", "/a.jpg");
        get_start(&g);
        pass(&k, ms);
        if (!g.dones) {
            snprintf(order, sizeof(order), "%s", g.order);
            k.f->ops->abort(k.f, &g.x);
            memset(&g.x, 0xee, sizeof(g.x));
            pass(&k, sim_way_ms(9, "1") + SIM_JITTER_MS);
            assert_string_equal(g.order, order);
            assert_int_equal(sim_internet_in_flight(k.net, "h1.c1.example"), 0);
            assert_int_equal(sim_record_requests(sim_internet_record(k.net)), strchr(order, 's') != NULL);
        }
        get_fini(&g);
        kit_close(&k);
    }
}

static void one_aborts_another_and_starts_again(void **state)
{
    struct kit k;
    struct get a, b;
    (void)state;

    kit_open(&k, &good, 0, false);
    get_init(&a, &k, "h1.c1.example", "/a.jpg");
    get_init(&b, &k, "h2.c1.example", "/b.jpg");
    a.victim = &b;
    a.again = true;
    b.head_flow = PP_FLOW_PAUSE;
    get_start(&a);
    get_start(&b);
    while (!strchr(a.order, 'h'))
        pass(&k, 1);
    a.victim = NULL;
    pass(&k, 1500);
    assert_int_equal(a.dones, 2);
    assert_int_equal(b.dones, 0);
    get_fini(&a);
    get_fini(&b);
    kit_close(&k);
}

static void failures(void **state)
{
    static const struct {
        struct sim_behaviour b;
        uint16_t code;
        const char *order;
    } cases[] = {
        {{50, 60, .refusing = 1000}, PP_CODE_CONNECT_REFUSED, "ad"},
        {{50, 60, .silent = 1000}, PP_CODE_CONNECT_TIMEOUT, "ad"},
        {{50, 60, .resetting = 1000}, PP_CODE_CONNECTION_LOST, "aasd"},
        {{50, 60, .stalling = 2000}, PP_CODE_CONNECTION_LOST, "aasd"},
        {{50, 60, .cutting = 1000}, PP_CODE_TRUNCATED, "aashbbbbd"},
        {{50, 60, .outages = {SIM_OUTAGE_REFUSED, 1000, 1000, 0}}, PP_CODE_CONNECT_REFUSED, "ad"},
        {{50, 60, .outages = {SIM_OUTAGE_RESET, 1000, 1000, 0}}, PP_CODE_CONNECTION_LOST, "aasd"},
        {{50, 60, .outages = {SIM_OUTAGE_TIMEOUT, 1000, 1000, 0}}, PP_CODE_CONNECTION_LOST, "aasd"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kit k;
        struct get g;
        struct sim_behaviour b = cases[i].b;
        b.addresses = 1;
        kit_open(&k, &b, 100, false);
        get_init(&g, &k, "h1.c1.example", "/a.jpg");
        get_start(&g);
        pass(&k, 6000);
        if (!g.dones)
            pass(&k, SIM_STALL_MS);
        assert_string_equal(g.order, cases[i].order);
        if (g.x.code != PP_CODE_CONNECTION_LOST || cases[i].code != PP_CODE_TRUNCATED) /* without a length */
            assert_int_equal(g.x.code, cases[i].code);
        get_fini(&g);
        kit_close(&k);
    }
}

static void addresses_are_tried_in_turn(void **state)
{
    struct kit k;
    struct get g;
    (void)state;

    struct sim_behaviour b = {50, 60, .refusing = 1000, .addresses = 1};
    kit_open(&k, &b, 100, false);
    get_init(&g, &k, "h1.c1.example", "/a.jpg");
    g.addrs[1] = g.addrs[2] = g.addrs[0];
    g.x.n_addrs = 3;
    get_start(&g);
    pass(&k, 1000);
    assert_string_equal(g.order, "aaad");
    assert_int_equal(sim_record_connections(sim_internet_record(k.net)), 3);
    get_fini(&g);
    get_init(&g, &k, "h1.c1.example", "/a.jpg");
    g.deny = true;
    get_start(&g);
    pass(&k, 1000);
    assert_string_equal(g.order, "ad");
    assert_int_equal(g.x.code, PP_CODE_DENIED_ADDRESS);
    assert_int_equal(sim_record_connections(sim_internet_record(k.net)), 3);
    get_fini(&g);
    /* A fetcher that connects to a denied address, or to a denied port, breaks rule I6. */
    get_init(&g, &k, "127.0.0.1", "/");
    g.x.n_addrs = 0;
    get_start(&g);
    pass(&k, 1000);
    assert_int_equal(k.seen.rules[SIM_RULE_I6], 1);
    get_fini(&g);
    get_init(&g, &k, "h7.c1.example", "/");
    ((struct sockaddr_in *)&g.addrs[0])->sin_port = htons(22);
    get_start(&g);
    pass(&k, 1000);
    assert_int_equal(k.seen.rules[SIM_RULE_I6], 2);
    get_fini(&g);
    kit_close(&k);
}

static void a_host_has_its_own_limit(void **state)
{
    struct kit k;
    struct get g[3];
    int limited = 0;
    (void)state;

    struct sim_behaviour b = good;
    b.limit = 2;
    b.latency_lo_ms = b.latency_hi_ms = 400;
    kit_open(&k, &b, 0, false);
    assert_true(sim_record_set_limit(sim_internet_record(k.net), "1", 0, 2, INT64_MIN));
    for (int i = 0; i < 3; i++) {
        get_init(&g[i], &k, "h1.c1.example", "/a.jpg");
        get_start(&g[i]);
    }
    pass(&k, 2000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(g[i].dones, 1);
        limited += g[i].x.status == 429;
        get_fini(&g[i]);
    }
    assert_int_equal(limited, 1);
    assert_int_equal(k.seen.rules[SIM_RULE_I4], 1); /* three were in flight, two are allowed */
    kit_close(&k);
}

static void count_200(void *data, const struct sim_request *q)
{
    *(int *)data += q->status == 200 && q->end_ms - q->start_ms >= 800;
}

static void on_query(struct pp_query *q)
{
    *(int *)q->data += 1;
}

/* After a crash the origin still gets what was sent, and answers it. */
static void a_crash_leaves_requests_at_the_origin(void **state)
{
    (void)state;
    for (int deadlines = 0; deadlines < 2; deadlines++) {
        struct kit k;
        struct get g, h;
        int answered = 0, queries = 0;
        struct sim_behaviour b = good;
        b.latency_lo_ms = b.latency_hi_ms = 800;
        kit_open(&k, &b, 0, deadlines);
        get_init(&g, &k, "h1.c1.example", "/a.jpg");
        g.x.connect_ms = 300; /* its deadline, see time_left() */
        get_init(&h, &k, "h2.c1.example", "/a.jpg");
        get_start(&g);
        k.r->ops->resolve(k.r,
                          &(struct pp_query){.host = "h9.c1.example", .done = on_query, .data = &queries});
        while (!strchr(g.order, 's'))
            pass(&k, 1);
        sim_internet_crash(k.net, "other");
        sim_internet_crash(k.net, "w1");
        get_start(&h); /* does nothing any more */
        pass(&k, SIM_WAY_MAX_MS + SIM_JITTER_MS);
        assert_int_equal(sim_internet_in_flight(k.net, "h1.c1.example"), 1);
        pass(&k, 250);
        assert_int_equal(sim_internet_in_flight(k.net, "h1.c1.example"), deadlines ? 0 : 1);
        pass(&k, 1500);
        assert_int_equal(sim_internet_in_flight(k.net, "h1.c1.example"), 0);
        sim_record_each(sim_internet_record(k.net), count_200, &answered);
        assert_int_equal(answered, deadlines ? 0 : 1);
        assert_string_equal(g.order, "aas");
        assert_int_equal(g.dones + h.dones, 0);
        assert_int_equal(sim_record_requests(sim_internet_record(k.net)), 1);
        get_fini(&g);
        get_fini(&h);
        if (deadlines) {
            kit_close(&k);
            continue;
        }
        sim_internet_close(k.net); /* frees the fetcher and the resolver of the process */
        pp_loop_close(k.loop);
        pp_test_clock_release(NULL);
    }
}

static void names(void **state)
{
    struct kit k;
    int answered = 0, asked = 0;
    (void)state;

    kit_open(&k, NULL, 100, false);
    struct pp_query *q = calloc(300, sizeof(*q));
    char(*hosts)[32] = calloc(300, sizeof(*hosts));
    assert_true(q && hosts);
    for (int i = 0; i < 300; i++) {
        snprintf(hosts[i], sizeof(hosts[i]), "h%d.c%d.example", i % 2, i / 6);
        q[i] = (struct pp_query){.host = hosts[i], .port = 80, .done = on_query, .data = &answered};
        bool known = k.r->ops->resolve(k.r, &q[i]);
        assert_true(!known || i >= 2);
        asked += !known;
        if (!known && i % 10 == 9) {
            k.r->ops->abort(k.r, &q[i]);
            asked--;
        }
    }
    assert_int_equal(answered, 0);
    pass(&k, 10001);
    assert_int_equal(answered, asked);
    for (int i = 0; i < 300; i++)
        if (q[i].n > 0 && q[i].addrs[0].ss_family == AF_INET)
            assert_int_equal(((struct sockaddr_in *)&q[i].addrs[0])->sin_port, htons(80));
    free(q);
    free(hosts);
    kit_close(&k);
}

/* Checks the order of an exchange's callbacks: any number of allow() and sent(), then at most one
 * head(), then any number of body(), then done(). */
static void check_order(const struct get *g)
{
    size_t i = strspn(g->order, "as"), n = strlen(g->order);
    if (g->order[i] == 'h')
        i++;
    i += strspn(g->order + i, "bp");
    assert_true(i == n - 1 && g->order[i] == 'd');
    assert_true(!strchr(g->order, 'h') || strchr(g->order, 's'));
    assert_int_equal(g->dones, 1);
}

/* Runs many exchanges, at most `places` at once, on hosts with all their trouble. Aborts those that
 * last longer than 5 s, as a caller does at its deadline. */
static void run_many(int places)
{
    enum { N = 400 };
    struct kit k;
    struct get *g = calloc(N, sizeof(*g));
    int64_t started_ms[N] = {0};
    int started = 0, ended = 0, bad = 0, aborted = 0;

    assert_non_null(g);
    kit_open(&k, NULL, 100, false);
    assert_true(sim_record_set_limit(sim_internet_record(k.net), "1", 0, (uint32_t)places, INT64_MIN));
    while (ended < N) {
        ended = 0;
        for (int i = 0; i < started; i++) {
            if (!g[i].dones && world_now(&k) > started_ms[i] + 5000) {
                k.f->ops->abort(k.f, &g[i].x);
                note(&g[i], 'd');
                g[i].dones++;
                aborted++;
            }
            ended += g[i].dones > 0;
        }
        for (; started < N && started - ended < places; started++) {
            char host[64], path[32];
            snprintf(host, sizeof(host), "h%d.c1.example", started % 11);
            snprintf(path, sizeof(path), "/%d.jpg", started);
            get_init(&g[started], &k, host, path);
            started_ms[started] = world_now(&k);
            get_start(&g[started]);
        }
        pass(&k, 20);
    }
    for (int i = 0; i < N; i++) {
        check_order(&g[i]);
        bad += g[i].x.code != 0;
        get_fini(&g[i]);
    }
    assert_true(aborted > 0 && bad > 0 && bad < N);
    /* As the exchanges keep the limit at their side, the origins see it kept. */
    assert_int_equal(k.seen.rules[SIM_RULE_I4], 0);
    assert_in_range(sim_record_worst(sim_internet_record(k.net), "1").overlap, 2, places);
    assert_int_equal(k.seen.rules[SIM_RULE_I6], 0);
    kit_close(&k);
    free(g);
}

static void many_exchanges(void **state)
{
    (void)state;
    run_many(20);
    run_many(3);
}

struct fake_world {
    int64_t now_ms;
    uint64_t hash;
    int requests;
};

static int64_t fake_now(void *data)
{
    return ((struct fake_world *)data)->now_ms;
}

static void hash_request(void *data, const struct sim_request *q)
{
    struct fake_world *w = data;
    assert_true(q->end_ms >= q->start_ms && q->end_ms != INT64_MAX);
    w->hash = sim_draw(w->hash, q->url, (uint64_t)q->start_ms, (uint64_t)q->end_ms + (uint64_t)q->status);
    w->requests++;
}

/* Sends requests without a loop, and returns a hash of the answers and of the record. Timers of one
 * moment fire in an order that the loop decides, so only a run without them repeats exactly. */
static uint64_t run_without_loop(uint64_t seed)
{
    enum { N = 2000, OPEN = 30 };
    struct fake_world w = {.hash = seed};
    struct sim_internet *net = sim_internet_open(&(struct sim_internet_options){
        .seed = seed, .trouble = 100, .now = fake_now, .data = &w, .record = {.keep = true}});
    struct sim_visit *open[OPEN] = {NULL};
    uint64_t rnd = 1;

    assert_non_null(net);
    for (int i = 0; i < N; i++) {
        char host[64], url[128];
        struct sim_visit **v = &open[i % OPEN];
        int64_t arrived_ms;
        w.now_ms += pp_test_between(&rnd, 0, 300);
        if (*v && sim_visit_travels_ms(*v) == 0)
            w.hash = sim_draw(w.hash, "", (uint64_t)sim_visit_answer(*v, &arrived_ms)->status, (uint64_t)i);
        if (*v)
            (i % 7 ? sim_visit_close : sim_visit_lose)(*v);
        snprintf(host, sizeof(host), "h%d.c%d.example", i % 3, i % 5);
        snprintf(url, sizeof(url), "http://%s/%d", host, i);
        struct sim_host *h = sim_host_get(net, host);
        struct sim_name name = sim_host_look_up(h);
        w.hash = sim_draw(w.hash, host, name.n, (uint64_t)name.ms);
        const struct pp_exchange x = {.url = url, .host = host};
        *v = sim_visit_send(h, "w", &x, (const struct sockaddr *)&name.addrs[0]);
        assert_non_null(*v);
    }
    for (int i = 0; i < OPEN; i++)
        sim_visit_close(open[i]);
    w.now_ms += SIM_STALL_MS + 100000;
    sim_internet_advance(net);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sim_internet_in_flight(
                             net, (const char *[]){"h0.c0.example", "h1.c1.example", "h2.c2.example"}[i]),
                         0);
    sim_record_each(sim_internet_record(net), hash_request, &w);
    assert_int_equal(w.requests, N);
    sim_internet_close(net);
    return w.hash;
}

static void a_run_repeats(void **state)
{
    (void)state;
    assert_int_equal(run_without_loop(1), run_without_loop(1));
    assert_int_not_equal(run_without_loop(1), run_without_loop(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_the_same_everywhere),
        cmocka_unit_test(hosts_name_their_clients),
        cmocka_unit_test(photos_are_photos),
        cmocka_unit_test(addresses_agree_with_the_policy),
        cmocka_unit_test(answers_cover_everything),
        cmocka_unit_test(outages_come_and_go),
        cmocka_unit_test(outages_answer_to_all),
        cmocka_unit_test(a_photo_is_asked_for_again),
        cmocka_unit_test(a_calm_internet_has_only_facts),
        cmocka_unit_test(one_photo),
        cmocka_unit_test(pauses_and_stops),
        cmocka_unit_test(abort_at_any_time),
        cmocka_unit_test(one_aborts_another_and_starts_again),
        cmocka_unit_test(failures),
        cmocka_unit_test(addresses_are_tried_in_turn),
        cmocka_unit_test(a_host_has_its_own_limit),
        cmocka_unit_test(a_crash_leaves_requests_at_the_origin),
        cmocka_unit_test(names),
        cmocka_unit_test(many_exchanges),
        cmocka_unit_test(a_run_repeats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
