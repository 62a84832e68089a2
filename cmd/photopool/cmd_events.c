/* cmd_events.c: `photopool events`: follows numbered events by long-poll.
 *
 *   ask for the current number (wait=0)
 *   then repeat: ask for events after `after`, print them, set `after` to the last number
 *
 * The number of the last printed event is the only state. The next request names it even after a
 * lost connection or a day without the server, so no event is missed or printed twice. The server
 * reports events that it no longer has as a gap. */
#include "client.h"
#include "interrupt.h"
#include "json_split.h"
#include "tally.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAIT_S = 25,
    EVENTS_PAGE = 500,
    RECONNECT_FIRST_MS = 250,
    RECONNECT_MAX_MS = 15 * 1000,
    RECONNECT_AFTER_MAX_S = 60,
    EVENT_MAX = 64 * 1024 * 1024,
};

static const char help[] =
    "Usage: photopool events [--key K]... [--after N] [--limit N]\n\n"
    "Prints events as they happen, until Ctrl-C: on a terminal a line each, otherwise one JSON object per "
    "line.\n"
    "Continues without a gap after a lost connection or a restarted server. If the server no longer keeps\n"
    "the next events, prints the gap: {\"gap\": {\"from\", \"to\"}}.\n\n"
    "  --key K      what to follow; may be given several times (default results):\n"
    "                 results, results:CLIENT   items that finished\n"
    "                 batch:BATCH               progress of a batch, and its end\n"
    "                 ops                       what operators should know\n"
    "  --after N    from the event after number N; 0: from the oldest that is kept (default: from now on)\n"
    "  --limit N    ends after N events\n\n"
    "Examples:\n"
    "  photopool events\n"
    "  photopool events --key results:42 --key ops\n"
    "  photopool events --key batch:b_01JD3Z\n"
    "  photopool events --after 0 | jq -r 'select(.data.data.status == \"failed\") | .data.subject'\n"
    "  photopool events --after $(tail -1 seen.ndjson | jq .seq) >> seen.ndjson\n";

struct events {
    struct pp_cli *cli;
    const struct pp_cli_list *keys;
    uint64_t after;
    bool known;   /* `after` is known, from --after or from the server */
    bool heard;   /* the server has answered at least once */
    int64_t left; /* number of events still to be printed; negative: no limit */
    int tries;    /* number of failed tries since the last answer */
    bool tell;    /* messages about retries are shown, because standard error is a terminal */
    /* The number of the last event of the current answer, and its gap (events that are lost). */
    uint64_t last, gap_from, gap_to;
    bool has_last;
};

/* --- writing an event as one line for people --- */

enum { EVENT_LINE_MAX = 16 * 1024, SEQ_COLUMNS = 7, LEAST_COLUMNS = 12 };

/* The part of an event's line after time, number and key: a styled word, then a text that may be
 * cut. */
struct happening {
    /* `before` holds the styled word, `text` the text that may be cut */
    struct pp_buf before, text;
    const char *word;
};

static const char *member(const json_t *o, const char *name)
{
    const char *s = pp_member(o, name);
    return s ? s : "";
}

/* Appends "2026-11-20T10:00:00.000Z" as "2026-11-20 10:00:00". */
static void put_time(struct pp_buf *b, const char *time, bool colour)
{
    char text[20] = "-                  ";
    if (strlen(time) >= 19) {
        memcpy(text, time, 19);
        text[10] = ' ';
    }
    pp_put_styled(b, colour, PP_DIM, text);
}

/* Appends the key, such as "results:42". */
static void put_key(struct pp_buf *b, const json_t *key)
{
    size_t i;
    json_t *part;
    json_array_foreach(key, i, part)
    {
        pp_buf_puts(b, i ? ":" : "");
        pp_put_clean(b, json_string_value(part) ? json_string_value(part) : "?");
    }
}

/* Describes an item's result, such as "ad-1 r3", "partial", "2 of 3 photos, http_404: not
 * found". */
static void put_result(struct happening *h, const json_t *result)
{
    const json_t *data = json_object_get(result, "data"), *photos = json_object_get(data, "photos"), *error;
    size_t stored = pp_photos_stored(photos, &error);
    pp_put_clean(&h->before, member(data, "item"));
    pp_buf_printf(&h->before, " r%lld", (long long)json_number_value(json_object_get(data, "revision")));
    h->word = member(data, "status");
    pp_buf_printf(&h->text, "%zu of %zu photos", stored, json_array_size(photos));
    if (error) {
        pp_buf_puts(&h->text, ", ");
        pp_put_clean(&h->text, member(error, "code"));
        pp_buf_puts(&h->text, ": ");
        pp_put_clean(&h->text, member(error, "detail"));
    }
}

/* Describes a batch, such as "running", "12/400 items, 30/1,200 photos, 5 failed: ..., 85/s, eta
 * 3s". */
static void put_batch(struct happening *h, const json_t *batch)
{
    struct pp_tally p = {0};
    struct pp_buf failed;
    pp_buf_init(&failed, EVENT_LINE_MAX);
    pp_tally_add(&p, batch);
    h->word = member(batch, "state");
    pp_put_share(&h->text, p.items);
    pp_buf_puts(&h->text, " items, ");
    pp_put_share(&h->text, p.photos);
    pp_buf_puts(&h->text, " photos");
    if (!pp_tally_done(&p) && p.per_second > 0)
        pp_buf_printf(&h->text, ", %.3g/s", p.per_second);
    if (!pp_tally_done(&p) && p.eta_seconds >= 0) {
        pp_buf_puts(&h->text, ", eta ");
        pp_put_seconds(&h->text, (int64_t)(p.eta_seconds + 0.5));
    }
    pp_put_failed(&failed, &p);
    if (failed.n > 0)
        pp_buf_printf(&h->text, ", failed %s", failed.p);
    pp_buf_fini(&failed);
    pp_tally_fini(&p);
}

/* Describes an event of a type without a function here: "name value, name value". */
static void put_other(struct happening *h, const json_t *data)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)data, name, v)
    {
        char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        pp_buf_puts(&h->text, h->text.n ? ", " : "");
        pp_put_clean(&h->text, name);
        pp_buf_putc(&h->text, ' ');
        pp_put_clean(&h->text, text ? text : json_is_string(v) ? json_string_value(v) : "?");
        free(text);
    }
}

static const struct {
    const char *type;
    void (*put)(struct happening *h, const json_t *data);
} kinds[] = {
    {"photopool.item.finished", put_result},
    {"photopool.batch.progress", put_batch},
    {"photopool.batch.finished", put_batch},
};

static void put_happening(struct happening *h, const json_t *event)
{
    static const char ours[] = "photopool.";
    const char *type = member(event, "type");
    const json_t *data = json_object_get(event, "data");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].type, type) == 0) {
            kinds[i].put(h, data);
            return;
        }
    }
    h->word = strncmp(type, ours, sizeof ours - 1) == 0 ? type + sizeof ours - 1 : type;
    put_other(h, data);
}

static const char *text_of(const struct pp_buf *b)
{
    return b->p ? b->p : "";
}

/* Appends time, number, key, a text cut to `width` columns (but never below a few words), and a
 * line break. An event of an unknown type is shown as the names and values of its data, so a newer
 * server needs no change here. To show a type in its own way, add a function and a row to `kinds`.
 */
static void put_event(struct pp_buf *b, const json_t *event, size_t width, bool colour)
{
    struct happening h = {.word = ""};
    struct pp_buf head, word;
    pp_buf_init(&h.before, EVENT_LINE_MAX);
    pp_buf_init(&h.text, EVENT_LINE_MAX);
    pp_buf_init(&head, EVENT_LINE_MAX);
    pp_buf_init(&word, EVENT_LINE_MAX);
    put_happening(&h, event);
    pp_put_clean(&word, h.word);

    put_time(b, member(event, "time"), colour);
    pp_buf_printf(&head, "  %*lld  ", SEQ_COLUMNS,
                  (long long)json_number_value(json_object_get(event, "seq")));
    put_key(&head, json_object_get(event, "key"));
    pp_buf_puts(&head, "  ");
    if (h.before.n)
        pp_buf_printf(&head, "%s  ", h.before.p);
    size_t used = 19 + pp_columns(text_of(&head)) + pp_columns(text_of(&word)) + 2;
    pp_buf_puts(b, text_of(&head));
    pp_put_styled(b, colour, pp_style_of(h.word), text_of(&word));
    pp_buf_puts(b, "  ");
    pp_put_fit(b, text_of(&h.text), width > used + LEAST_COLUMNS ? width - used : LEAST_COLUMNS);
    pp_buf_putc(b, '\n');
    pp_buf_fini(&h.before);
    pp_buf_fini(&h.text);
    pp_buf_fini(&head);
    pp_buf_fini(&word);
}

/* --- reading an answer --- */

static uint64_t number(const json_t *v)
{
    json_int_t n = json_integer_value(v);
    return n > 0 ? (uint64_t)n : 0;
}

static enum pp_err take_member(void *arg, const char *name, const char *value, size_t n)
{
    struct events *e = arg;
    json_t *v = json_loadb(value, n, JSON_DECODE_ANY, NULL);
    if (strcmp(name, "last") == 0 && json_is_integer(v)) {
        e->last = number(v);
        e->has_last = true;
    } else if (strcmp(name, "gap") == 0 && json_is_object(v)) {
        e->gap_from = number(json_object_get(v, "from"));
        e->gap_to = number(json_object_get(v, "to"));
    }
    json_decref(v);
    return PP_OK;
}

static enum pp_err pass_over(void *arg, const char *text, size_t n, uint64_t line)
{
    (void)arg, (void)text, (void)n, (void)line;
    return PP_OK;
}

static enum pp_err print_event(void *arg, const char *text, size_t n, uint64_t line)
{
    struct events *e = arg;
    struct pp_buf b;
    (void)line;
    if (e->left == 0)
        return PP_OK;
    e->left -= e->left > 0;
    if (e->cli->json) {
        fwrite(text, 1, n, stdout);
        putchar('\n');
        return ferror(stdout) ? PP_EIO : PP_OK;
    }
    json_t *event = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    if (!event) /* an item's meta may contain integers that need more than 64 bits */
        event = json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    pp_buf_init(&b, 256 * 1024);
    put_event(&b, event, pp_term_width(&e->cli->out), e->cli->out.colour);
    pp_term_put(&e->cli->out, &b);
    json_decref(event);
    return PP_OK;
}

static void print_gap(const struct events *e)
{
    struct pp_buf b;
    char text[160];
    if (e->cli->json) {
        printf("{\"gap\":{\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}}\n", e->gap_from, e->gap_to);
        return;
    }
    snprintf(text, sizeof text,
             "gap: the events from %" PRIu64 " to %" PRIu64 " are no longer kept; it goes on after them",
             e->gap_from, e->gap_to);
    pp_buf_init(&b, 1024);
    pp_put_styled(&b, e->cli->out.colour, PP_YELLOW, text);
    pp_buf_putc(&b, '\n');
    pp_term_put(&e->cli->out, &b);
}

static enum pp_err split(struct events *e, const struct pp_answer *ans, const struct pp_json_split_ops *ops)
{
    bool found;
    enum pp_err err = pp_json_split_text(&ans->body, "events", EVENT_MAX, ops, e, &found);
    return err == PP_OK && !found ? PP_EINVAL : err;
}

/* Prints the gap and then the events of an answer. The answer names the gap last, but the lost
 * events are older than the events in it. */
static int take_answer(struct events *e, const struct pp_answer *ans)
{
    static const struct pp_json_split_ops about = {pass_over, take_member}, events = {print_event, NULL};
    e->gap_to = 0;
    e->has_last = false;
    enum pp_err err = split(e, ans, &about);
    if (err != PP_OK || !e->has_last) {
        pp_complain("the answer of %s holds no events that can be read; is a photopool server there?",
                    pp_client_base(e->cli->client));
        return PP_EXIT_FAILED;
    }
    if (e->gap_to > 0)
        print_gap(e);
    err = split(e, ans, &events);
    e->after = e->last;
    e->known = true;
    return fflush(stdout) == 0 && err == PP_OK ? PP_EXIT_DONE : pp_cli_end(PP_EXIT_FAILED);
}

/* --- sending a request --- */

static void put_path(const struct events *e, struct pp_buf *path)
{
    char text[24];
    pp_path(path, "/v1/events");
    for (size_t i = 0; i < e->keys->n; i++)
        pp_path_query(path, "key", e->keys->item[i]);
    snprintf(text, sizeof text, "%" PRIu64, e->after);
    pp_path_query(path, "after", e->known ? text : NULL);
    snprintf(text, sizeof text, "%" PRId64, e->left >= 0 && e->left < EVENTS_PAGE ? e->left : EVENTS_PAGE);
    pp_path_query(path, "limit", text);
    snprintf(text, sizeof text, "%d", e->known ? WAIT_S : 0);
    pp_path_query(path, "wait", text);
}

/* Returns true if the failure may be transient, so the command pauses and sends the request again.
 * A server that has never answered is probably not there, so there is no second try. */
static bool is_passing(const struct events *e, enum pp_err err, const struct pp_answer *ans)
{
    if (!e->heard)
        return false;
    return err == PP_EIO || err == PP_ETIMEOUT ||
           (err == PP_OK && (ans->status >= 500 || ans->status == 429));
}

/* Pauses before the next try. Returns false if the user has pressed Ctrl-C. */
static bool pause_before_retry(struct events *e, enum pp_err err, const struct pp_answer *ans)
{
    int64_t ms = RECONNECT_FIRST_MS;
    /* varies the pause, so that clients of one server do not come back at the same time */
    uint32_t random;
    for (int i = 0; i < e->tries && ms < RECONNECT_MAX_MS; i++)
        ms *= 2;
    ms = ms < RECONNECT_MAX_MS ? ms : RECONNECT_MAX_MS;
    if (ans->retry_after_s >= 0)
        ms =
            1000 * (ans->retry_after_s < RECONNECT_AFTER_MAX_S ? ans->retry_after_s : RECONNECT_AFTER_MAX_S) +
            RECONNECT_FIRST_MS;
    if (e->tries++ == 0 && e->tell)
        pp_complain("no answer from %s, trying again until it is back: %s", pp_client_base(e->cli->client),
                    err == PP_OK ? "it is overloaded, or stopping" : ans->why);
    pp_random_bytes(&random, sizeof random);
    return !pp_interrupt_wait(ms / 2 + ms / 2 * (random % 1000) / 1000);
}

static int refused(const struct events *e, enum pp_err err, const struct pp_answer *ans)
{
    if (err != PP_OK || ans->status != 400 || !pp_answer_has_code(ans, "bad_cursor"))
        return pp_client_failed(e->cli->client, err, ans);
    pp_complain(
        "%s has not had an event %" PRIu64 " yet (bad_cursor): it is another server than the number is "
        "from, or its data is new; begin anew with --after 0, from the oldest that it keeps, or without "
        "--after, from now on",
        pp_client_base(e->cli->client), e->after);
    return PP_EXIT_FAILED;
}

static void say_where_we_are(const struct events *e)
{
    if (e->tell && !e->heard)
        pp_complain("following %s from event %" PRIu64 " on; Ctrl-C ends it", pp_client_base(e->cli->client),
                    e->after + 1);
    else if (e->tell && e->tries > 0)
        pp_complain("%s is back; it goes on after event %" PRIu64, pp_client_base(e->cli->client), e->after);
}

/* Sends one request and prints the events of its answer. Sets *over to true when no more events are
 * to be printed. */
static int ask(struct events *e, bool *over)
{
    struct pp_buf path;
    struct pp_answer ans;
    int code = PP_EXIT_DONE;
    put_path(e, &path);
    struct pp_request req = {.method = "GET", .path = &path};
    enum pp_err err = pp_client_send(e->cli->client, &req, &ans);
    if (err == PP_ECANCELED) {
        *over = true;
    } else if (err == PP_OK && ans.status == 200) {
        bool known = e->known;
        if (known)
            say_where_we_are(e);
        code = take_answer(e, &ans);
        if (!known && code == PP_EXIT_DONE)
            say_where_we_are(e);
        e->heard = true;
        e->tries = 0;
    } else if (is_passing(e, err, &ans)) {
        *over = !pause_before_retry(e, err, &ans);
    } else {
        code = refused(e, err, &ans);
    }
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    *over |= code != PP_EXIT_DONE || e->left == 0;
    return code;
}

static int follow(struct events *e)
{
    struct pp_interrupt interrupt;
    bool over = false;
    int code = PP_EXIT_DONE;
    pp_interrupt_on(&interrupt);
    while (!over)
        code = ask(e, &over);
    if (pp_interrupt_pending()) /* Ctrl-C is the usual end */
        pp_interrupt_wait(0);
    pp_interrupt_off(&interrupt);
    return code;
}

int pp_cmd_events(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_cli_list keys = {.n = 0};
    int64_t after = -1, limit = -1;
    const struct pp_opt opts[] = {
        {"key", PP_OPT_LIST, &keys},
        {"after", PP_OPT_COUNT, &after, 0, (INT64_C(1) << 53) - 1},
        {"limit", PP_OPT_COUNT, &limit, 1, INT64_MAX},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 0, 0, ""};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (keys.n == 0)
        keys.item[keys.n++] = "results";
    struct events e = {.cli = &cli, .keys = &keys, .known = after >= 0, .left = limit};
    e.after = e.known ? (uint64_t)after : 0;
    e.tell = isatty(STDERR_FILENO);
    code = pp_client_open(&cli);
    return code == PP_EXIT_DONE ? pp_client_finish(&cli, follow(&e)) : code;
}
