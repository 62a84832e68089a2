/* cmd_doctor.c: `photopool doctor` checks everything that a server needs, with the configuration
 * that it would have, and shows for each check what it found and what to do. It asks no server of
 * photopool. */
#include "cli.h"
#include "doctor.h"
#include "show.h"

#include <curl/curl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "wire_parts.h"

static const char doctor_help[] =
    "Usage: photopool doctor [--data DIR] [--config FILE] [--set NAME=VALUE]...\n\n"
    "Checks what a server that is started here, with the same options, would need: configuration, keys,\n"
    "folders and their owners, disk space, descriptors, clock, stores, Redis, name service, address "
    "policy,\n"
    "and each receiver of results. Says what it found, and what to do. It changes nothing, and a server may\n"
    "run meanwhile. It waits at most about 5 s for each server that does not answer.\n\n"
    "  --data DIR        the data directory of the embedded stores\n"
    "  --config FILE     default ./photopool.yaml, then /etc/photopool/photopool.yaml\n"
    "  --set NAME=VALUE  as if it were in the file; wins over file and environment\n\n"
    "Piped, or with --json, each finding is a line of JSON: check, state (ok, warn, fail, skipped), found,\n"
    "remedy.\n\n"
    "Exit codes: 0 nothing fails, 1 something fails, 2 the configuration can't be read, or wrong usage.\n\n"
    "Examples:\n"
    "  photopool doctor --data /var/lib/photopool\n"
    "  photopool doctor --config fleet.yaml --json | jq 'select(.state != \"ok\")'\n";

/* The checks in their order: a later one may use what an earlier one has found. */
static void (*const checks[])(struct pp_doctor *d) = {
    pp_doctor_config,       pp_doctor_auth,     pp_doctor_data_dir, pp_doctor_listen,
    pp_doctor_disk,         pp_doctor_limits,   pp_doctor_sync,     pp_doctor_addresses,
    pp_doctor_certificates, pp_wire_look_store, pp_wire_look_redis, pp_wire_look_blobs,
    pp_wire_look_dns,       pp_wire_look_amqp,  pp_wire_look_kafka, pp_wire_look_webhooks};

static const char *const states[PP_DOCTOR_STATES] = {"ok", "warn", "fail", "skipped"};
static const enum pp_style styles[PP_DOCTOR_STATES] = {PP_GREEN, PP_YELLOW, PP_RED, PP_DIM};

/* --- showing findings --- */

enum { STATE_COLUMNS = 9, CHECK_COLUMNS = 17, INDENT = STATE_COLUMNS + CHECK_COLUMNS, TEXT_LEAST = 30 };

static void spaces(struct pp_buf *b, size_t n)
{
    pp_buf_printf(b, "%*s", (int)n, "");
}

/* Appends a text in lines of at most `width` columns, broken between words. The lines after the
 * first are indented. */
static void put_wrapped(struct pp_buf *b, const char *text, size_t width)
{
    size_t used = 0;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (used > 0 && used + 1 + n > width) {
            pp_buf_put(b, "\n", 1);
            spaces(b, INDENT);
            used = 0;
        }
        if (used > 0)
            pp_buf_put(b, " ", 1);
        pp_buf_put(b, text, n);
        used += (used > 0) + n;
        text += n;
        text += strspn(text, " ");
    }
    pp_buf_put(b, "\n", 1);
}

static void show_text(const struct pp_term *out, enum pp_doctor_state state, const char *check,
                      const char *found, const char *remedy)
{
    size_t width = pp_term_width(out), room = width > INDENT + TEXT_LEAST ? width - INDENT : TEXT_LEAST;
    struct pp_buf b;

    pp_buf_init(&b, 1 << 16);
    pp_put_styled(&b, out->colour, styles[state], states[state]);
    spaces(&b, STATE_COLUMNS - strlen(states[state]));
    pp_buf_printf(&b, "%-*s", CHECK_COLUMNS, check);
    put_wrapped(&b, found, room);
    if (remedy[0]) {
        spaces(&b, INDENT);
        put_wrapped(&b, remedy, room);
    }
    pp_term_put(out, &b);
}

static void show(void *data, const struct pp_finding *f)
{
    const struct pp_cli *cli = data;
    struct pp_buf found, remedy;

    pp_buf_init(&found, 1 << 14);
    pp_buf_init(&remedy, 1 << 14);
    pp_put_clean(&found, f->found);
    if (f->remedy[0] && !cli->json)
        pp_buf_puts(&remedy, "-> ");
    pp_put_clean(&remedy, f->remedy);
    if (cli->json)
        pp_print_json(json_pack("{s:s, s:s, s:s, s:s*}", "check", f->check, "state", states[f->state],
                                "found", found.p ? found.p : "", "remedy", remedy.p));
    else
        show_text(&cli->out, f->state, f->check, found.p ? found.p : "", remedy.p ? remedy.p : "");
    pp_buf_fini(&found);
    pp_buf_fini(&remedy);
    fflush(stdout);
}

/* --- running --- */

static int examine(struct pp_cli *cli, const struct pp_config *config)
{
    struct pp_doctor d = {.config = config, .fleet = pp_wire_is_fleet(config), .show = show, .data = cli};

    d.loop = pp_loop_open();
    if (!d.loop) {
        pp_complain("%s", pp_err_text(PP_ENOMEM));
        return PP_EXIT_FAILED;
    }
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        checks[i](&d);
    pp_loop_close(d.loop);
    pp_wire_end();
    curl_global_cleanup();
    if (!cli->json)
        printf("\n%u fail, %u warn\n", d.counts[PP_DOCTOR_FAIL], d.counts[PP_DOCTOR_WARN]);
    return pp_cli_end(d.counts[PP_DOCTOR_FAIL] > 0 ? PP_EXIT_FAILED : PP_EXIT_DONE);
}

int pp_cmd_doctor(int argc, char **argv)
{
    const struct pp_cli_spec spec = {.help = doctor_help, .args_text = "", .local = true};
    struct pp_config_sources sources;
    struct pp_config_error error;
    struct pp_config *config = NULL;
    struct pp_cli cli;

    if (pp_config_args_take(&sources, &argc, argv, &error) != PP_OK) {
        pp_complain("%s", error.text);
        return PP_EXIT_USAGE;
    }
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code == PP_CLI_GO && pp_config_load(&config, &sources, &error) != PP_OK) {
        pp_complain("%s", error.text);
        code = PP_EXIT_USAGE;
    }
    if (code == PP_CLI_GO)
        code = examine(&cli, config);
    pp_config_free(config);
    pp_config_args_fini(&sources);
    return code;
}
