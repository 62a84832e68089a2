/* Runs `photopool queue` and its actions against a server with scripted answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_run.h"
#include "cmd.h"
#include "fake_http.h"

enum { ARGS = 8, REQUESTS = 5, TERMINAL = 100 };

struct sample {
    const char *name;
    const char *args[ARGS]; /* after "queue --server URL" */
    struct fake_reply script[REQUESTS];
    unsigned width; /* width of the terminal; 0: the output is not a terminal */
    int code;
    const char *out, *err;         /* texts that the output must contain; NULL: it must be empty */
    const char *request[REQUESTS]; /* the beginning of each request */
    const char *body;              /* the body of the last request */
};

#define ENTRY                                                                                        \
    "{\"id\":\"b_2\",\"batch_id\":\"b_2\",\"client\":\"42\",\"items\":250,\"photos\":2400,"          \
    "\"deliveries\":21,\"created_at\":\"2026-11-20T10:00:00.000Z\",\"since\":\"2026-11-20T10:07:30." \
    "000Z\",\"error\":\"the entry is damaged\"}"
#define PAGE(ids, next) "{\"set_aside\":[" ids "],\"next\":" next "}"
#define DONE            "{\"id\":\"b_2\",\"batch_id\":\"b_2\",\"action\":\"retry\"}"
#define GONE \
    "{\"type\":\"urn:x\",\"title\":\"T\",\"status\":404,\"code\":\"not_found\",\"detail\":\"no entry\"}"

static const struct sample samples[] = {
    {"the queue",
     {NULL},
     {{200, NULL, "{\"claimed\":3}"}},
     .out = "{\"claimed\":3}",
     .request = {"GET /v1/queue"}},
    {"entries, piped",
     {"set-aside"},
     {{200, NULL, PAGE(ENTRY, "null")}},
     .out = ENTRY "\n",
     .request = {"GET /v1/queue/set-aside?limit=100"}},
    {"entries on a terminal",
     {"set-aside", "--limit", "7"},
     {{200, NULL, PAGE(ENTRY, "null")}},
     .width = TERMINAL,
     .out =
         "b_2    42        250   2,400     21  2026-11-20 10:07:30  \033[31mthe entry is damaged\033[0m\r\n",
     .request = {"GET /v1/queue/set-aside?limit=7"}},
    {"one is retried",
     {"retry", "b_2"},
     {{202, NULL, DONE}},
     .out = DONE,
     .request = {"POST /v1/queue/set-aside/b_2"},
     .body = "{\"action\":\"retry\"}"},
    {"one is failed",
     {"fail", "b/2"},
     {{202, NULL, DONE}},
     .out = DONE,
     .request = {"POST /v1/queue/set-aside/b%2F2"},
     .body = "{\"action\":\"fail\"}"},
    {"one that is not set aside",
     {"fail", "b_2"},
     {{404, NULL, GONE}},
     .code = 1,
     .err = "no entry (not_found, HTTP 404)",
     .request = {"POST /v1/queue/set-aside/b_2"}},
    /* Somebody else acts on b_2 after the list was read. */
    {"all, over two pages",
     {"fail", "--all"},
     {{200, NULL, PAGE("{\"id\":\"b_3\"},{\"id\":\"b_2\"}", "\"c\"")},
      {200, NULL, PAGE("{\"id\":\"b_1\"}", "null")},
      {202, NULL, DONE},
      {404, NULL, GONE},
      {202, NULL, DONE}},
     .width = TERMINAL,
     .out = "fail: 2 batches\r\n",
     .request = {"GET /v1/queue/set-aside?limit=1000", "GET /v1/queue/set-aside?limit=1000&after=c",
                 "POST /v1/queue/set-aside/b_3", "POST /v1/queue/set-aside/b_2",
                 "POST /v1/queue/set-aside/b_1"},
     .body = "{\"action\":\"fail\"}"},
    {"all, piped",
     {"retry", "--all"},
     {{200, NULL, PAGE("{\"id\":\"b_3\"}", "null")}, {202, NULL, DONE}},
     .out = "{\"id\":\"b_3\",\"action\":\"retry\"}\n",
     .request = {"GET /v1/queue/set-aside?limit=1000", "POST /v1/queue/set-aside/b_3"}},
    {"all, and the server fails",
     {"retry", "--all"},
     {{200, NULL, PAGE("{\"id\":\"b_3\"},{\"id\":\"b_2\"}", "null")}, {503, NULL, ""}},
     .code = 1,
     .err = "503",
     .request = {"GET /v1/queue/set-aside?limit=1000", "POST /v1/queue/set-aside/b_3"}},
    {"no such action", {"drop"}, .code = 2, .err = "there is no action \"drop\": set-aside, retry or fail"},
    {"which one", {"retry"}, .code = 2, .err = "retry takes a batch, or --all"},
    {"one or all", {"fail", "b_1", "--all"}, .code = 2, .err = "fail takes a batch, or --all"},
    {"all of what", {"--all"}, .code = 2, .err = "--all goes with retry and fail"},
    {"how many of what", {"retry", "b_1", "--limit", "3"}, .code = 2, .err = "--limit with set-aside"},
    {"a list of one", {"set-aside", "b_1"}, .code = 2, .err = "set-aside takes no batch"},
};

static bool matches(const char *got, const char *want)
{
    return want ? strstr(got, want) != NULL : *got == 0;
}

static void check(const struct sample *c)
{
    const char *args[ARGS + 4] = {"queue", "--server"};
    struct cli_run r;
    size_t n = 2, script = 0, requests = 0;

    while (script < REQUESTS && c->script[script].status)
        script++;
    while (requests < REQUESTS && c->request[requests])
        requests++;
    struct fake_http *s = fake_http_open(c->script, script ? script : 1);
    args[n++] = fake_http_url(s);
    for (size_t i = 0; c->args[i]; i++)
        args[n++] = c->args[i];
    cli_run(&r, pp_cmd_queue, NULL, c->width, args);
    if (r.code != c->code || !matches(r.out, c->out) || !matches(r.err, c->err))
        fail_msg("%s: exit %d\n--- out:\n%s\n--- err:\n%s", c->name, r.code, r.out, r.err);
    if (fake_http_count(s) != requests)
        fail_msg("%s: %zu requests", c->name, fake_http_count(s));
    for (size_t i = 0; i < requests; i++)
        if (!fake_http_was(s, i, c->request[i]))
            fail_msg("%s: %s", c->name, fake_http_request(s, i)->head);
    if (c->body)
        assert_string_equal(fake_http_request(s, requests - 1)->body, c->body);
    cli_run_fini(&r);
    fake_http_close(s);
}

static void every_sample(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        check(&samples[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_sample)};

    unsetenv("NO_COLOR");
    unsetenv("PHOTOPOOL_KEY");
    return cmocka_run_group_tests_name("cli_queue", tests, NULL, NULL);
}
