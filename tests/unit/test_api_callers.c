/* Tests the limits of callers: requests of a key and of an address, wrong keys, subscriptions,
 * tickets, and the table of callers. */
#include <unistd.h>

#include "api/callers.h"
#include "api/handler.h"
#include "api_events.h"
#include "photopool/scope.h"

static void use_keys(struct api_run *t)
{
    static struct pp_api_key keys[2];

    keys[0] = api_key("one", PP_SCOPE_READ | PP_SCOPE_SUBMIT);
    keys[1] = api_key("two", PP_SCOPE_READ | PP_SCOPE_SUBMIT);
    t->params.keys = keys;
    t->params.n_keys = 2;
}

/* Sends `n` requests and returns how many were answered with this status. */
static int ask_often(struct api_run *t, int n, const char *path, int status)
{
    int answered = 0;

    for (int i = 0; i < n; i++)
        answered += api_get(t, path) == status;
    return answered;
}

static void a_key_has_a_limit(void **state)
{
    struct api_run *t = *state;

    use_keys(t);
    t->params.caller_rate = 5;
    t->authorization = "Bearer one";
    assert_int_equal(ask_often(t, 5, "/v1/errors", 200), 5);
    assert_int_equal(api_get(t, "/v1/errors"), 429);
    assert_string_equal(api_code(t), "rate_limited");
    assert_string_equal(api_str(t, "detail"),
                        "key one sends too many requests: callers.requests_per_second permits 5 a second");
    assert_true(api_has_header(t, "Retry-After: 1\n"));
    assert_int_equal(t->metrics.rate_limited, 1);
    /* Supervisors, the other key at the same address, and the same key after a pause are served. */
    assert_int_equal(ask_often(t, 20, "/healthz", 200), 20);
    t->authorization = "Bearer two";
    assert_int_equal(api_get(t, "/v1/errors"), 200);
    t->authorization = "Bearer one";
    pp_test_clock_pass(t->loop, 200);
    assert_int_equal(api_get(t, "/v1/errors"), 200);
    assert_int_equal(api_get(t, "/v1/errors"), 429);
    /* The key has one limit at all its addresses. */
    t->peer = "192.0.2.9";
    assert_int_equal(api_get(t, "/v1/errors"), 429);
    t->params.caller_rate = 0;
    assert_int_equal(ask_often(t, 20, "/v1/errors", 200), 20);
    t->authorization = NULL;
}

static void an_address_has_a_limit(void **state)
{
    struct api_run *t = *state;

    t->params.caller_rate = 5;
    assert_int_equal(ask_often(t, 4, "/v1/errors", 200), 4);
    assert_int_equal(api_get(t, "/nope"), 404); /* This request counts, too. */
    assert_int_equal(api_get(t, "/nope"), 429);
    assert_int_equal(api_get(t, "/v1/errors"), 429);
    assert_non_null(strstr(api_str(t, "detail"), "address 127.0.0.1 sends"));
    assert_int_equal(api_get(t, "/metrics"), 200);
    t->peer = "2001:db8::/64";
    assert_int_equal(api_get(t, "/v1/errors"), 200);
}

/* Wrong keys are refused early, but a valid key at the same address is not. */
static void wrong_keys(void **state)
{
    struct api_run *t = *state;

    use_keys(t);
    t->params.caller_failures = 1;
    t->authorization = "Bearer wrong";
    assert_int_equal(ask_often(t, 10, "/v1/errors", 401), 10);
    assert_int_equal(api_get(t, "/v1/errors"), 429);
    assert_string_equal(api_code(t), "rate_limited");
    assert_true(api_has_header(t, "Retry-After: 1\n"));
    assert_non_null(strstr(api_str(t, "detail"), "callers.failures_per_second"));
    t->authorization = NULL;
    assert_int_equal(api_get(t, "/v1/errors"), 429);
    assert_int_equal(t->metrics.auth_failures, 12);
    t->authorization = "Bearer one";
    assert_int_equal(ask_often(t, 30, "/v1/errors", 200), 30);
    t->authorization = "Bearer wrong";
    t->peer = "192.0.2.9";
    assert_int_equal(api_get(t, "/v1/errors"), 401);
    t->peer = "127.0.0.1";
    pp_test_clock_pass(t->loop, 1000);
    assert_int_equal(api_get(t, "/v1/errors"), 401);
    assert_int_equal(api_get(t, "/v1/errors"), 429);
    t->authorization = NULL;
}

static size_t lines_in(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Wrong keys get at most one line a minute for an address, and few lines in all. */
static void wrong_keys_in_the_log(void **state)
{
    struct api_run *t = *state;
    char text[8192], peer[32];
    FILE *f = tmpfile();
    struct pp_log *log = pp_log_open(fileno(f), PP_LOG_INFO, false, 0);

    api_stop(t);
    t->options.log = log;
    t->api = pp_api_open(&t->options);
    use_keys(t);
    t->authorization = "Bearer wrong";
    assert_int_equal(ask_often(t, 10, "/v1/errors", 401), 10);
    pp_test_clock_pass(t->loop, 60000);
    assert_int_equal(ask_often(t, 10, "/v1/errors", 401), 10);
    memset(text, 0, sizeof(text));
    assert_true(pread(fileno(f), text, sizeof(text) - 1, 0) > 0);
    assert_int_equal(lines_in(text), 2);
    assert_non_null(strstr(text, "requests=10"));
    assert_null(strstr(text, "wrong"));
    for (int i = 0; i < 200; i++) {
        snprintf(peer, sizeof(peer), "192.0.2.%d", i);
        t->peer = peer;
        assert_int_equal(api_get(t, "/v1/errors"), 401);
    }
    memset(text, 0, sizeof(text));
    assert_true(pread(fileno(f), text, sizeof(text) - 1, 0) > 0);
    assert_in_range(lines_in(text), 3, 13);
    t->authorization = NULL;
    api_stop(t);
    t->options.log = NULL;
    t->api = pp_api_open(&t->options);
    pp_log_close(log);
    fclose(f);
}

/* However many addresses call, the table has room for the newest. */
static void the_table_is_bounded(void **state)
{
    struct api_run *t = *state;
    static char peer[32];

    t->params.caller_rate = 1;
    t->peer = peer;
    for (int i = 0; i < 10000; i++) {
        snprintf(peer, sizeof(peer), "10.1.%d.%d", i / 250, i % 250);
        assert_int_equal(api_get(t, "/nope"), 404);
        assert_int_equal(api_get(t, "/nope"), 429);
    }
}

/* The server charges bodies and answers to accounts that are shares of the ledger's rows. */
static void callers_have_accounts(void **state)
{
    static const char body[] = "{\"client\":\"42\",\"items\":[{\"id\":\"a\",\"photos\":[]}]}";
    struct api_run *t = *state;
    struct pp_account *bodies, *answers;

    t->params.caller_bytes = 128 << 20;
    api_restart(t, PP_ROLE_API);
    use_keys(t);
    t->authorization = "Bearer one";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", body), 202);
    bodies = t->request.body_account;
    answers = t->request.answer_account;
    assert_ptr_equal(bodies->parent, &t->ledger.rows[PP_RES_BODIES]);
    assert_ptr_equal(answers->parent, &t->ledger.rows[PP_RES_ANSWERS]);
    assert_int_equal(bodies->limit, 128 << 20);
    t->authorization = "Bearer two";
    assert_int_equal(api_ask(t, PP_POST, "/v1/batches", body), 202);
    assert_ptr_not_equal(t->request.body_account, bodies);
    t->authorization = NULL;
}

/* Begins a request whose body has not arrived. Returns whether the server is to read it. */
static bool begin_body(struct api_run *t, struct pp_http_request *r, const char *authorization)
{
    const struct pp_http_handler *h = pp_api_handler(t->api);

    *r = (struct pp_http_request){.method = PP_POST,
                                  .path = "/v1/batches",
                                  .query = "",
                                  .peer = "127.0.0.1",
                                  .authorization = authorization,
                                  .content_type = "application/json",
                                  .has_body = true};
    return h->head(h->data, r);
}

/* The head alone decides that a key has too many bodies under way. Those that arrive or are dropped
 * make room; requests without a body, and other keys, are served all the time. */
static void a_key_has_a_limit_of_bodies(void **state)
{
    struct api_run *t = *state;
    const struct pp_http_handler *h = pp_api_handler(t->api);
    struct pp_http_request r[3], next;

    use_keys(t);
    t->params.caller_bodies = 2;
    for (int round = 0; round < 2; round++) {
        assert_true(begin_body(t, &r[0], "Bearer one"));
        assert_true(begin_body(t, &r[1], "Bearer one"));
        t->authorization = "Bearer one";
        assert_int_equal(api_ask(t, PP_POST, "/v1/batches", "{}"), 429);
        assert_string_equal(api_code(t), "rate_limited");
        assert_string_equal(api_str(t, "detail"),
                            "key one sends too many bodies at the same time: this server reads 2 of a key");
        assert_true(api_has_header(t, "Retry-After: "));
        assert_int_equal(t->metrics.rate_limited, round + 1);
        assert_int_equal(api_get(t, "/v1/errors"), 200);
        assert_true(begin_body(t, &r[2], "Bearer two"));
        h->dropped(h->data, &r[0]);
        t->server.replies = 0;
        r[1].body = "";
        h->handle(h->data, &r[1]);
        pp_test_until(t->loop, api_replied, t, 20000);
        assert_int_equal(t->server.status, 400);
        h->dropped(h->data, &r[2]);
    }
    t->authorization = NULL;
    t->params.n_keys = 0; /* an address has no such limit */
    for (int i = 0; i < 3; i++)
        assert_true(begin_body(t, &r[i], NULL));
    assert_true(begin_body(t, &next, NULL));
    for (int i = 0; i < 3; i++)
        h->dropped(h->data, &r[i]);
    h->dropped(h->data, &next);
}

/* --- subscriptions --- */

/* One address can't take all long-polls: its own oldest one is answered for a newer one. */
static void one_caller_can_not_take_all_polls(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    for (int i = 0; i < 9; i++)
        assert_int_equal(poll_from(t, &p, "192.0.2.1"), 0);
    assert_int_equal(poll_from(t, &p, "192.0.2.1"), 1);
    assert_int_equal(t->server.status, 200);
    assert_string_equal(t->server.body, "{\"events\":[],\"last\":0,\"gap\":null}");
    assert_int_equal(poll_from(t, &p, "192.0.2.2"), 0);
    /* All places are taken now. Another caller is refused, and the first one as well. */
    assert_int_equal(poll_from(t, &p, "192.0.2.3"), 1);
    assert_int_equal(t->server.status, 503);
    close_events(t, &p);
}

/* When the server needs a connection, the oldest long-poll of the address gives way, or that of the
 * caller who has most. */
static void long_polls_give_way(void **state)
{
    struct api_run *t = *state;
    const struct pp_http_handler *h;
    struct polls p;

    open_events(t, &p);
    h = pp_api_handler(t->api);
    assert_false(h->give_way(h->data, NULL));
    assert_int_equal(poll_from(t, &p, "192.0.2.1"), 0);
    assert_int_equal(poll_from(t, &p, "192.0.2.2"), 0);
    assert_int_equal(poll_from(t, &p, "192.0.2.2"), 0);
    t->server.replies = 0;
    assert_false(h->give_way(h->data, "192.0.2.3"));
    assert_true(h->give_way(h->data, "192.0.2.1"));
    assert_ptr_equal(t->server.request, &p.requests[0]);
    assert_false(h->give_way(h->data, "192.0.2.1"));
    assert_int_equal(poll_from(t, &p, "192.0.2.1"), 0);
    assert_true(h->give_way(h->data, NULL));
    assert_ptr_equal(t->server.request, &p.requests[1]);
    assert_int_equal(t->server.replies, 2);
    assert_string_equal(t->server.body, "{\"events\":[],\"last\":0,\"gap\":null}");
    close_events(t, &p);
}

static void a_key_has_a_limit_of_subscriptions(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    open_events(t, &p);
    t->params.max_subscribers_per_key = 2;
    assert_int_equal(poll_from(t, &p, "192.0.2.1"), 0);
    assert_int_equal(poll_from(t, &p, "192.0.2.1"), 0);
    assert_int_equal(poll_from(t, &p, "192.0.2.1"), 1);
    assert_int_equal(poll_from(t, &p, "192.0.2.2"), 0);
    close_events(t, &p);
}

/* The keys of subscriptions take memory, which has a limit. */
static void keys_of_subscriptions_are_charged(void **state)
{
    struct api_run *t = *state;
    struct polls p;

    t->ledger.rows[PP_RES_SUBSCRIPTIONS].limit = 1600;
    open_events(t, &p);
    assert_int_equal(poll_from(t, &p, "192.0.2.1"), 0);
    assert_in_range(t->ledger.rows[PP_RES_SUBSCRIPTIONS].used, 100, 800);
    while (poll_from(t, &p, "192.0.2.1") == 0)
        assert_true(p.n < 10);
    assert_int_equal(t->server.status, 503);
    assert_in_range(t->ledger.rows[PP_RES_SUBSCRIPTIONS].used, 100, 800);
    close_events(t, &p);
    assert_int_equal(t->ledger.rows[PP_RES_SUBSCRIPTIONS].used, 0);
}

/* --- tickets --- */

/* Opens a subscription with the ticket, from another address. Returns the status: 200 if a
 * long-poll was answered. */
static int ask_with_ticket(struct api_run *t, const char *ticket)
{
    char path[1000];

    t->authorization = NULL;
    t->peer = "192.0.2.50";
    snprintf(path, sizeof(path), "/v1/events?wait=0&ticket=%s", ticket);
    return api_get(t, path);
}

static void make_ticket(struct api_run *t, const char *authorization, char out[800])
{
    t->authorization = authorization;
    assert_int_equal(api_ask(t, PP_POST, "/v1/tickets", "{\"keys\":[\"results:42\"]}"), 201);
    snprintf(out, 800, "%s", api_str(t, "ticket"));
}

static void tickets_have_a_secret_of_their_own(void **state)
{
    struct api_run *t = *state;
    struct polls p;
    char ticket[800], configured[800];

    open_events(t, &p);
    use_keys(t);
    make_ticket(t, "Bearer one", ticket);
    assert_int_equal(ask_with_ticket(t, ticket), 200);
    /* The secret is not made from the keys: with other keys beside it, the ticket is still good. */
    t->params.n_keys = 1;
    assert_int_equal(ask_with_ticket(t, ticket), 200);
    /* The key that made the ticket was removed. */
    t->params.keys++;
    assert_int_equal(ask_with_ticket(t, ticket), 401);
    t->params.keys--;
    t->params.ticket_secret = "another secret of at least 32 characters";
    assert_int_equal(ask_with_ticket(t, ticket), 401);
    make_ticket(t, "Bearer one", configured);
    assert_string_not_equal(configured, ticket);
    assert_int_equal(ask_with_ticket(t, configured), 200);
    pp_test_clock_pass(t->loop, 60001);
    assert_int_equal(ask_with_ticket(t, configured), 401);
    t->params.ticket_secret = NULL;
    t->coordinator.secret_err = PP_EIO;
    assert_int_equal(ask_with_ticket(t, ticket), 503);
    close_events(t, &p);
}

/* Subscriptions by ticket count for the key that made the ticket. */
static void tickets_count_for_their_key(void **state)
{
    struct api_run *t = *state;
    struct polls p;
    char ticket[800], path[1000];

    open_events(t, &p);
    use_keys(t);
    t->params.max_subscribers_per_key = 1;
    make_ticket(t, "Bearer one", ticket);
    snprintf(path, sizeof(path), "/v1/events?wait=60&ticket=%s", ticket);
    t->authorization = NULL;
    t->server.replies = 0;
    for (int i = 0; i < 3; i++) {
        t->peer = i == 0 ? "192.0.2.1" : i == 1 ? "192.0.2.2" : "192.0.2.3";
        api_begin(t, &p.requests[p.n++], PP_GET, path, NULL, 0);
    }
    while (t->server.replies < 2) /* Each newer long-poll takes the place of the one before. */
        (void)pp_loop_turn(t->loop, true);
    assert_int_equal(t->server.replies, 2);
    close_events(t, &p);
}

static void pages_of_a_caller_take_turns(void **state)
{
    enum { MINE = 6, ALL = MINE + 1 };
    struct api_run *t = *state;
    struct pp_http_request r[ALL];

    t->store.back.hold = true;
    t->server.replies = 0;
    for (int i = 0; i < MINE; i++)
        api_begin(t, &r[i], PP_GET, "/v1/clients", NULL, 0);
    assert_int_equal(t->store.back.n, PP_CALLER_LISTS);
    t->peer = "192.0.2.2"; /* another caller does not wait for them */
    api_begin(t, &r[MINE], PP_GET, "/v1/clients", NULL, 0);
    assert_int_equal(t->store.back.n, PP_CALLER_LISTS + 1);
    fake_release(&t->store.back);
    while (t->server.replies < ALL)
        (void)pp_loop_turn(t->loop, true);
    /* a page that is refused at once ends its turn, too */
    for (int i = 0; i < MINE; i++)
        assert_int_equal(api_get(t, "/v1/clients?limit=0"), 400);
    assert_int_equal(api_get(t, "/v1/clients"), 200);
}

/* Lets the store answer what it holds, and hold what the API asks then. */
static void answer_held(struct api_run *t)
{
    size_t due = t->server.replies + t->store.back.n;

    fake_release(&t->store.back);
    t->store.back.hold = true;
    while (t->server.replies < due)
        (void)pp_loop_turn(t->loop, true);
}

/* Few pages of all callers are at work, and they are charged. The others wait, and callers take
 * turns: those with one page do not wait for all pages of one with many. */
static void callers_take_turns(void **state)
{
    enum { MANY = 6, CALLERS = 5, ALL = MANY + CALLERS };
    static const char *const peers[CALLERS] = {"192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5",
                                               "192.0.2.6"};
    struct api_run *t = *state;
    struct pp_account *answers = &t->ledger.rows[PP_RES_ANSWERS];
    struct pp_http_request r[ALL];

    t->store.back.hold = true;
    t->server.replies = 0;
    for (int i = 0; i < MANY; i++)
        api_begin(t, &r[i], PP_GET, "/v1/clients", NULL, 0);
    for (int i = 0; i < CALLERS; i++) {
        t->peer = peers[i];
        api_begin(t, &r[MANY + i], PP_GET, "/v1/clients", NULL, 0);
    }
    assert_int_equal(t->store.back.n, PP_LISTS);
    assert_int_equal(answers->used, PP_LISTS * PP_PAGE_MEMORY);
    answer_held(t); /* two pages of the first caller, and two others */
    assert_int_equal(t->server.replies, PP_LISTS);
    assert_int_equal(t->store.back.n, PP_LISTS);
    answer_held(t); /* the other callers' three, and one of the first caller */
    assert_int_equal(t->store.back.n, PP_CALLER_LISTS);
    assert_int_equal(answers->used, PP_CALLER_LISTS * PP_PAGE_MEMORY);
    answer_held(t);
    answer_held(t);
    assert_int_equal(t->server.replies, ALL);
    assert_int_equal(answers->used, 0);
    fake_release(&t->store.back);
}

/* The line is bounded, but a caller that has no page in it gets into it. */
static void the_line_is_bounded(void **state)
{
    enum { MINE = PP_CALLER_LISTS + PP_LISTS_WAITING };
    struct api_run *t = *state;
    static struct pp_http_request r[MINE + 1];

    t->store.back.hold = true;
    t->server.replies = 0;
    for (int i = 0; i < MINE; i++)
        api_begin(t, &r[i], PP_GET, "/v1/clients", NULL, 0);
    assert_int_equal(t->server.replies, 0);
    assert_int_equal(api_get(t, "/v1/clients"), 503);
    assert_string_equal(api_code(t), "overloaded");
    assert_true(api_has_header(t, "Retry-After: 5\n"));
    t->peer = "192.0.2.2";
    api_begin(t, &r[MINE], PP_GET, "/v1/clients", NULL, 0);
    fake_release(&t->store.back);
    while (t->server.replies < MINE + 2)
        (void)pp_loop_turn(t->loop, true);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)
    const struct CMUnitTest tests[] = {
        TEST(a_key_has_a_limit),
        TEST(an_address_has_a_limit),
        TEST(wrong_keys),
        TEST(wrong_keys_in_the_log),
        TEST(the_table_is_bounded),
        TEST(callers_have_accounts),
        TEST(a_key_has_a_limit_of_bodies),
        TEST(one_caller_can_not_take_all_polls),
        TEST(long_polls_give_way),
        TEST(a_key_has_a_limit_of_subscriptions),
        TEST(keys_of_subscriptions_are_charged),
        TEST(tickets_have_a_secret_of_their_own),
        TEST(tickets_count_for_their_key),
        TEST(pages_of_a_caller_take_turns),
        TEST(callers_take_turns),
        TEST(the_line_is_bounded),
    };

    return cmocka_run_group_tests_name("api_callers", tests, NULL, NULL);
}
