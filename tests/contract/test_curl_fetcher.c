/* test_curl_fetcher.c: adapter/curl keeps the fetcher's contract, and still works after libcurl has
 * forgotten names that the fetcher had pinned. */
#include <errno.h>
#include <stdio.h>

#include "adapter/curl/fetcher.h"
#include "few_fds.h"
#include "suite_fetcher_kit.h"
#include "test_clock.h"

static enum pp_err open_curl(struct pp_loop *loop, const char *ca_file, struct pp_fetcher **out)
{
    const struct pp_curl_options o = {.ca_file = ca_file, .user_agent = "photopool/test"};

    return pp_curl_fetcher_open(loop, &o, out);
}

/* Answers "/begin" with a head and part of the body, and then sends nothing. Answers any other path
 * completely and closes the connection. */
static enum pp_origin_next serve(struct pp_origin_conn *c, const char *request, void *data)
{
    (void)data;
    if (strncmp(request, "GET /begin ", 11) == 0) {
        (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        return PP_ORIGIN_HANG;
    }
    (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return PP_ORIGIN_CLOSE;
}

static void start_named(struct get *g, struct kit *k, const char *host, const char *path)
{
    get_init(g, k, path);
    (void)snprintf(g->url, sizeof(g->url), "http://%s:%u%s", host, pp_origin_port(k->o), path);
    g->x.host = host;
    get_start(g);
}

static void run_named(struct kit *k, const char *host, uint16_t code)
{
    struct get g;

    start_named(&g, k, host, "/");
    if (code)
        g.deny_at = 1;
    get_wait(&g);
    assert_int_equal(g.x.code, code);
    assert_int_equal(g.sents > 0, code == 0);
    get_fini(&g);
}

static bool has_body(void *g)
{
    return ((struct get *)g)->bodies > 0;
}

/* The fetcher's table of pinned names is full, so the fetcher empties it. The request that makes
 * libcurl forget these names is so slow that libcurl also forgets a newer name (pins.c). The next
 * request for the newer name must notice this and still be sent. */
static void a_forgotten_name_is_pinned_again(void **state)
{
    struct kit k;
    struct get slow;
    char host[64];

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    for (int i = 0; i < 4096; i++) {
        (void)snprintf(host, sizeof(host), "h%d.test", i);
        run_named(&k, host, PP_CODE_DENIED_ADDRESS);
    }
    start_named(&slow, &k, "slow.test", "/begin");
    kit_until(&k, has_body, &slow);
    run_named(&k, "x.test", 0);
    run_named(&k, "x.test", 0);
    /* libcurl counts in whole seconds, so the clock moves a little more than 3 s. */
    pp_test_clock_pass(k.loop, 3100);
    get_abort(&slow);
    get_fini(&slow);
    run_named(&k, "x.test", 0);
    run_named(&k, "x.test", 0);
    kit_close(&k);
}

/* Without a free descriptor the request fails on our side: it was not sent, and the host is not at
 * fault. */
static void no_descriptor_is_our_fault(void **state)
{
    struct kit k;
    struct get g;

    (void)state;
    kit_open(&k, serve, NULL, NULL);
    get_init(&g, &k, "/");
    struct rlimit was = pp_test_no_fds();
    get_start(&g);
    get_wait(&g);
    pp_test_fds_back(&was);
    assert_int_equal(g.x.code, PP_CODE_INTERNAL);
    assert_int_equal(g.x.local_errno, EMFILE);
    assert_int_equal(g.sents, 0);
    get_fini(&g);
    /* the origin could not accept either, and has ended */
    pp_origin_close(k.o);
    k.o = pp_origin_open(serve, NULL, NULL);
    run_named(&k, "x.test", 0);
    kit_close(&k);
}

/* Answers any path and keeps the connection. */
static enum pp_origin_next serve_and_keep(struct pp_origin_conn *c, const char *request, void *data)
{
    (void)request;
    (void)data;
    (void)pp_origin_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return PP_ORIGIN_KEEP;
}

/* The fetcher closes the connection that was idle longest when it needs another one, and the ledger
 * counts the sockets. */
static void idle_connections_give_way(void **state)
{
    enum { KEPT = 4 };
    struct pp_ledger ledger;
    struct kit k = {.o = pp_origin_open(serve_and_keep, NULL, NULL), .loop = pp_loop_open()};
    const struct pp_curl_options o = {.max_exchanges = 2, .max_kept = KEPT, .ledger = &ledger};
    const struct pp_account *sockets = &ledger.rows[PP_RES_TRANSFERS];

    (void)state;
    pp_ledger_init(&ledger);
    assert_int_equal(pp_curl_fetcher_open(k.loop, &o, &k.f), PP_OK);
    for (unsigned i = 0; i < 3 * KEPT; i++) {
        char host[32];
        (void)snprintf(host, sizeof(host), "h%u.test", i);
        run_named(&k, host, 0);
        assert_int_equal(sockets->used, i < KEPT ? i + 1 : KEPT);
    }
    kit_close(&k);
    assert_int_equal(sockets->used, 0);
}

static void options_are_checked(void **state)
{
    const struct pp_curl_options small = {.buffer_bytes = 100}, large = {.buffer_bytes = 1 << 30},
                                 no_file = {.ca_file = "/nonexistent/ca.pem"};
    struct pp_loop *loop = pp_loop_open();
    struct pp_fetcher *f;

    (void)state;
    assert_int_equal(pp_curl_fetcher_open(loop, &small, &f), PP_EINVAL);
    assert_int_equal(pp_curl_fetcher_open(loop, &large, &f), PP_EINVAL);
    assert_int_equal(pp_curl_fetcher_open(loop, &no_file, &f), PP_EIO);
    assert_int_equal(pp_curl_fetcher_open(loop, NULL, &f), PP_OK);
    f->ops->close(f);
    pp_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forgotten_name_is_pinned_again), cmocka_unit_test(no_descriptor_is_our_fault),
        cmocka_unit_test(idle_connections_give_way), cmocka_unit_test(options_are_checked)};
    int failed = pp_suite_fetcher(&(struct pp_fetcher_subject){"fetcher: curl", open_curl});

    return failed + cmocka_run_group_tests_name("curl", tests, NULL, NULL);
}
