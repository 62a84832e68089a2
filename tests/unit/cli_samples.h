/* cli_samples.h: subcommands with the scripted answers of their server, and what they must
 * request, print and return. */
#ifndef PP_TEST_CLI_SAMPLES_H
#define PP_TEST_CLI_SAMPLES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli_run.h"
#include "cmd.h"
#include "fake_http.h"

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
#define RESULT                                                                                            \
    "{\"id\":\"r_1\",\"data\":{\"item\":\"ad-1\",\"revision\":3,\"status\":\"partial\",\"n\":"            \
    "123456789012345678901234567890,"                                                                     \
    "\"photos\":[{\"outcome\":\"stored\",\"sha256\":\"ab\"},{\"outcome\":\"failed\",\"error\":{\"code\":" \
    "\"http_404\","                                                                                       \
    "\"detail\":\"gone\"}}]}}"

static inline bool matches(const char *got, const char *want)
{
    return want ? strstr(got, want) != NULL : *got == 0;
}

static inline void check(const struct sample *c)
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

/* Checks the samples of the array `samples`. */
#define CHECK_ALL(samples)                                               \
    do {                                                                 \
        for (size_t i = 0; i < sizeof(samples) / sizeof *(samples); i++) \
            check(&(samples)[i]);                                        \
    } while (0)

#endif
