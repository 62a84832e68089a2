/* Runs the subcommands against a server with scripted answers, and checks requests, output,
 * messages and exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_run.h"
#include "cmd.h"
#include "fake_http.h"
#include "test_loop.h"

enum { ARGS = 16, TERMINAL = 100 };

/* A command with one to five arguments, the answers of its server, and the expected result. */
struct sample {
    const char *name;
    int (*command)(int, char **);
    const char *args[ARGS]; /* arguments, not counting --server */
    struct fake_reply script[4];
    unsigned width; /* width of the terminal; 0: the output is not a terminal */
    int code;
    const char *out, *err;  /* texts that the output must contain; NULL: the output must be empty */
    const char *request[4]; /* expected beginning of each request */
    const char *body;       /* expected body of the last request */
};

#define PROBLEM "{\"type\":\"urn:x\",\"title\":\"T\",\"status\":404,"
#define BATCH                                                                                               \
    "{\"batch_id\":\"b_1\",\"client\":\"42\",\"state\":\"finished\",\"created_at\":\"2026-11-20T10:00:00."  \
    "000Z\",\"items\":{"                                                                                    \
    "\"total\":2,\"open\":0,\"complete\":1,\"partial\":1},\"photos\":{\"total\":4,\"open\":0,\"stored\":3," \
    "\"failed\":1},"                                                                                        \
    "\"errors\":{\"http_404\":1},\"photos_per_second\":1.5,\"eta_seconds\":0}"
#define WIDE_BATCH                                                                                           \
    "{\"batch_id\":\"b_1m7yvgzx84ds1s5ey5cgr\",\"client\":\"greengrocer\",\"state\":\"finished\",\"created_" \
    "at\":"                                                                                                  \
    "\"2026-11-20T10:00:00.000Z\",\"items\":{\"total\":4000,\"open\":0},\"photos\":{\"total\":12000,"        \
    "\"open\":0,"                                                                                            \
    "\"failed\":1590},\"errors\":{\"body_timeout\":356,\"http_404\":1234}}"
#define RESULT                                                                                            \
    "{\"id\":\"r_1\",\"data\":{\"item\":\"ad-1\",\"revision\":3,\"status\":\"partial\",\"n\":"            \
    "123456789012345678901234567890,"                                                                     \
    "\"photos\":[{\"outcome\":\"stored\",\"sha256\":\"ab\"},{\"outcome\":\"failed\",\"error\":{\"code\":" \
    "\"http_404\","                                                                                       \
    "\"detail\":\"gone\"}}]}}"
#define RESULT_42                                                                                         \
    "{\"id\":\"r_1\",\"data\":{\"client\":\"42\",\"item\":\"ad-1\",\"status\":\"partial\",\"photos\":["   \
    "{\"url\":\"http://h/1.jpg\",\"outcome\":\"stored\",\"sha256\":\"ab\",\"attempts\":1},"               \
    "{\"url\":\"http://h/2.jpg\",\"outcome\":\"failed\",\"attempts\":2,\"error\":{\"code\":\"http_404\"," \
    "\"detail\":\"gone\"}}]}}"
#define CLIENT                                                                                            \
    "{\"client\":\"42\",\"rpm\":600,\"concurrency\":16,\"weight\":1,\"paused\":false,\"headers\":{\"A\":" \
    "\"b\"}}"

#define KNOWN_PHOTO                                                                                         \
    "{\"client\":\"42\",\"url\":\"http://h/1\",\"known\":null,\"ladder\":null,\"task\":null,\"attempts\":[" \
    "{\"at\":\"2026-11-20T10:00:01.000Z\",\"tier\":1.0,\"code\":\"first_byte_timeout\",\"ms\":1000,"        \
    "\"address\":\"2001:db8:1111:2222:3333:4444:5555:6666\",\"http_status\":null},"                         \
    "{\"at\":\"2026-11-20T10:00:12.000Z\",\"tier\":5.0,\"code\":null,\"ms\":2140,"                          \
    "\"address\":\"192.0.2.7\",\"http_status\":200}]}"
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

#define EVENT(seq)                                                                                  \
    "{\"seq\":" seq ",\"time\":\"2026-11-20T10:00:00.000Z\",\"key\":[\"results\",\"42\"],\"type\":" \
    "\"photopool.item.finished\",\"data\":" RESULT "}"
#define EVENTS(list, last, gap) "{\"events\":[" list "],\"last\":" last ",\"gap\":" gap "}"
#define WEBHOOK \
    "{\"name\":\"shop\",\"url\":\"http://h/\",\"clients\":null,\"paused\":false,\"disabled\":false}"

static const struct sample samples[] = {
    {"status of a batch, piped",
     pp_cmd_status,
     {"status", "b 1/ü"},
     {{200, NULL, BATCH}},
     .out = "{\"batch_id\":\"b_1\",\"client\":\"42\"",
     .request = {"GET /v1/batches/b%201%2F%C3%BC"}},
    {"status of a batch, on a terminal",
     pp_cmd_status,
     {"status", "b_1"},
     {{200, NULL, BATCH}},
     .width = TERMINAL,
     .out = "items   2: \033[32m1 complete\033[0m, \033[33m1 partial\033[0m\r\n"},
    {"JSON on a terminal",
     pp_cmd_status,
     {"status", "b_1", "--json"},
     {{200, NULL, BATCH}},
     .width = TERMINAL,
     .out = "{\"batch_id\":\"b_1\""},
    {"latest batches",
     pp_cmd_status,
     {"status", "--client", "42", "--state", "running"},
     {{200, NULL, "{\"batches\":[" BATCH "],\"next\":null}"}},
     .width = TERMINAL,
     .out = "b_1    42      -      \033[32mfinished\033[0m  2026-11-20 10:00:00    2/2     4/4    -  "
            "\033[31m1 http_404\033[0m\r\n",
     .request = {"GET /v1/batches?client=42&state=running&limit=20"}},
    {"batches with a label",
     pp_cmd_status,
     {"status", "--label", "monday import"},
     {{200, NULL,
       "{\"batches\":[{\"batch_id\":\"b_1\",\"client\":\"42\",\"label\":\"monday import\",\"state\":"
       "\"running\"}],\"next\":null}"}},
     .width = TERMINAL,
     .out = "b_1    42      monday import  ",
     .request = {"GET /v1/batches?label=monday%20import&limit=20"}},
    {"a batch that needs more than a terminal has: names and failures are whole",
     pp_cmd_status,
     {"status"},
     {{200, NULL, "{\"batches\":[" WIDE_BATCH "],\"next\":null}"}},
     .width = TERMINAL,
     .out = "b_1m7yvgzx84ds1s5ey5cgr  greengrocer  \033[32mfinished\033[0m  12,000/12,000    -  "
            "\033[31m1,590: 1,234 http_404 …\033[0m\r\n"},
    {"no batches",
     pp_cmd_status,
     {"status"},
     {{200, NULL, "{\"batches\":[]}"}},
     .width = TERMINAL,
     .out = "no batches\r\n"},
    {"more batches than wanted",
     pp_cmd_status,
     {"status", "--limit", "1"},
     {{200, NULL, "{\"batches\":[" BATCH "," BATCH "],\"next\":\"c\"}"}},
     .width = TERMINAL,
     .out = "there are more: --limit N\r\n",
     .request = {"GET /v1/batches?limit=1"}},
    {"followed until it is done",
     pp_cmd_status,
     {"status", "b_1", "--follow"},
     {{200, NULL, "{\"state\":\"running\",\"photos\":{\"total\":4,\"open\":4}}"},
      {503, NULL, ""},
      {200, NULL, BATCH},
      {200, NULL, BATCH}},
     .code = 3,
     .out = "{\"type\":\"progress\",\"batches\":1,\"finished\":1,",
     .request = {"GET /v1/batches/b_1", "GET /v1/batches/b_1", "GET /v1/batches/b_1", "GET /v1/batches/b_1"}},
    {"cancelled, and its items are not yet",
     pp_cmd_status,
     {"status", "b_1", "--follow"},
     {{200, NULL, "{\"state\":\"cancelled\",\"items\":{\"total\":4,\"open\":3}}"},
      {200, NULL, "{\"state\":\"cancelled\",\"items\":{\"total\":4,\"open\":0,\"cancelled\":4}}"},
      {200, NULL, BATCH}},
     .code = 3,
     .out = "{\"type\":\"progress\",\"batches\":1,\"finished\":1,",
     .request = {"GET /v1/batches/b_1", "GET /v1/batches/b_1", "GET /v1/batches/b_1"}},
    {"followed, but not there",
     pp_cmd_status,
     {"status", "b_1", "--follow"},
     {{404, NULL, PROBLEM "\"code\":\"not_found\",\"detail\":\"there is no batch b_1\"}"}},
     .code = 1,
     .err = "there is no batch b_1 (not_found, HTTP 404); check the id"},

    {"results, all pages, exactly",
     pp_cmd_results,
     {"results", "b_1", "--status", "partial", "--code", "http_404"},
     {{200, NULL, "{\"results\":[" RESULT "],\"next\":\"a&b\"}"}, {200, NULL, "{\"results\":[" RESULT "]}"}},
     .out = RESULT "\n" RESULT "\n",
     .request = {"GET /v1/batches/b_1/results?status=partial&code=http_404&limit=200",
                 "GET /v1/batches/b_1/results?status=partial&code=http_404&limit=200&after=a%26b"}},
    {"results on a terminal",
     pp_cmd_results,
     {"results", "b_1"},
     {{200, NULL,
       "{\"results\":[{\"data\":{\"item\":\"ad-1\",\"revision\":3,\"status\":\"partial\",\"photos\":[{"
       "\"sha256\":\"ab\"},"
       "{\"error\":{\"code\":\"http_404\",\"detail\":\"gone\"}}]}}],\"next\":null}"}},
     .width = TERMINAL,
     .out = "ad-1         3  \033[33mpartial\033[0m  1 of 2  \033[31mhttp_404: gone\033[0m\r\n"},
    {"second page fails",
     pp_cmd_results,
     {"results", "b_1"},
     {{200, NULL, "{\"results\":[1],\"next\":\"c\"}"},
      {500, NULL,
       PROBLEM "\"code\":\"internal\",\"detail\":\"oops\",\"incident\":\"i-7\",\"remedy\":\"Look there.\"}"}},
     .code = 1,
     .out = "1\n",
     .err = "photopool: oops (internal, HTTP 500, incident i-7); look there\n"},
    {"the server repeats a cursor",
     pp_cmd_results,
     {"results", "b_1"},
     {{200, NULL, "{\"results\":[1],\"next\":\"c\"}"}, {200, NULL, "{\"results\":[2],\"next\":\"c\"}"}},
     .code = 1,
     .out = "1\n2\n",
     .err = "gives a page of the list \"results\" again: it repeats the cursor \"c\"; is a photopool server "
            "there?\n",
     .request = {"GET /v1/batches/b_1/results?limit=200", "GET /v1/batches/b_1/results?limit=200&after=c"}},
    {"the server repeats two cursors in turn",
     pp_cmd_webhooks,
     {"webhooks", "list"},
     {{200, NULL, "{\"webhooks\":[],\"next\":\"a\"}"},
      {200, NULL, "{\"webhooks\":[],\"next\":\"b\"}"},
      {200, NULL, "{\"webhooks\":[],\"next\":\"a\"}"},
      {200, NULL, "{\"webhooks\":[],\"next\":\"b\"}"}},
     .code = 1,
     .err = "photopool: http://127.0.0.1:",
     .request = {"GET /v1/webhooks?limit=200", "GET /v1/webhooks?limit=200&after=a",
                 "GET /v1/webhooks?limit=200&after=b", "GET /v1/webhooks?limit=200&after=a"}},

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

    {"cancel",
     pp_cmd_cancel,
     {"cancel", "b_1"},
     {{200, NULL, BATCH}},
     .width = TERMINAL,
     .out = "b_1 is finished\r\nitems   2: ",
     .request = {"DELETE /v1/batches/b_1"}},
    {"cancel, piped", pp_cmd_cancel, {"cancel", "b_1"}, {{200, NULL, BATCH}}, .out = "{\"batch_id\":\"b_1\""},
    {"an item on a terminal",
     pp_cmd_item,
     {"item", "42", "ad 1/ü"},
     {{200, NULL, RESULT_42}},
     .width = TERMINAL,
     .out = "\033[31mfailed\033[0m       2  http_404: gone  http://h/2.jpg\r\n",
     .request = {"GET /v1/items/42/ad%201%2F%C3%BC"}},
    {"an open item",
     pp_cmd_item,
     {"item", "42", "ad-1", "--table"},
     {{200, NULL,
       "{\"item\":\"ad-1\",\"status\":\"open\",\"photos\":[{\"url\":\"http://h/1\",\"outcome\":\"open\","
       "\"waiting\":\"retry\",\"attempts\":1,\"last_error\":\"connect_refused\"}]}"}},
     .out = "open         1  retry, connect_refused  http://h/1\n"},
    {"an item, piped", pp_cmd_item, {"item", "42", "ad-1"}, {{200, NULL, RESULT_42}}, .out = RESULT_42 "\n"},
    {"which item", pp_cmd_item, {"item", "42"}, .code = 2, .err = "CLIENT or ITEM is missing"},
    {"items on a terminal",
     pp_cmd_items,
     {"items", "42", "--status", "open", "--prefix", "ad/", "--limit", "9"},
     {{200, NULL,
       "{\"items\":[{\"data\":{\"item\":\"ad-1\",\"revision\":3,\"status\":\"partial\",\"photos\":[]}},"
       "{\"item\":\"ad-2\",\"revision\":4,\"status\":\"open\",\"photos\":[{\"outcome\":\"open\","
       "\"waiting\":\"paused\"}]}],\"next\":null}"}},
     .width = TERMINAL,
     .out = "ad-2         4  open     0 of 1  waiting: paused\r\n",
     .request = {"GET /v1/items?client=42&status=open&q=ad%2F&limit=9"}},
    {"items, piped",
     pp_cmd_items,
     {"items", "42", "--code", "http_404"},
     {{200, NULL, "{\"items\":[],\"next\":\"c\"}"}, {200, NULL, "{\"items\":[" RESULT "],\"next\":null}"}},
     .out = RESULT "\n",
     .request = {"GET /v1/items?client=42&code=http_404&limit=200",
                 "GET /v1/items?client=42&code=http_404&limit=200&after=c"}},
    {"refresh",
     pp_cmd_refresh,
     {"refresh", "42", "ad 1"},
     {{202, NULL, "{\"batch_id\":\"b_7\"}"}},
     .width = TERMINAL,
     .out = "batch b_7\r\n",
     .request = {"POST /v1/items/42/ad%201/refresh"}},
    {"results by photo, as a table into a pipe",
     pp_cmd_results,
     {"results", "b_1", "--photos", "--table"},
     {{200, NULL, "{\"results\":[" RESULT_42 "],\"next\":null}"}},
     .out = "ITEM  OUTCOME  CODE      ASKED  URL\nad-1  failed   http_404  -      http://h/2.jpg\n"},
    {"a table and JSON",
     pp_cmd_results,
     {"results", "b_1", "--json", "--table"},
     .code = 2,
     .err = "--json and --table exclude each other"},
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
    {"a replay that leaves items out",
     pp_cmd_replay,
     {"replay", "b_1"},
     {{200, NULL, "{\"batch_id\":null,\"photos\":0,\"not_replayed\":{\"newer_revision\":2}}"}},
     .width = TERMINAL,
     .out = "0 photos to fetch again; 2 are left out, because a newer batch has sent the item again\r\n"},
    {"a webhook for which messages wait",
     pp_cmd_webhooks,
     {"webhooks", "remove", "shop"},
     {{409, NULL, PROBLEM "\"code\":\"undelivered\",\"detail\":\"4 messages wait\"}"}},
     .code = 1,
     .err =
         "4 messages wait (undelivered, HTTP 409); to drop them all the same: photopool webhooks remove NAME "
         "--force"},
    {"a webhook is removed by force",
     pp_cmd_webhooks,
     {"webhooks", "remove", "shop", "--force"},
     {{204, NULL, NULL}},
     .out = "{\"removed\":\"shop\"}\n",
     .request = {"DELETE /v1/webhooks/shop?force=true"}},
    {"follow a batch that does not exist",
     pp_cmd_status,
     {"status", "nosuch", "--follow"},
     {{404, NULL, PROBLEM "\"code\":\"not_found\",\"detail\":\"there is no batch\"}"}},
     .code = 1,
     .err =
         "photopool: there is no batch (not_found, HTTP 404); check the id, and whose key this is: others' "
         "things are not shown\n"},

    {"a photo on a terminal",
     pp_cmd_photo,
     {"photo", "--client", "42", "http://h/1"},
     {{200, NULL, KNOWN_PHOTO}},
     .width = 80,
     .out = "task    -\r\n",
     .request = {"GET /v1/photos?client=42&url=http%3A%2F%2Fh%2F1"}},
    {"the attempts of a photo",
     pp_cmd_photo,
     {"photo", "42", "http://h/1", "--table"},
     {{200, NULL, KNOWN_PHOTO}},
     .out = "2026-11-20 10:00:12     5  2140  ok                     200  192.0.2.7\n",
     .request = {"GET /v1/photos?client=42&url=http%3A%2F%2Fh%2F1"}},
    {"a photo, piped",
     pp_cmd_photo,
     {"photo", "42", "http://h/1"},
     {{200, NULL, KNOWN_PHOTO}},
     .out = "\"attempts\":[{"},
    {"a photo without attempts",
     pp_cmd_photo,
     {"photo", "42", "http://h/1", "--table"},
     {{200, NULL, "{\"client\":\"42\",\"attempts\":[]}"}},
     .out = "no attempts\n"},
    {"whose photo", pp_cmd_photo, {"photo", "http://h/1"}, .code = 2, .err = "--client is missing"},
    {"whose photo, twice",
     pp_cmd_photo,
     {"photo", "--client", "42", "43", "http://h/1"},
     .code = 2,
     .err = "named twice: --client 42 and 43"},
    {"explain",
     pp_cmd_explain,
     {"explain", "--client", "42", "http://h/a b&c"},
     {{200, NULL, "{\"would\":\"fetch\",\"why\":\"new\"}"}},
     .width = TERMINAL,
     .out = "would  fetch\r\nwhy    new\r\n",
     .request = {"GET /v1/explain?client=42&url=http%3A%2F%2Fh%2Fa%20b%26c"}},
    {"explain whose", pp_cmd_explain, {"explain", "http://h/"}, .code = 2, .err = "--client is missing"},
    {"drain one",
     pp_cmd_drain,
     {"drain", "w-1"},
     {{200, NULL, "{\"worker\":\"w-1\",\"draining\":true}"}},
     .out = "{\"worker\":\"w-1\",\"draining\":true}\n",
     .request = {"POST /v1/workers/drain"},
     .body = "{\"worker\":\"w-1\"}"},
    {"drain all", pp_cmd_drain, {"drain"}, {{202, NULL, "{}"}}, .out = "{}", .body = "{\"worker\":null}"},
    {"replay",
     pp_cmd_replay,
     {"replay", "b_1", "--code", "x", "--domain", "d", "--code", "y"},
     {{202, NULL, "{\"photos\":1200,\"batch_id\":\"b_2\"}"}},
     .width = TERMINAL,
     .out = "1,200 photos in batch b_2\r\n",
     .request = {"POST /v1/batches/b_1/replay"},
     .body = "{\"codes\":[\"x\",\"y\"],\"domains\":[\"d\"],\"dry_run\":false}"},
    {"replay, dry",
     pp_cmd_replay,
     {"replay", "b_1", "--dry-run"},
     {{200, NULL, "{\"photos\":1,\"batch_id\":null}"}},
     .width = TERMINAL,
     .out = "1 photo would be fetched again\r\n",
     .body = "{\"dry_run\":true}"},
    {"events, from now on, exactly; a lost answer is asked for again",
     pp_cmd_events,
     {"events", "--limit", "2"},
     {{200, NULL, EVENTS("", "7", "null")},
      {200, NULL, EVENTS(EVENT("8"), "8", "null")},
      {503, "Retry-After: 0\r\n", ""},
      {200, NULL, EVENTS(EVENT("9"), "9", "null")}},
     .out = EVENT("8") "\n" EVENT("9") "\n",
     .request = {"GET /v1/events?key=results&limit=2&wait=0",
                 "GET /v1/events?key=results&after=7&limit=2&wait=25",
                 "GET /v1/events?key=results&after=8&limit=1&wait=25",
                 "GET /v1/events?key=results&after=8&limit=1&wait=25"}},
    {"events on a terminal, after a gap, which comes first",
     pp_cmd_events,
     {"events", "--key", "results:42", "--key", "ops", "--after", "3", "--limit", "1"},
     {{200, NULL, EVENTS(EVENT("8"), "8", "{\"from\":4,\"to\":7}")}},
     .width = TERMINAL,
     .out = "\033[33mgap: the events from 4 to 7 are no longer kept; it goes on after them\033[0m\r\n"
            "\033[2m2026-11-20 10:00:00\033[0m        8  results:42  ad-1 r3  \033[33mpartial\033[0m  "
            "1 of 2 photos, http_404: gone\r\n",
     .request = {"GET /v1/events?key=results%3A42&key=ops&after=3&limit=1&wait=25"}},
    {"a gap, piped",
     pp_cmd_events,
     {"events", "--after", "0", "--limit", "1"},
     {{200, NULL, EVENTS("", "7", "{\"from\":1,\"to\":7}")}, {200, NULL, EVENTS(EVENT("8"), "8", "null")}},
     .out = "{\"gap\":{\"from\":1,\"to\":7}}\n" EVENT("8") "\n"},
    {"events of kinds that are not known yet",
     pp_cmd_events,
     {"events", "--after", "0", "--limit", "2"},
     {{200, NULL,
       EVENTS(
           "{\"seq\":1,\"key\":[\"ops\"],\"type\":\"photopool.client.changed\",\"data\":{\"client\":\"42\","
           "\"rpm\":600}},{}",
           "2", "null")}},
     .width = TERMINAL,
     .out = "        1  ops  client.changed  client 42, rpm 600\r\n"},
    {"a number that the server has not had",
     pp_cmd_events,
     {"events", "--after", "9"},
     {{400, NULL, PROBLEM "\"code\":\"bad_cursor\",\"detail\":\"no event has this number yet\"}"}},
     .code = 1,
     .err = "has not had an event 9 yet (bad_cursor): it is another server"},
    {"events of another server",
     pp_cmd_events,
     {"events"},
     {{200, NULL, "{\"batches\":[]}"}},
     .code = 1,
     .err = "holds no events that can be read; is a photopool server there?"},
    {"events of nobody", pp_cmd_events, {"events"}, {{0}}, .code = 4, .err = "can't reach http://127.0.0.1:"},
    {"after what",
     pp_cmd_events,
     {"events", "--after", "x"},
     .code = 2,
     .err = "--after takes a number from 0"},

    {"webhooks, piped",
     pp_cmd_webhooks,
     {"webhooks"},
     {{200, NULL, "{\"webhooks\":[" WEBHOOK "],\"next\":null}"}},
     .out = WEBHOOK "\n",
     .request = {"GET /v1/webhooks?limit=200"}},
    {"webhooks on a terminal",
     pp_cmd_webhooks,
     {"webhooks", "list"},
     {{200, NULL, "{\"webhooks\":[" WEBHOOK "],\"next\":null}"}},
     .width = TERMINAL,
     .out = "shop  \033[32mactive\033[0m  all      -        http://h/\r\n"},
    {"a new webhook",
     pp_cmd_webhooks,
     {"webhooks", "add", "s", "--url", "http://h/", "--client", "4", "--status", "failed", "--secret", "x"},
     {{404, NULL, PROBLEM "\"code\":\"not_found\",\"detail\":\"no\"}"}, {201, NULL, WEBHOOK}},
     .out = WEBHOOK "\n",
     .request = {"GET /v1/webhooks/s", "PUT /v1/webhooks/s"},
     .body = "{\"url\":\"http://h/\",\"secret\":\"x\",\"clients\":[\"4\"],\"statuses\":[\"failed\"]}"},
    {"a new webhook whose secret is made here",
     pp_cmd_webhooks,
     {"webhooks", "add", "shop", "--url", "http://h/"},
     {{404, NULL, ""}, {201, NULL, WEBHOOK}},
     .width = TERMINAL,
     .out = "\r\nThe receiver verifies signatures with the secret. It is shown this once: keep it now.\r\n"},
    {"a new webhook that is there already",
     pp_cmd_webhooks,
     {"webhooks", "add", "shop", "--url", "http://h/"},
     {{200, NULL, WEBHOOK}},
     .code = 1,
     .err = "there is a webhook shop already; change it with \"photopool webhooks set shop\""},
    {"a webhook is paused",
     pp_cmd_webhooks,
     {"webhooks", "pause", "shop"},
     {{200, NULL, WEBHOOK}, {200, NULL, WEBHOOK}},
     .out = WEBHOOK "\n",
     .body = "{\"url\":\"http://h/\",\"clients\":null,\"paused\":true}"},
    {"a webhook is removed",
     pp_cmd_webhooks,
     {"webhooks", "remove", "shop"},
     {{204, NULL, NULL}},
     .out = "{\"removed\":\"shop\"}\n",
     .request = {"DELETE /v1/webhooks/shop"}},
    {"a test that is not delivered",
     pp_cmd_webhooks,
     {"webhooks", "test", "shop"},
     {{200, NULL, "{\"delivered\":false,\"http_status\":500,\"ms\":1,\"error\":null}"}},
     .code = 1,
     .out = "{\"delivered\":false,",
     .request = {"POST /v1/webhooks/shop/test"}},
    {"deliveries",
     pp_cmd_webhooks,
     {"webhooks", "deliveries", "shop", "--status", "dead"},
     {{200, NULL, "{\"deliveries\":[{\"id\":\"r_1\",\"status\":\"dead\",\"attempts\":10}],\"next\":null}"}},
     .width = TERMINAL,
     .out = "r_1     -       \033[31mdead\033[0m          10  -             -                -  -\r\n",
     .request = {"GET /v1/webhooks/shop/deliveries?status=dead&limit=100"}},
    {"what is dead is sent again",
     pp_cmd_webhooks,
     {"webhooks", "replay", "shop"},
     {{202, NULL, "{\"messages\":3}"}},
     .out = "{\"messages\":3}\n",
     .request = {"POST /v1/webhooks/shop/replay"},
     .body = "{\"status\":\"dead\"}"},
    {"what finished then is sent again",
     pp_cmd_webhooks,
     {"webhooks", "replay", "shop", "--from", "2026-11-20T10:00:00Z"},
     {{202, NULL, "{\"messages\":3}"}},
     .out = "{\"messages\":3}\n",
     .body = "{\"from\":\"2026-11-20T10:00:00Z\"}"},
    {"what with webhooks",
     pp_cmd_webhooks,
     {"webhooks", "ad"},
     .code = 2,
     .err = "there is no action \"ad\""},
    {"where to",
     pp_cmd_webhooks,
     {"webhooks", "add", "x"},
     .code = 2,
     .err = "webhooks add: --url is missing"},
    {"two secrets",
     pp_cmd_webhooks,
     {"webhooks", "set", "x", "--secret", "a", "--new-secret"},
     .code = 2,
     .err = "there is one secret: --secret, --secret-file or --new-secret"},

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

static bool matches(const char *got, const char *want)
{
    return want ? strstr(got, want) != NULL : *got == 0;
}

static void check(const struct sample *c)
{
    const char *args[ARGS + 3];
    struct cli_run r;
    size_t n = 0, script = 0, requests = 0;
    while (script < 4 && (c->script[script].status || c->script[script].body))
        script++;
    while (requests < 4 && c->request[requests])
        requests++;
    struct fake_http *s = fake_http_open(c->script, script ? script : 1);
    args[n++] = c->args[0];
    if (c->command != pp_cmd_version) {
        args[n++] = "--server";
        args[n++] = fake_http_url(s);
    }
    for (size_t i = 1; c->args[i]; i++)
        args[n++] = c->args[i];
    args[n] = NULL;
    cli_run(&r, c->command, NULL, c->width, args);
    if (r.code != c->code || !matches(r.out, c->out) || !matches(r.err, c->err))
        fail_msg("%s: exit %d\n--- out:\n%s\n--- err:\n%s", c->name, r.code, r.out, r.err);
    if (requests && fake_http_count(s) != requests)
        fail_msg("%s: %zu requests", c->name, fake_http_count(s));
    for (size_t i = 0; i < requests; i++)
        if (!fake_http_was(s, i, c->request[i]))
            fail_msg("%s: %s", c->name, fake_http_request(s, i)->head);
    if (c->body)
        assert_string_equal(fake_http_request(s, fake_http_count(s) - 1)->body, c->body);
    cli_run_fini(&r);
    fake_http_close(s);
}

static void commands_print_what_the_server_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        check(&samples[i]);
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
               {"photo", pp_cmd_photo},     {"doctor", pp_cmd_doctor},   {"bench", pp_cmd_bench}};
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
