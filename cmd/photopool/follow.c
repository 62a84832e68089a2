/* follow.c: asks for batches again and again until all are finished, and shows the progress
 * meanwhile. */
#include "follow.h"

#include "interrupt.h"
#include "show.h"

#include <stdlib.h>
#include <string.h>

enum { SLOW_MS = 1000, QUICK_MS = 150, QUICK_FOR_MS = 2000, STATUS_BYTES = 16 * 1024 };

struct follow {
    struct pp_cli *cli;
    char *const *ids;
    /* `n` batches are followed; the next round begins with the batch at index `next` */
    size_t n, next;
    json_t **known; /* the last answer for each batch; NULL: none yet */
    int64_t began_ms, heard_ms, said_ms;
    char why[256]; /* why the last request failed; "": it succeeded */
    char *said;    /* the last line of JSON that was printed */
};

void pp_status_line(const struct pp_term *t, struct pp_buf *line)
{
    if (t->tty && line->p)
        fprintf(t->f, "\r\033[K%s", line->p);
    fflush(t->f);
    pp_buf_fini(line);
}

void pp_status_clear(const struct pp_term *t)
{
    if (t->tty)
        fputs("\r\033[K", t->f);
    fflush(t->f);
}

/* Asks for one batch. Returns PP_EXIT_DONE even if the server did not answer: f->why then says so,
 * and the next round asks again. */
static int ask_one(struct follow *f, size_t i)
{
    struct pp_buf path;
    struct pp_answer ans;
    pp_path_part(pp_path(&path, "/v1/batches"), f->ids[i]);
    struct pp_request req = {.method = "GET", .path = &path};
    enum pp_err err = pp_client_send(f->cli->client, &req, &ans);
    int64_t now = pp_monotonic_ms();
    bool later =
        err == PP_EIO || err == PP_ETIMEOUT || (err == PP_OK && ans.status >= 500) || ans.status == 429;
    int code = PP_EXIT_DONE;
    if (err == PP_OK && ans.status == 200) {
        json_decref(f->known[i]);
        f->known[i] = pp_answer_json(&ans, 0);
        f->heard_ms = now;
        f->why[0] = 0;
        if (!json_is_object(f->known[i])) {
            pp_status_clear(&f->cli->out);
            pp_complain("the answer about batch %s can't be read; is a photopool server there?", f->ids[i]);
            code = PP_EXIT_FAILED;
        }
    } else if (err != PP_ECANCELED && (!later || now - f->heard_ms > PP_FOLLOW_PATIENCE_S * 1000)) {
        pp_status_clear(&f->cli->out);
        code = pp_client_failed(f->cli->client, err, &ans);
    } else if (later) {
        snprintf(f->why, sizeof f->why, "%s", err == PP_OK ? "the server is overloaded" : ans.why);
    }
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    return code;
}

static int ask(struct follow *f)
{
    int code = PP_EXIT_DONE;
    size_t asked = 0, i = f->next;
    for (size_t seen = 0; seen < f->n && asked < PP_FOLLOW_ASK && code == PP_EXIT_DONE; seen++) {
        if (!pp_batch_done(f->known[i])) {
            code = ask_one(f, i);
            asked++;
        }
        i = (i + 1) % f->n;
    }
    f->next = i;
    return code;
}

static void sum(const struct follow *f, struct pp_tally *p)
{
    pp_tally_fini(p);
    for (size_t i = 0; i < f->n; i++)
        pp_tally_add(p, f->known[i]);
}

/* Prints a line of JSON if something has changed, at most once a second. */
static void show_json(struct follow *f, const struct pp_tally *p)
{
    int64_t now = pp_monotonic_ms();
    if (*f->why || (now - f->said_ms < SLOW_MS && !pp_tally_done(p)))
        return;
    json_t *o = pp_tally_json(p, "progress");
    char *line = o ? json_dumps(o, PP_JSON_LINE) : NULL;
    json_decref(o);
    if (line && f->said && strcmp(line, f->said) == 0) {
        free(line);
        return;
    }
    if (line)
        puts(line);
    fflush(stdout);
    free(f->said);
    f->said = line;
    f->said_ms = now;
}

static void show_bar(struct follow *f, const struct pp_tally *p)
{
    const struct pp_term *t = &f->cli->out;
    struct pp_buf line, text;
    pp_buf_init(&line, STATUS_BYTES);
    pp_buf_init(&text, STATUS_BYTES);
    if (*f->why) {
        pp_buf_puts(&text, "no answer, trying again: ");
        pp_put_clean(&text, f->why);
        pp_put_fit(&line, text.p ? text.p : "", pp_term_width(t) - 1);
    } else {
        pp_tally_bar(&line, p, pp_term_width(t) - 1, t->colour);
    }
    pp_status_line(t, &line);
    pp_buf_fini(&text);
}

static int64_t pause_ms(const struct follow *f, const struct pp_tally *p)
{
    bool near = p->eta_seconds >= 0 && p->eta_seconds < 3 && p->photos[0] > 0;
    return !*f->why && (near || pp_monotonic_ms() - f->began_ms < QUICK_FOR_MS) ? QUICK_MS : SLOW_MS;
}

static void say_how_to_go_on(const struct follow *f, const char *why)
{
    size_t open = 0;
    for (size_t i = 0; i < f->n && !open; i++)
        open = pp_batch_done(f->known[i]) ? 0 : i + 1;
    pp_complain("%s; the server goes on with the work: photopool status %s --follow", why,
                f->ids[open ? open - 1 : 0]);
}

static int loop(struct follow *f, struct pp_tally *p)
{
    for (;;) {
        int code = ask(f);
        sum(f, p);
        if (code != PP_EXIT_DONE && p->batches == 0)
            return code; /* no batch was ever seen, so there may be none */
        if (code != PP_EXIT_DONE) {
            say_how_to_go_on(f, "stopped following");
            return code;
        }
        (f->cli->json ? show_json : show_bar)(f, p);
        if (pp_tally_done(p))
            return PP_EXIT_DONE;
        if (pp_interrupt_wait(pause_ms(f, p))) {
            pp_status_clear(&f->cli->out);
            say_how_to_go_on(f, "interrupted");
            return PP_EXIT_FAILED;
        }
    }
}

int pp_follow(struct pp_cli *cli, char *const *ids, size_t n, struct pp_tally *out)
{
    struct follow f = {.cli = cli, .ids = ids, .n = n, .began_ms = pp_monotonic_ms()};
    struct pp_interrupt interrupt;
    *out = (struct pp_tally){0};
    int code = pp_client_open(cli);
    if (code != PP_EXIT_DONE)
        return code;
    f.heard_ms = f.began_ms;
    f.said_ms = f.began_ms - SLOW_MS;
    f.known = calloc(n ? n : 1, sizeof *f.known);
    if (!f.known) {
        pp_complain("out of memory");
        return PP_EXIT_FAILED;
    }
    pp_interrupt_on(&interrupt);
    code = n ? loop(&f, out) : PP_EXIT_DONE;
    pp_interrupt_off(&interrupt);
    if (code == PP_EXIT_DONE)
        pp_status_clear(&cli->out);
    for (size_t i = 0; i < n; i++)
        json_decref(f.known[i]);
    free(f.known);
    free(f.said);
    return code;
}
