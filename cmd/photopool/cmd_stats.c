/* cmd_stats.c: `photopool stats`: what was done on each day, for a client, a host or all clients,
 * with a chart. */
#include "client.h"
#include "show.h"
#include "table.h"

#include <string.h>

#include "core/day.h"

static const char stats_help[] =
    "Usage: photopool stats [CLIENT] [--host HOST] [--from DAY] [--to DAY]\n\n"
    "Shows the photos of each day (UTC): of one client, of one host, or of all clients. A photo counts on\n"
    "the day on which its item finished. The numbers are at most 3 s behind the results.\n\n"
    "  --host HOST   the photos on this host, of all clients\n"
    "  --from DAY    the first day, such as 2026-11-01 (default: 30 days)\n"
    "  --to DAY      the last day (default: today)\n\n"
    "Piped, or with --json, each day is a line of JSON.\n\n"
    "Examples:\n"
    "  photopool stats\n"
    "  photopool stats 42 --from 2026-11-01\n"
    "  photopool stats --host shop.example --json | jq .errors\n";

enum { CHART_COLUMNS = 24 };

static const struct pp_column columns[] = {
    {.title = "day"},
    {.title = "requests", .right = true, .drop = 2},
    {.title = "bytes", .right = true, .drop = 1},
    {.title = "stored", .right = true},
    {.title = "unchanged", .right = true},
    {.title = "skipped", .right = true, .drop = 4},
    {.title = "failed", .right = true},
    {.title = "photos", .flexible = true, .keep = 8, .drop = 3},
};

static int64_t count(const json_t *day, const char *name)
{
    return json_integer_value(json_object_get(day, name));
}

static int64_t photos_of(const json_t *day)
{
    static const char *const outcomes[] = {"stored", "unchanged", "skipped", "failed", "cancelled"};
    int64_t n = 0;

    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++)
        n += count(day, outcomes[i]);
    return n;
}

/* Adds a bar whose length is n / most of the chart's width, in eighths of a character. */
static void add_bar(struct pp_table *t, int64_t n, int64_t most)
{
    static const char full[] = "█", *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    char bar[CHART_COLUMNS * 3 + 4] = "";
    size_t n_bar = 0;
    int length = most > 0 ? (int)((double)n / (double)most * CHART_COLUMNS * 8 + 0.5) : 0;

    if (n > 0 && most > 0 && length == 0)
        length = 1;
    for (int i = 0; i < length / 8; i++, n_bar += strlen(full))
        memcpy(bar + n_bar, full, sizeof full);
    snprintf(bar + n_bar, sizeof bar - n_bar, "%s", eighths[length % 8]);
    pp_table_cell(t, PP_GREEN, bar);
}

static void add_row(struct pp_table *t, const char *title, const json_t *day, int64_t most)
{
    int64_t failed = count(day, "failed");
    char text[32];

    pp_table_cell(t, PP_PLAIN, title);
    pp_table_count(t, count(day, "requests"));
    pp_table_count(t, count(day, "bytes"));
    pp_table_count(t, count(day, "stored"));
    pp_table_count(t, count(day, "unchanged"));
    pp_table_count(t, count(day, "skipped"));
    if (failed > 0) {
        snprintf(text, sizeof text, "%lld", (long long)failed);
        pp_table_cell(t, PP_RED, text);
    } else {
        pp_table_count(t, 0);
    }
    add_bar(t, photos_of(day), most);
}

/* Shows a table with a row for each day from the first to the last; the answer lacks days on which
 * nothing finished. */
static void show_days(const struct pp_cli *cli, const json_t *answer)
{
    const json_t *days = json_object_get(answer, "days"), *day;
    struct pp_table t;
    struct pp_buf b;
    char text[PP_DAY_TEXT_MAX];
    int32_t number, next = 0;
    int64_t most = 0;
    size_t i;

    pp_table_init(&t, columns, sizeof columns / sizeof *columns);
    json_array_foreach(days, i, day) most = photos_of(day) > most ? photos_of(day) : most;
    json_array_foreach(days, i, day)
    {
        const char *name = pp_member(day, "day");
        if (!name || !pp_day_parse(name, &number))
            continue;
        for (; i > 0 && next < number; next++) {
            pp_day_text(text, next);
            add_row(&t, text, NULL, most);
        }
        add_row(&t, name, day, most);
        next = number + 1;
    }
    add_row(&t, "total", json_object_get(answer, "total"), 0);
    pp_buf_init(&b, 1 << 20);
    pp_table_render(&t, &b, pp_term_width(&cli->out), cli->out.colour);
    pp_table_fini(&t);
    pp_term_put(&cli->out, &b);
}

static void print_days(const json_t *answer)
{
    json_t *day;
    size_t i;

    json_array_foreach(json_object_get(answer, "days"), i, day) pp_print_json(json_incref(day));
}

int pp_cmd_stats(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    json_t *answer;
    const char *host = NULL, *from = NULL, *to = NULL;
    const struct pp_opt opts[] = {
        {"host", PP_OPT_TEXT, &host}, {"from", PP_OPT_TEXT, &from}, {"to", PP_OPT_TEXT, &to}};
    const struct pp_cli_spec spec = {stats_help, opts, sizeof opts / sizeof *opts, 0, 1, ""};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (host && cli.n_args > 0)
        return pp_cli_usage(&cli, "give a client or --host, not both");
    pp_path(&path, host ? "/v1/hosts" : cli.n_args > 0 ? "/v1/clients" : "/v1");
    if (host || cli.n_args > 0)
        pp_path_part(&path, host ? host : cli.args[0]);
    pp_path_part(&path, "stats");
    pp_path_query(&path, "from", from);
    pp_path_query(&path, "to", to);
    code = pp_client_call(&cli, "GET", &path, NULL, &answer);
    if (answer && cli.json)
        print_days(answer);
    else if (answer)
        show_days(&cli, answer);
    json_decref(answer);
    return pp_client_finish(&cli, code);
}
