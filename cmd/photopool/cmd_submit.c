/* cmd_submit.c: `photopool submit`: sends a file of items to the server and, with --follow, shows
 * the progress of its batches and their results.
 *
 *   input_*.c reads the items, one line of JSON each -> sender.c sends them in batches, until
 *   answered -> the server's verdicts are shown -> follow.c waits for the batches */
#include "base/text.h"
#include "base/units.h"
#include "client.h"
#include "follow.h"
#include "input.h"
#include "photopool/task.h"
#include "sender.h"
#include "show.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: photopool submit FILE|- --client ID [OPTIONS]\n\n"
    "Sends the items of FILE (- is standard input) and lists the rejected ones.\n\n"
    "  --client ID           whose items these are; a JSON batch may name it itself\n"
    "  --refresh known|changed|always\n"
    "                        what to do about photos that are stored already: answer with what is known "
    "(the\n"
    "                        default), ask the host whether they changed, fetch them again\n"
    "  --max-age D           with known: ask about photos that were fetched longer ago, such as 30d\n"
    "  --label L             a name for the batches, up to 128 bytes, which status and the API show\n"
    "  --format auto|ndjson|json|csv|xml\n"
    "                        auto, the default, looks at the beginning of the file\n"
    "  --meta COLUMNS        which columns of a table go into an item's meta, such as price,title;\n"
    "                        none: no column (default: all but item and url)\n"
    "  --batch-size N        items in one request, 1 to 10000 (default 10000)\n"
    "  --idempotency-key K   the same key with the same file makes no second batch; also to go on with a\n"
    "                        sending that broke off\n"
    "  --retry-for SECONDS   how long a batch is tried that the server can't take or does not answer\n"
    "                        (default 120)\n"
    "  --follow              wait until every photo is done\n\n"
    "Formats, each also compressed by gzip:\n"
    "  NDJSON   {\"id\": \"ad-1\", \"photos\": [\"https://shop.example/1.jpg\"], \"meta\": {}}, an item per "
    "line\n"
    "  JSON     a list of such items, or a batch {\"client\": ..., \"items\": [...]}, also with\n"
    "           \"label\", \"refresh\" and \"max_age\" before the items\n"
    "  CSV      a header with the columns item and url, separated by commas, semicolons or tabs, and a\n"
    "           row for each photo, or for several: a URL after a blank, a comma, a semicolon or a bar.\n"
    "           The rows of an item may stand anywhere. A large file needs room for them in $TMPDIR.\n"
    "  XML      the feeds of Yandex Market (YML), Google Merchant (RSS, Atom) and Avito (Autoload)\n"
    "A row or an element that can't be read is listed as rejected, with the code unreadable; the rest\n"
    "is sent.\n\n"
    "Exit codes: 0 all accepted (with --follow: all complete), 3 some rejected (not all complete), 1 none\n"
    "accepted or failed, 2 wrong usage or file, 4 the server can't be reached.\n\n"
    "Examples:\n"
    "  photopool submit items.csv --client 42 --follow\n"
    "  photopool submit items.csv --client 42 --label \"monday import\" --max-age 30d\n"
    "  curl -s https://shop.example/yml.xml | photopool submit - --client 42 --refresh changed\n"
    "  photopool submit items.ndjson.gz --client 42\n"
    "  photopool submit batch.json --batch-size 1000 --json\n";

enum { LISTED = 20, RUN_KEY_MAX = 240, RUN_BYTES = 12 };

struct submit {
    struct pp_cli *cli;
    const char *name; /* name of the input file, for messages */
    struct {
        const char *client, *label, *refresh, *max_age, *format, *key, *meta;
        int64_t batch_size, retry_for_s;
        bool follow;
    } o; /* the options as given on the command line */
    /* the values that are sent to the server */
    char client[PP_CLIENT_MAX + 1], label[PP_LABEL_MAX + 1], refresh[16], max_age[32], key[RUN_KEY_MAX + 1];
    struct pp_sender sender;
    char **ids; /* ids of the batches that the server has accepted */
    size_t n_ids, cap_ids;
    struct pp_table rejected; /* the first LISTED rejected items, for the summary */
    size_t listed;
    int64_t unreadable; /* number of rows and elements that were left out */
    bool misused;       /* a usage message was printed */
};

/* --- callbacks for sender.c: the server's answers --- */

static void remember(struct submit *s, const char *id)
{
    if (s->n_ids == s->cap_ids) {
        size_t cap = s->cap_ids ? 2 * s->cap_ids : 16;
        char **p = realloc(s->ids, cap * sizeof *p);
        if (!p)
            return;
        s->ids = p;
        s->cap_ids = cap;
    }
    char *copy = strdup(id);
    if (copy)
        s->ids[s->n_ids++] = copy;
}

static void on_batch(void *arg, const char *id, int64_t accepted, int64_t rejected, bool replayed)
{
    struct submit *s = arg;
    if (id)
        remember(s, id);
    if (s->cli->json) {
        pp_print_json(json_pack("{s:s, s:s?, s:s, s:I, s:I, s:b}", "type", "batch", "batch_id", id, "client",
                                s->client, "accepted", (json_int_t)accepted, "rejected", (json_int_t)rejected,
                                "replayed", replayed));
        return;
    }
    struct pp_buf line;
    pp_buf_init(&line, 256);
    pp_buf_puts(&line, "submitted ");
    pp_put_count(&line, s->sender.accepted + s->sender.rejected);
    pp_buf_printf(&line, " items, %s", s->sender.rejected ? "" : "none rejected");
    if (s->sender.rejected) {
        pp_put_count(&line, s->sender.rejected);
        pp_buf_puts(&line, " rejected");
    }
    pp_status_line(&s->cli->out, &line);
}

static void on_rejected(void *arg, uint64_t line, const json_t *verdict)
{
    static const char *const fields[] = {"code", "field", "detail"};
    struct submit *s = arg;
    if (s->cli->json) {
        json_t *o = json_copy((json_t *)(uintptr_t)verdict);
        json_object_set_new(o, "type", json_string("rejected"));
        json_object_set_new(o, "line", line ? json_integer((json_int_t)line) : json_null());
        pp_print_json(o);
    } else if (s->listed < LISTED) {
        s->listed++;
        const json_t *id = json_object_get(verdict, "id");
        char *other = json_is_number(id) || json_is_boolean(id) ? json_dumps(id, JSON_ENCODE_ANY) : NULL;
        pp_table_printf(&s->rejected, "%" PRIu64, line);
        pp_table_cell(&s->rejected, PP_PLAIN, other ? other : json_string_value(id));
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            pp_table_cell(&s->rejected, i == 0 ? PP_RED : PP_PLAIN, pp_member(verdict, fields[i]));
        free(other);
    }
}

/* --- callbacks for input.c: what the file contains --- */

static enum pp_err misuse(struct submit *s)
{
    s->misused = true;
    return PP_ECANCELED;
}

static enum pp_err on_item(void *arg, const char *text, size_t n, uint64_t line)
{
    struct submit *s = arg;
    if (!*s->client) {
        pp_cli_usage(s->cli, "--client is missing: whose items are these?");
        return misuse(s);
    }
    return pp_sender_item(&s->sender, text, n, line);
}

/* Copies a value of the file to `given`, unless a command-line option has set `given` already.
 * Prints an error if the two values differ, because one of them is a mistake. */
static enum pp_err take_once(struct submit *s, const char *name, char *given, size_t cap, const char *value)
{
    if (!value || strlen(value) >= cap) {
        pp_complain("%s: \"%s\" is no text that is allowed there", s->name, name);
        return misuse(s);
    }
    if (*given && strcmp(given, value) != 0) {
        pp_complain("%s names %s \"%s\", the command line \"%s\"; take one of them away", s->name, name,
                    value, given);
        return misuse(s);
    }
    if (!*given && s->sender.n + (size_t)s->sender.accepted + (size_t)s->sender.rejected > 0) {
        pp_complain("%s names \"%s\" after \"items\"; give --%s, or put it before", s->name, name, name);
        return misuse(s);
    }
    snprintf(given, cap, "%s", value);
    return PP_OK;
}

static enum pp_err on_member(void *arg, const char *name, const char *value, size_t n)
{
    struct submit *s = arg;
    json_t *v = json_loadb(value, n, JSON_DECODE_ANY, NULL);
    enum pp_err err;
    if (strcmp(name, "client") == 0) {
        err = take_once(s, name, s->client, sizeof s->client, json_string_value(v));
    } else if (strcmp(name, "refresh") == 0) {
        err = take_once(s, name, s->refresh, sizeof s->refresh, json_string_value(v));
    } else if (strcmp(name, "label") == 0) {
        err = take_once(s, name, s->label, sizeof s->label, json_string_value(v));
    } else if (strcmp(name, "max_age") == 0) {
        err = take_once(s, name, s->max_age, sizeof s->max_age, json_string_value(v));
    } else {
        pp_complain("%s: a batch has client, label, refresh, max_age and items, not \"%s\"", s->name, name);
        err = misuse(s);
    }
    json_decref(v);
    return err;
}

static void on_broken(void *arg, uint64_t line, const char *why)
{
    struct submit *s = arg;
    json_t *verdict = json_pack("{s:n, s:s, s:n, s:s}", "id", "code", "unreadable", "field", "detail", why);
    s->unreadable++;
    on_rejected(s, line, verdict);
    json_decref(verdict);
}

/* --- after the last batch: following the batches, the summary --- */

static void put_human(struct submit *s)
{
    struct pp_buf b;
    int64_t accepted = s->sender.accepted, rejected = s->sender.rejected + s->unreadable;
    pp_buf_init(&b, 1024 * 1024);
    pp_status_clear(&s->cli->out);
    pp_put_count(&b, accepted);
    pp_buf_puts(&b, accepted == 1 ? " item accepted" : " items accepted");
    for (size_t i = 0; i < s->n_ids && i < LISTED; i++)
        pp_buf_printf(&b, "%s%s", i ? ", " : s->n_ids == 1 ? " in batch " : " in batches ", s->ids[i]);
    if (s->n_ids > LISTED)
        pp_buf_printf(&b, " and %zu more", s->n_ids - LISTED);
    pp_buf_putc(&b, '\n');
    if (rejected) {
        pp_put_count(&b, rejected);
        pp_buf_puts(&b, rejected == 1 ? " item rejected:\n" : " items rejected:\n");
        pp_table_render(&s->rejected, &b, pp_term_width(&s->cli->out), s->cli->out.colour);
    }
    if ((size_t)rejected > s->listed) {
        pp_buf_puts(&b, "and ");
        pp_put_count(&b, rejected - (int64_t)s->listed);
        pp_buf_puts(&b, " more\n");
    }
    pp_term_put(&s->cli->out, &b);
}

/* Prints the summary. p is NULL if the sending ended early or --follow was not given. */
static void put_summary(struct submit *s, const struct pp_tally *p)
{
    if (s->cli->json) {
        json_t *o = p ? pp_tally_json(p, "summary") : json_pack("{s:s}", "type", "summary");
        json_t *ids = json_array();
        for (size_t i = 0; i < s->n_ids; i++)
            json_array_append_new(ids, json_string(s->ids[i]));
        json_object_set_new(o, "batch_ids", ids);
        json_object_set_new(o, "accepted", json_integer((json_int_t)s->sender.accepted));
        json_object_set_new(o, "rejected", json_integer(s->sender.rejected + s->unreadable));
        pp_print_json(o);
    } else if (p) {
        struct pp_buf b;
        pp_buf_init(&b, 64 * 1024);
        pp_tally_summary(&b, p, s->cli->out.colour);
        pp_term_put(&s->cli->out, &b);
    }
}

/* Returns the exit code after the sending ended early. If the server has answered a batch, first
 * tells the user how to send the rest. */
static int broke_off(struct submit *s)
{
    if (s->misused && s->n_ids == 0)
        return PP_EXIT_USAGE;
    bool some = s->sender.accepted > 0;
    if (!s->misused && s->sender.answered)
        pp_complain("the file was sent in part: %" PRId64
                    " items are accepted; to go on, send the same file again "
                    "with --idempotency-key %s: what is there already is not taken twice",
                    s->sender.accepted, s->key);
    return some ? PP_EXIT_PARTLY : s->sender.code ? s->sender.code : PP_EXIT_FAILED;
}

static int accepted_all(struct submit *s)
{
    int64_t rejected = s->sender.rejected + s->unreadable;
    if (s->sender.accepted + rejected == 0) {
        pp_complain("%s has no items", s->name);
        return PP_EXIT_FAILED;
    }
    if (s->sender.accepted == 0)
        return PP_EXIT_FAILED;
    return rejected ? PP_EXIT_PARTLY : PP_EXIT_DONE;
}

static int conclude(struct submit *s, enum pp_err err)
{
    if (!s->cli->json && (s->sender.answered || s->unreadable))
        put_human(s);
    int code = err == PP_OK ? accepted_all(s) : broke_off(s);
    if (err != PP_OK || s->n_ids == 0 || !s->o.follow) {
        if (s->sender.answered || s->unreadable)
            put_summary(s, NULL);
        return code;
    }
    struct pp_tally p;
    int followed = pp_follow(s->cli, s->ids, s->n_ids, &p);
    if (followed != PP_EXIT_DONE)
        code = followed;
    else if (!pp_tally_complete(&p))
        code = PP_EXIT_PARTLY;
    if (followed == PP_EXIT_DONE)
        put_summary(s, &p);
    pp_tally_fini(&p);
    return code;
}

/* --- checking the options, and the start --- */

static int run(struct submit *s, int fd, const struct pp_input_format *format)
{
    char error[PP_INPUT_ERROR];
    const char *meta = s->o.meta && strcmp(s->o.meta, "none") == 0 ? "" : s->o.meta;
    struct pp_input_sink sink = {
        .item = on_item, .member = on_member, .broken = on_broken, .arg = s, .meta = meta};
    enum pp_err err = pp_input_read(fd, format, &sink, error);
    if (err == PP_OK)
        err = pp_sender_flush(&s->sender);
    if (err != PP_OK && err != PP_ECANCELED) {
        pp_status_clear(&s->cli->out);
        pp_complain("%s: %s", s->name, *error ? error : pp_err_text(err));
        if (err == PP_EINVAL)
            s->misused = true;
    }
    return conclude(s, err);
}

static int with_client(struct submit *s, int fd, const struct pp_input_format *format)
{
    static const struct pp_column columns[] = {{"LINE", .right = true},
                                               {"ITEM", .flexible = true},
                                               {"CODE"},
                                               {"FIELD"},
                                               {"DETAIL", .flexible = true}};
    int code = pp_client_open(s->cli);
    if (code != PP_EXIT_DONE)
        return code;
    s->sender = (struct pp_sender){.cli = s->cli,
                                   .on_batch = on_batch,
                                   .on_rejected = on_rejected,
                                   .arg = s,
                                   .client_id = s->client,
                                   .label = s->label,
                                   .refresh = s->refresh,
                                   .max_age = s->max_age,
                                   .key = s->key,
                                   .batch_size = (size_t)s->o.batch_size,
                                   .retry_for_ms = s->o.retry_for_s * 1000};
    pp_table_init(&s->rejected, columns, sizeof columns / sizeof *columns);
    if (pp_sender_init(&s->sender) == PP_OK) {
        code = run(s, fd, format);
    } else {
        pp_complain("out of memory");
        code = PP_EXIT_FAILED;
    }
    pp_sender_fini(&s->sender);
    pp_table_fini(&s->rejected);
    for (size_t i = 0; i < s->n_ids; i++)
        free(s->ids[i]);
    free(s->ids);
    return code;
}

/* Checks the options, copies the options that are sent to the server, and makes an Idempotency-Key
 * if none is given. */
static int check_options(struct submit *s)
{
    if (s->o.client && !pp_client_valid(s->o.client, strlen(s->o.client)))
        return pp_cli_usage(s->cli, "--client takes 1 to 64 of A-Z a-z 0-9 _ -, not \"%s\"", s->o.client);
    if (s->o.refresh && strcmp(s->o.refresh, "known") && strcmp(s->o.refresh, "changed") &&
        strcmp(s->o.refresh, "always"))
        return pp_cli_usage(s->cli, "--refresh takes known, changed or always, not \"%s\"", s->o.refresh);
    int64_t ms;
    if (s->o.label && !pp_label_valid(s->o.label, strlen(s->o.label)))
        return pp_cli_usage(s->cli, "--label takes 1 to %d bytes of UTF-8 without control characters",
                            PP_LABEL_MAX);
    if (s->o.max_age && (strlen(s->o.max_age) >= sizeof s->max_age || !pp_duration_parse(s->o.max_age, &ms)))
        return pp_cli_usage(s->cli, "--max-age takes a duration such as 30d, not \"%s\"", s->o.max_age);
    size_t n = s->o.key ? strlen(s->o.key) : 0;
    bool visible = !s->o.key || n > 0;
    for (size_t i = 0; i < n; i++)
        visible = visible && s->o.key[i] > ' ' && s->o.key[i] <= '~';
    if (!visible || n > RUN_KEY_MAX)
        return pp_cli_usage(s->cli, "--idempotency-key takes 1 to %d visible ASCII characters", RUN_KEY_MAX);
    snprintf(s->client, sizeof s->client, "%s", s->o.client ? s->o.client : "");
    snprintf(s->label, sizeof s->label, "%s", s->o.label ? s->o.label : "");
    snprintf(s->refresh, sizeof s->refresh, "%s", s->o.refresh ? s->o.refresh : "");
    snprintf(s->max_age, sizeof s->max_age, "%s", s->o.max_age ? s->o.max_age : "");
    if (s->o.key) {
        snprintf(s->key, sizeof s->key, "%s", s->o.key);
    } else {
        uint8_t random[RUN_BYTES];
        pp_random_bytes(random, sizeof random);
        memcpy(s->key, "run-", 4);
        pp_hex(s->key + 4, random, sizeof random);
    }
    return PP_EXIT_DONE;
}

static int submit(struct submit *s)
{
    const char *path = s->cli->args[0];
    const struct pp_input_format *format = NULL;
    int code = check_options(s);
    if (code != PP_EXIT_DONE)
        return code;
    if (s->o.format && strcmp(s->o.format, "auto") != 0 && !(format = pp_input_by_name(s->o.format)))
        return pp_cli_usage(s->cli, "--format takes auto, ndjson, json, csv or xml, not \"%s\"", s->o.format);
    bool from_stdin = strcmp(path, "-") == 0;
    s->name = from_stdin ? "standard input" : path;
    int fd = from_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        pp_complain("%s can't be opened: %s", path, strerror(errno));
        return PP_EXIT_USAGE;
    }
    code = with_client(s, fd, format);
    if (!from_stdin)
        close(fd);
    return pp_client_finish(s->cli, code);
}

int pp_cmd_submit(int argc, char **argv)
{
    struct pp_cli cli;
    struct submit s = {.cli = &cli, .o = {.batch_size = PP_SENDER_ITEMS, .retry_for_s = 120}};
    const struct pp_opt opts[] = {
        {"client", PP_OPT_TEXT, &s.o.client},
        {"label", PP_OPT_TEXT, &s.o.label},
        {"refresh", PP_OPT_TEXT, &s.o.refresh},
        {"max-age", PP_OPT_TEXT, &s.o.max_age},
        {"format", PP_OPT_TEXT, &s.o.format},
        {"meta", PP_OPT_TEXT, &s.o.meta},
        {"idempotency-key", PP_OPT_TEXT, &s.o.key},
        {"batch-size", PP_OPT_COUNT, &s.o.batch_size, 1, PP_SENDER_ITEMS},
        {"retry-for", PP_OPT_COUNT, &s.o.retry_for_s, 0, 86400},
        {"follow", PP_OPT_FLAG, &s.o.follow},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts,
                                     1,    1,    "FILE (or - for standard input)"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    return code == PP_CLI_GO ? submit(&s) : code;
}
