/* cmd_limits.c: `photopool limits`, `pause` and `resume`: a client's settings. To change a setting,
 * the command reads all of them and writes them back with the change. */
#include "client.h"
#include "show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char limits_help[] =
    "Usage: photopool limits CLIENT [--rpm N|none] [--concurrency N] [--weight N]\n\n"
    "Shows a client's limits, or changes the given ones.\n\n"
    "  --rpm N|none      requests to its hosts in any 60 seconds; none: no limit\n"
    "  --concurrency N   requests at a time\n"
    "  --weight N        its share beside other clients when workers are busy\n\n"
    "Examples:\n"
    "  photopool limits 42\n"
    "  photopool limits 42 --rpm 1200 --concurrency 32\n"
    "  photopool limits 42 --rpm none\n";

static const char pause_help[] =
    "Usage: photopool pause CLIENT\n\n"
    "Starts no requests for this client until photopool resume. What is in flight "
    "ends; what is submitted waits.\n\n"
    "Examples:\n"
    "  photopool pause 42\n";

static const char resume_help[] = "Usage: photopool resume CLIENT\n\n"
                                  "Starts requests for this client again.\n\n"
                                  "Examples:\n"
                                  "  photopool resume 42\n";

/* The members that PUT accepts. */
static const char *const fields[] = {"rpm", "concurrency", "weight", "paused", "headers"};

static int apply(const struct pp_cli *cli, const json_t *changes)
{
    struct pp_api_client *c;
    struct pp_buf path;
    json_t *settings;
    int code = pp_client_open(&c, cli);
    if (code != PP_EXIT_DONE)
        return code;
    pp_path(&path, "/v1/clients");
    pp_path_part(&path, cli->args[0]);
    code = pp_client_change(c, path.p ? path.p : "/", fields, sizeof fields / sizeof *fields, changes,
                            &settings);
    if (code == PP_EXIT_DONE)
        pp_show_answer(cli, settings);
    pp_buf_fini(&path);
    pp_client_close(c);
    return code;
}

/* Parses "none" or a number. */
static bool set_rpm(json_t *changes, const char *text)
{
    char *end;
    if (strcmp(text, "none") == 0) {
        json_object_set_new(changes, "rpm", json_null());
        return true;
    }
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < 1)
        return false;
    json_object_set_new(changes, "rpm", json_integer(v));
    return true;
}

int pp_cmd_limits(int argc, char **argv)
{
    struct pp_cli cli;
    const char *rpm = NULL;
    int64_t concurrency = 0, weight = 0; /* the server checks the upper bounds */
    const struct pp_opt opts[] = {
        {"rpm", PP_OPT_TEXT, &rpm},
        {"concurrency", PP_OPT_COUNT, &concurrency, 1, INT32_MAX},
        {"weight", PP_OPT_COUNT, &weight, 1, INT32_MAX},
    };
    const struct pp_cli_spec spec = {limits_help, opts, sizeof opts / sizeof *opts, 1, 1, "CLIENT"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    json_t *changes = json_object();
    if (rpm && !set_rpm(changes, rpm))
        code = pp_cli_usage(&cli, "--rpm takes a number from 1, or none, not \"%s\"", rpm);
    if (concurrency)
        json_object_set_new(changes, "concurrency", json_integer(concurrency));
    if (weight)
        json_object_set_new(changes, "weight", json_integer(weight));
    if (code == PP_CLI_GO)
        code = apply(&cli, changes);
    json_decref(changes);
    return pp_cli_end(code);
}

static int set_paused(int argc, char **argv, const char *help, bool paused)
{
    struct pp_cli cli;
    const struct pp_cli_spec spec = {help, NULL, 0, 1, 1, "CLIENT"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    json_t *changes = json_pack("{s:b}", "paused", paused);
    code = apply(&cli, changes);
    json_decref(changes);
    return pp_cli_end(code);
}

int pp_cmd_pause(int argc, char **argv)
{
    return set_paused(argc, argv, pause_help, true);
}

int pp_cmd_resume(int argc, char **argv)
{
    return set_paused(argc, argv, resume_help, false);
}
