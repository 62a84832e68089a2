/* Runs the subcommands for clients and hosts against a server with scripted answers. */
#include "cli_samples.h"

#define CLIENT                                                                                            \
    "{\"client\":\"42\",\"rpm\":600,\"concurrency\":16,\"weight\":1,\"paused\":false,\"headers\":{\"A\":" \
    "\"b\"}}"
#define UNSET_CLIENT                                                                                   \
    "{\"client\":\"42\",\"rpm\":600,\"concurrency\":null,\"weight\":1,\"paused\":true,\"headers\":{}," \
    "\"defaults\":[\"rpm\",\"weight\"]}"
#define NEW_CLIENT                                                                                    \
    "{\"client\":\"24\",\"rpm\":600,\"concurrency\":16,\"weight\":1,\"paused\":false,\"headers\":{}," \
    "\"defaults\":[\"rpm\",\"concurrency\",\"weight\"]}"
#define HOST                                                                                                \
    "{\"host\":\"h.example\",\"state\":\"open\",\"forced\":null,\"reason\":\"errors\",\"since\":\"2026-11-" \
    "20T10:00:"                                                                                             \
    "00.000Z\",\"next_probe_at\":\"2026-11-20T10:05:00.000Z\",\"slow_until\":null,\"requests\":1200,"       \
    "\"error_"                                                                                              \
    "share\":0.5,\"usual_error_share\":null,\"latency_ms\":{\"median\":120.4,\"usual\":null,\"deviation\":" \
    "null},"                                                                                                \
    "\"waiting_photos\":null,\"errors\":{},\"clients\":null}"
#define STATS                                                                                          \
    "{\"days\":[{\"day\":\"2026-11-20\",\"requests\":12,\"bytes\":1000,\"stored\":5,\"unchanged\":5}," \
    "{\"day\":\"2026-11-22\",\"requests\":4,\"failed\":20,\"errors\":{\"http_404\":20}}],"             \
    "\"total\":{\"requests\":16,\"bytes\":1000,\"stored\":5,\"unchanged\":5,\"failed\":20}}"

static const struct sample samples[] = {
    {"limits shown",
     pp_cmd_limits,
     {"limits", "42"},
     {{200, NULL, CLIENT}},
     .out = CLIENT,
     .request = {"GET /v1/clients/42"}},
    {"limits changed",
     pp_cmd_limits,
     {"limits", "42", "--rpm", "none", "--weight", "3"},
     {{200, NULL, CLIENT}, {200, NULL, CLIENT}},
     .out = CLIENT,
     .request = {"GET /v1/clients/42", "PATCH /v1/clients/42"},
     .body = "{\"rpm\":null,\"weight\":3}"},
    {"limits shown on a terminal",
     pp_cmd_limits,
     {"limits", "42"},
     {{200, NULL, UNSET_CLIENT}},
     .width = TERMINAL,
     .out = "rpm          600 (default)\r\nconcurrency  no limit\r\nweight       1 (default)\r\n"},
    {"limits return to the default",
     pp_cmd_limits,
     {"limits", "42", "--rpm", "default", "--concurrency", "7", "--weight", "default"},
     {{200, NULL, CLIENT}, {200, NULL, CLIENT}},
     .out = CLIENT,
     .body = "{\"reset\":[\"rpm\",\"weight\"],\"concurrency\":7}"},
    {"wrong weight",
     pp_cmd_limits,
     {"limits", "42", "--weight", "none"},
     .code = 2,
     .err = "--weight takes a number from 1 to 1000, or default, not \"none\""},
    {"a client that nobody knows is paused",
     pp_cmd_pause,
     {"pause", "24"},
     {{200, NULL, NEW_CLIENT}, {200, NULL, "{\"batches\":[],\"next\":null}"}, {200, NULL, CLIENT}},
     .out = CLIENT,
     .err = "client 24 has no batches, and had no settings until now; is the id right?",
     .request = {"GET /v1/clients/24", "GET /v1/batches?client=24&limit=1", "PATCH /v1/clients/24"}},
    {"a client with batches and without settings is paused",
     pp_cmd_pause,
     {"pause", "24"},
     {{200, NULL, NEW_CLIENT}, {200, NULL, "{\"batches\":[" BATCH "],\"next\":null}"}, {200, NULL, CLIENT}},
     .out = CLIENT},
    {"clients on a terminal",
     pp_cmd_clients,
     {"clients", "--paused", "--prefix", "4"},
     {{200, NULL, "{\"clients\":[" UNSET_CLIENT "],\"next\":null}"}},
     .width = TERMINAL,
     .out = "42      \033[2m600 (default)\033[0m     no limit  \033[2m1 (default)\033[0m  \033[33myes\033[0m "
            "          0\r\n",
     .request = {"GET /v1/clients?q=4&paused=true&limit=100"}},
    {"wrong rpm",
     pp_cmd_limits,
     {"limits", "42", "--rpm", "6x"},
     .code = 2,
     .err = "--rpm takes a number from 1 to 1000000, none or default, not \"6x\""},
    {"pause",
     pp_cmd_pause,
     {"pause", "42"},
     {{200, NULL, CLIENT}, {200, NULL, CLIENT}},
     .out = "{",
     .request = {"GET /v1/clients/42", "PATCH /v1/clients/42"},
     .body = "{\"paused\":true}"},
    {"resume",
     pp_cmd_resume,
     {"resume", "42"},
     {{200, NULL, "{\"paused\":true}"},
      {422, NULL, PROBLEM "\"code\":\"bad_value\",\"detail\":\"no\",\"field\":\"rpm\"}"}},
     .code = 1,
     .err = "photopool: rpm: no (bad_value, HTTP 422)\n",
     .body = "{\"paused\":false}"},
    {"hosts, piped",
     pp_cmd_hosts,
     {"hosts", "--state", "open", "--prefix", "h.", "--sort", "errors"},
     {{200, NULL, "{\"hosts\":[" HOST "],\"next\":null}"}},
     .out = HOST "\n",
     .request = {"GET /v1/hosts?state=open&q=h.&sort=errors&limit=100"}},
    {"hosts on a terminal",
     pp_cmd_hosts,
     {"hosts"},
     {{200, NULL, "{\"hosts\":[" HOST "],\"next\":null}"}},
     .width = 120,
     .out =
         "h.example  \033[31mopen\033[0m     errors  2026-11-20 10:00:00  2026-11-20 10:05:00     1,200    "
         "50 %      -  120 ms\r\n"},
    {"statistics, piped",
     pp_cmd_stats,
     {"stats", "42", "--from", "2026-11-01", "--to", "2026-11-23"},
     {{200, NULL, STATS}},
     .out = "{\"day\":\"2026-11-20\",\"requests\":12,",
     .request = {"GET /v1/clients/42/stats?from=2026-11-01&to=2026-11-23"}},
    {"statistics on a terminal",
     pp_cmd_stats,
     {"stats"},
     {{200, NULL, STATS}},
     .width = TERMINAL,
     .out = "2026-11-20        12  1,000       5          5        0       0  \x1b[32m████████████\x1b[0m\r\n"
            "2026-11-21         0      0       0          0        0       0  \r\n"
            "2026-11-22         4      0       0          0        0      \x1b[31m20\x1b[0m  "
            "\x1b[32m████████████████████████\x1b[0m\r\n"
            "total             16  1,000",
     .request = {"GET /v1/stats"}},
    {"statistics of a host",
     pp_cmd_stats,
     {"stats", "--host", "h.example"},
     {{200, NULL, STATS}},
     .out = "2026-11-22",
     .request = {"GET /v1/hosts/h.example/stats"}},
    {"statistics of a client and of a host",
     pp_cmd_stats,
     {"stats", "42", "--host", "h.example"},
     {{0}},
     .code = 2,
     .err = "not both"},
    {"hosts on a small terminal",
     pp_cmd_hosts,
     {"hosts"},
     {{200, NULL,
       "{\"hosts\":[{\"host\":\"a-rather-long-name.shop.example\",\"state\":\"half_open\",\"forced\":null,"
       "\"reason\":\"unreachable\",\"since\":\"2026-11-20T10:00:00.000Z\",\"next_probe_at\":null,"
       "\"requests\":7,"
       "\"error_share\":1,\"usual_error_share\":0.031,\"latency_ms\":{\"median\":null}}],\"next\":null}"}},
     .width = 80,
     .out = "a-rather-long-name.shop.example  \033[33mhalf_open\033[0m         7   100 %       -\r\n"},
    {"a host with a forced breaker",
     pp_cmd_hosts,
     {"hosts"},
     {{200, NULL, "{\"hosts\":[{\"host\":\"h\",\"state\":\"closed\",\"forced\":\"closed\"}],\"next\":null}"}},
     .width = 120,
     .out = "h     closed, forced  "},
    {"no hosts",
     pp_cmd_hosts,
     {"hosts", "--state", "open"},
     {{200, NULL, "{\"hosts\":[],\"next\":null}"}},
     .width = TERMINAL,
     .out = "no hosts\r\n"},
    {"one host",
     pp_cmd_hosts,
     {"hosts", "::1"},
     {{200, NULL, HOST}},
     .out = HOST "\n",
     .request = {"GET /v1/hosts/%3A%3A1"}},
    {"one host of a state",
     pp_cmd_hosts,
     {"hosts", "h.example", "--state", "open"},
     .code = 2,
     .err = "a host is shown without --state"},
    {"a breaker is opened for a while",
     pp_cmd_breaker,
     {"breaker", "h.example", "open", "--for", "600"},
     {{200, NULL, HOST}},
     .out = HOST "\n",
     .request = {"POST /v1/breakers/h.example"},
     .body = "{\"action\":\"open\",\"for_seconds\":600}"},
    {"a breaker decides by itself again",
     pp_cmd_breaker,
     {"breaker", "h.example", "auto"},
     {{200, NULL, HOST}},
     .width = TERMINAL,
     .out = "state              \033[31mopen",
     .body = "{\"action\":\"auto\"}"},
    {"a breaker of no host",
     pp_cmd_breaker,
     {"breaker", "a b", "close"},
     {{422, NULL, PROBLEM "\"code\":\"bad_value\",\"detail\":\"host: a space\",\"field\":\"host\"}"}},
     .code = 1,
     .err = "a space (bad_value, HTTP 422)",
     .request = {"POST /v1/breakers/a%20b"}},
    {"what with the breaker",
     pp_cmd_breaker,
     {"breaker", "h.example", "opn"},
     .code = 2,
     .err = "a breaker takes open, close or auto, not \"opn\""},
    {"auto does not end",
     pp_cmd_breaker,
     {"breaker", "h.example", "auto", "--for", "60"},
     .code = 2,
     .err = "--for goes with open and close"},
    {"the breaker of which host", pp_cmd_breaker, {"breaker", "open"}, .code = 2, .err = "is missing"},
};

static void clients_and_hosts_as_the_server_says(void **state)
{
    (void)state;
    CHECK_ALL(samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_and_hosts_as_the_server_says),
    };
    unsetenv("NO_COLOR");
    unsetenv("PHOTOPOOL_KEY");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
