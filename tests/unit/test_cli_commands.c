/* Runs subcommands against a server with scripted answers, and checks requests, output, messages
 * and exit codes: what an operator asks of the server, failures that every subcommand can meet,
 * options, help, keys and colors. Batches, clients and messages:
 * test_cli_{batches,clients,messages}.c. */
#include "cli_samples.h"

#include <stdio.h>
#include <unistd.h>

#include "test_loop.h"

static const struct sample samples[] = {
    {"completion", pp_cmd_completion, {"completion", "bash"}, .out = "complete -F _photopool photopool\n"},
    {"completion of which shell",
     pp_cmd_completion,
     {"completion", "tcsh"},
     .code = 2,
     .err = "not for \"tcsh\""},
    {"the configuration of a server",
     pp_cmd_config,
     {"config"},
     {{200, NULL,
       "{\"parameters\":[{\"name\":\"clients.rpm\",\"value\":700,\"source\":\"file\",\"origin\":\"p.yaml\","
       "\"line\":3,\"reloadable\":true},{\"name\":\"data_dir\",\"value\":\"d\",\"source\":\"default\","
       "\"origin\":\"\",\"line\":null,\"reloadable\":false}],\"next\":null}"}},
     .width = TERMINAL,
     .out = "\033[1mclients.rpm\033[0m  700    p.yaml:3\r\ndata_dir     d      default\r\n",
     .request = {"GET /v1/config?limit=200"}},
    {"errors",
     pp_cmd_errors,
     {"errors"},
     {{200, NULL,
       "{\"errors\":[{\"code\":\"bad_url\",\"retry\":\"final\",\"fault\":\"merchant\",\"message\":\"S.\"}],"
       "\"next\":null}"}},
     .width = TERMINAL,
     .out = "bad_url  final  merchant  S.\r\n",
     .request = {"GET /v1/errors?limit=200"}},
    {"drain one",
     pp_cmd_drain,
     {"drain", "w-1"},
     {{200, NULL, "{\"worker\":\"w-1\",\"draining\":true}"}},
     .out = "{\"worker\":\"w-1\",\"draining\":true}\n",
     .request = {"POST /v1/workers/drain"},
     .body = "{\"worker\":\"w-1\"}"},
    {"drain all", pp_cmd_drain, {"drain"}, {{202, NULL, "{}"}}, .out = "{}", .body = "{\"worker\":null}"},
    {"queue",
     pp_cmd_queue,
     {"queue"},
     {{200, NULL, "{\"ingest\":{\"photos\":7}}"}},
     .width = TERMINAL,
     .out = "  photos  7\r\n",
     .request = {"GET /v1/queue"}},
    {"workers",
     pp_cmd_workers,
     {"workers"},
     {{200, NULL, "{\"workers\":[{\"id\":\"w\"}],\"next\":null}"}},
     .out = "{\"id\":\"w\"}\n"},
    {"routes",
     pp_cmd_routes,
     {"routes", "--domain", "d"},
     {{200, NULL, "{\"routes\":[{\"client\":\"42\",\"tier\":5.0}],\"next\":null}"}},
     .width = TERMINAL,
     .out = "42         5\r\n",
     .request = {"GET /v1/routes?domain=d&limit=100"}},
    {"version", pp_cmd_version, {"version", "--json"}, .out = "{\"version\":\""},

    /* The commands below meet failures that any subcommand can meet. Each row has the expected
     * message and exit code. */
    {"unauthorized",
     pp_cmd_queue,
     {"queue"},
     {{401, NULL,
       PROBLEM "\"code\":\"unauthorized\",\"detail\":\"a key is needed\",\"remedy\":\"Send one.\"}"}},
     .code = 1,
     .err = "a key is needed (unauthorized, HTTP 401); set PHOTOPOOL_KEY, or give --key-file FILE"},
    {"another server",
     pp_cmd_queue,
     {"queue"},
     {{200, NULL, "<html>"}},
     .code = 1,
     .err = "answered HTTP 200, but not with a JSON object; is a photopool server there?"},
    {"another server's list",
     pp_cmd_workers,
     {"workers"},
     {{200, NULL, "{\"workers\":{}}"}},
     .code = 1,
     .err = "no list \"workers\""},
    {"a proxy's error",
     pp_cmd_queue,
     {"queue"},
     {{502, NULL, "<html>"}},
     .code = 1,
     .err = "answered HTTP 502 and no explanation"},
    {"a redirect",
     pp_cmd_queue,
     {"queue"},
     {{301, "Location: http://127.0.0.1:1/\r\n", ""}},
     .code = 1,
     .err = "answered HTTP 301"},
    {"an escape in a message",
     pp_cmd_queue,
     {"queue"},
     {{400, NULL, PROBLEM "\"code\":\"bad_json\",\"detail\":\"\\u001b[2J\"}"}},
     .code = 1,
     .err = "\\x1b[2J (bad_json"},
    {"no answer", pp_cmd_queue, {"queue"}, {{0}}, .code = 4, .err = "can't reach http://127.0.0.1:"},
    {"unknown option",
     pp_cmd_status,
     {"status", "--folow"},
     .code = 2,
     .err = "photopool: status: there is no option --folow; did you mean --follow; see photopool status "
            "--help\n"},
    {"option without a value",
     pp_cmd_status,
     {"status", "--client"},
     .code = 2,
     .err = "--client needs a value"},
    {"number out of range",
     pp_cmd_status,
     {"status", "--limit", "0"},
     .code = 2,
     .err = "--limit takes a number from 1 to 1000000, not \"0\""},
    {"follow what", pp_cmd_status, {"status", "--follow"}, .code = 2, .err = "--follow needs a batch"},
    {"no batch", pp_cmd_results, {"results"}, .code = 2, .err = "results: BATCH is missing"},
    {"one too many", pp_cmd_pause, {"pause", "1", "2"}, .code = 2, .err = "\"2\" is one argument too many"},
};

static void commands_print_what_the_server_says(void **state)
{
    (void)state;
    CHECK_ALL(samples);
}

static void every_command_has_its_help(void **state)
{
    static const struct {
        const char *name;
        int (*command)(int, char **);
    } all[] = {{"submit", pp_cmd_submit},   {"status", pp_cmd_status},   {"results", pp_cmd_results},
               {"replay", pp_cmd_replay},   {"explain", pp_cmd_explain}, {"limits", pp_cmd_limits},
               {"pause", pp_cmd_pause},     {"resume", pp_cmd_resume},   {"drain", pp_cmd_drain},
               {"queue", pp_cmd_queue},     {"workers", pp_cmd_workers}, {"routes", pp_cmd_routes},
               {"version", pp_cmd_version}, {"events", pp_cmd_events},   {"webhooks", pp_cmd_webhooks},
               {"hosts", pp_cmd_hosts},     {"breaker", pp_cmd_breaker}, {"clients", pp_cmd_clients},
               {"item", pp_cmd_item},       {"cancel", pp_cmd_cancel},   {"items", pp_cmd_items},
               {"refresh", pp_cmd_refresh}, {"errors", pp_cmd_errors},   {"completion", pp_cmd_completion},
               {"photo", pp_cmd_photo},     {"doctor", pp_cmd_doctor},   {"bench", pp_cmd_bench},
               {"forget", pp_cmd_forget},   {"stats", pp_cmd_stats},     {"up", pp_cmd_up}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct cli_run r;
        char usage[64];
        snprintf(usage, sizeof usage, "Usage: photopool %s", all[i].name);
        cli_run(&r, all[i].command, NULL, 0, (const char *[]){all[i].name, "--help", NULL});
        assert_int_equal(r.code, 0);
        assert_int_equal(strncmp(r.out, usage, strlen(usage)), 0);
        assert_non_null(strstr(r.out, "\nExamples:\n  photopool "));
        for (const char *line = r.out, *eol; (eol = strchr(line, '\n')); line = eol + 1)
            assert_true(eol - line <= 120);
        cli_run_fini(&r);
    }
}

static void an_unreachable_server_is_named(void **state)
{
    struct cli_run r;
    char url[100];
    (void)state;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", pp_test_port()); /* no process listens here */
    cli_run(&r, pp_cmd_queue, NULL, 0, (const char *[]){"queue", "--server", url, NULL});
    assert_int_equal(r.code, 4);
    assert_non_null(strstr(r.err, "Connection refused; start a server with \"photopool up\""));
    cli_run_fini(&r);
}

static void server_urls_are_checked(void **state)
{
    static const char *const wrong[] = {"ftp://h", "h:x", "", "http://", "http://h/?x=1"};
    static const struct fake_reply script[] = {{200, NULL, "{}"}, {200, NULL, "{}"}};
    struct fake_http *s = fake_http_open(script, 2);
    char url[100];
    struct cli_run r;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cli_run(&r, pp_cmd_queue, NULL, 0, (const char *[]){"queue", "--server", wrong[i], NULL});
        if (r.code != 2 || !strstr(r.err, "is no http:// or https:// URL"))
            fail_msg("%s: %d %s", wrong[i], r.code, r.err);
        cli_run_fini(&r);
    }
    snprintf(url, sizeof url, "%s/prefix/", fake_http_url(s));
    setenv("PHOTOPOOL_SERVER", url, 1);
    cli_run(&r, pp_cmd_queue, NULL, 0, (const char *[]){"queue", NULL});
    assert_int_equal(r.code, 0);
    assert_true(fake_http_was(s, 0, "GET /prefix/v1/queue"));
    assert_null(strcasestr(fake_http_request(s, 0)->head, "authorization:"));
    cli_run_fini(&r);
    unsetenv("PHOTOPOOL_SERVER");
    fake_http_close(s);
}

static void run_with_key(struct fake_http *s, struct cli_run *r, const char *file)
{
    cli_run(r, pp_cmd_queue, NULL, 0,
            (const char *[]){"queue", "--server", fake_http_url(s), file ? "--key-file" : NULL, file, NULL});
}

static void a_key_is_sent_and_never_shown(void **state)
{
    static const struct fake_reply script[] = {{200, NULL, "{}"}, {200, NULL, "{}"}};
    struct fake_http *s = fake_http_open(script, 2);
    char name[] = "/tmp/photopool-key-XXXXXX";
    struct cli_run r;
    (void)state;
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "  \n") == 3);
    setenv("PHOTOPOOL_KEY", "from-environment\n", 1);
    run_with_key(s, &r, NULL);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(fake_http_request(s, 0)->head, "\r\nAuthorization: Bearer from-environment\r\n"));
    cli_run_fini(&r);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "from-file\nsecond line\n", 22, 0), 22);
    run_with_key(s, &r, name);
    assert_non_null(strstr(fake_http_request(s, 1)->head, "\r\nAuthorization: Bearer from-file\r\n"));
    cli_run_fini(&r);
    setenv("PHOTOPOOL_KEY", "two words", 1);
    run_with_key(s, &r, NULL);
    assert_int_equal(r.code, 2);
    assert_null(strstr(r.err, "two words")); /* no message shows a key */
    cli_run_fini(&r);
    unlink(name);
    run_with_key(s, &r, name);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "can't be read: No such file or directory"));
    cli_run_fini(&r);
    unsetenv("PHOTOPOOL_KEY");
    close(fd);
    fake_http_close(s);
}

static void no_color_turns_colors_off(void **state)
{
    static const struct fake_reply script[] = {{200, NULL, BATCH}};
    struct fake_http *s = fake_http_open(script, 1);
    struct cli_run r;
    (void)state;
    setenv("NO_COLOR", "1", 1);
    cli_run(&r, pp_cmd_status, NULL, TERMINAL,
            (const char *[]){"status", "b_1", "--server", fake_http_url(s), NULL});
    assert_non_null(strstr(r.out, "state       finished\r\n"));
    assert_null(strchr(r.out, '\033'));
    unsetenv("NO_COLOR");
    cli_run_fini(&r);
    fake_http_close(s);
}

static void a_header_that_is_too_large_names_the_server(void **state)
{
    enum { SIZE = 500 * 1024 };
    char *headers = malloc(SIZE + 8);
    struct cli_run r;
    (void)state;
    assert_non_null(headers);
    memset(headers, 'x', SIZE);
    memcpy(headers, "X: ", 3);
    strcpy(headers + SIZE, "\r\n");
    struct fake_http *s = fake_http_open(&(struct fake_reply){200, headers, "{}"}, 1);
    cli_run(&r, pp_cmd_queue, NULL, 0, (const char *[]){"queue", "--server", fake_http_url(s), NULL});
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "photopool: the answer of http://127.0.0.1:"));
    assert_non_null(strstr(r.err, " is too large\n"));
    cli_run_fini(&r);
    fake_http_close(s);
    free(headers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_print_what_the_server_says),
        cmocka_unit_test(every_command_has_its_help),
        cmocka_unit_test(an_unreachable_server_is_named),
        cmocka_unit_test(server_urls_are_checked),
        cmocka_unit_test(a_key_is_sent_and_never_shown),
        cmocka_unit_test(no_color_turns_colors_off),
        cmocka_unit_test(a_header_that_is_too_large_names_the_server),
    };
    unsetenv("NO_COLOR");
    unsetenv("PHOTOPOOL_KEY");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
