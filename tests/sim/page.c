/* page.c: draws processes and servers as lanes, one below the other, with time from left to right,
 * and calls as lines between lanes that end in a dot at the receiver.
 *
 * The picture is SVG that is stretched in the direction of time only; so texts are HTML above it,
 * at places in percent of its width. A bound on the number of calls keeps the page small. */
#include "page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "judge.h"

enum {
    CALLS_MAX = 4000,
    LINES_MAX = 1000,
    LANES_MAX = SIM_PROCESSES_MAX + 5,
    LANE_PX = 46,
    TOP_PX = 60,
    TICKS = 20
};

struct page {
    FILE *out;
    const struct sim_fleet *f;
    const struct sim_first *first;
    struct sim_about about;
    int64_t from_us, to_us;
    const char *lanes[LANES_MAX];
    size_t n_lanes;
    const struct sim_note **notes; /* those of the window, the oldest first */
    size_t n, room, calls, shown;
    const char *states[LANES_MAX]; /* while the states are drawn: each lane's, and since when */
    int64_t since_us[LANES_MAX];
};

static const char head[] =
    "<!DOCTYPE html>\n<meta charset=utf-8>\n<title>simulated fleet</title>\n<style>\n"
    "body{font:13px sans-serif;margin:12px;color:#222}\n"
    "#all{display:flex;border:1px solid #ccc}#names{position:relative;width:80px;flex:none;border-right:1px "
    "solid #ccc}\n"
    "#names b{position:absolute;left:6px}#scroll{overflow-x:auto;flex:1}#pane{position:relative;width:100%}\n"
    "#pane span{position:absolute;font-size:11px;white-space:nowrap;border-left:1px solid "
    "#999;padding-left:2px}\n"
    "#pane span.fault{color:#a50;border-color:#a50}#pane "
    "span.broken{color:#d00;border-color:#d00;font-weight:bold}\n"
    "svg{display:block;width:100%}line{vector-effect:non-scaling-stroke;stroke-width:1}\n"
    ".grid{stroke:#eee}.up{stroke:#7b7;stroke-width:5}.down{stroke:#c66;stroke-width:5;stroke-dasharray:2 "
    "3}\n"
    ".frozen{stroke:#58c;stroke-width:7}.draining{stroke:#db4;stroke-width:7}\n"
    ".call{stroke:#248}.answer{stroke:#274}.late{stroke:#c80}.lost{stroke:#d00;stroke-dasharray:4 3}\n"
    ".request{stroke:#849}.dot{stroke-width:5;stroke-linecap:round}.pale{opacity:.25}.bad{stroke:#d00}\n"
    ".fault{stroke:#a50;stroke-dasharray:3 3}.broken{stroke:#d00;stroke-width:2}\n"
    "g:hover line{opacity:1;stroke-width:3}pre{font-size:12px}\n</style>\n";

static const char legend[] =
    "<p>Zoom <input type=range min=0 max=10 step=.1 value=0 style=width:300px "
    "oninput=\"var s=document.getElementById('scroll'),m=(s.scrollLeft+s.clientWidth/2)/s.scrollWidth;"
    "document.getElementById('pane').style.width=Math.pow(2,this.value)*100+'%';"
    "s.scrollLeft=m*s.scrollWidth-s.clientWidth/2\"> &nbsp; "
    "lines end in a dot at the receiver: <span style=color:#248>call</span>, <span "
    "style=color:#274>answer</span>, "
    "<span style=color:#849>request at an origin</span>, <span style=color:#c80>late</span>, "
    "<span style=color:#d00>lost, refused or given up</span>. Lanes: green up, blue frozen, yellow draining, "
    "red down. Point at a line to read its note.</p>\n";

/* --- places --- */

static double x_of(const struct page *p, int64_t us)
{
    int64_t at = us < p->from_us ? p->from_us : us > p->to_us ? p->to_us : us;
    return (double)(at - p->from_us) / 1000;
}

static double percent(const struct page *p, int64_t us)
{
    return 100 * x_of(p, us) * 1000 / (double)(p->to_us - p->from_us);
}

static int y_of(size_t lane)
{
    return TOP_PX + (int)lane * LANE_PX;
}

/* Returns false if the name has no lane. */
static bool lane_of(const struct page *p, const char *name, size_t *lane)
{
    for (*lane = 0; *lane < p->n_lanes; ++*lane)
        if (strcmp(p->lanes[*lane], name) == 0)
            return true;
    return false;
}

static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else
            fputc(*text, out);
}

static void put_line(const struct page *p, const char *class, int64_t from_us, double y1, int64_t to_us,
                     double y2)
{
    fprintf(p->out, "<line class='%s' x1=%.3f y1=%.1f x2=%.3f y2=%.1f />", class, x_of(p, from_us), y1,
            x_of(p, to_us), y2);
}

static void put_dot(const struct page *p, const char *class, int64_t us, double y)
{
    char both[40];
    if (us < p->from_us || us > p->to_us)
        return;
    snprintf(both, sizeof both, "dot %s", class);
    put_line(p, both, us, y, us, y);
}

/* --- calls --- */

static int64_t end_of(const struct sim_note *note)
{
    int64_t end = note->ended_us != SIM_NOT_YET ? note->ended_us : note->arrived_us;
    if (note->arrived_us != SIM_NOT_YET && note->arrived_us > end)
        end = note->arrived_us;
    return end == SIM_NOT_YET ? note->at_us : end;
}

static void draw_way(const struct page *p, const struct sim_note *note, int from, int to)
{
    const char *class = note->late ? "late" : note->kind == SIM_NOTE_REQUEST ? "request" : "call";
    double middle = (from + to) / 2.0;

    if (note->arrived_us != SIM_NOT_YET) {
        put_line(p, class, note->at_us, from, note->arrived_us, to);
        put_dot(p, class, note->arrived_us, to);
    } else if (note->request_lost) {
        put_line(p, "lost", note->at_us, from, note->at_us, middle);
        put_dot(p, "bad", note->at_us, middle);
    }
    if (note->failed && note->ended_us != SIM_NOT_YET) {
        put_line(p, "lost", note->at_us, from, note->ended_us, from);
        put_dot(p, "bad", note->ended_us, from);
    } else if (note->arrived_us != SIM_NOT_YET && note->ended_us != SIM_NOT_YET) {
        put_line(p, note->kind == SIM_NOTE_REQUEST ? "request" : "answer",
                 note->kind == SIM_NOTE_REQUEST ? note->ended_us : note->arrived_us, to, note->ended_us,
                 from);
        put_dot(p, "answer", note->ended_us, from);
    }
    if (note->answer_lost && note->arrived_us != SIM_NOT_YET) {
        put_line(p, "lost", note->arrived_us, to, note->arrived_us, middle);
        put_dot(p, "bad", note->arrived_us, middle);
    }
}

static void draw_call(const struct page *p, const struct sim_note *note)
{
    struct pp_buf text;
    size_t from, to;

    if (!lane_of(p, note->from, &from) || !lane_of(p, note->to, &to))
        return;
    fprintf(p->out, "<g%s><title>", sim_note_concerns(note, &p->about) ? "" : " class=pale");
    pp_buf_init(&text, 4096);
    sim_note_print(note, &text);
    put_escaped(p->out, text.p ? text.p : "");
    pp_buf_fini(&text);
    fputs("</title>", p->out);
    draw_way(p, note, y_of(from), y_of(to));
    fputs("</g>\n", p->out);
}

static bool is_call(const struct sim_note *note)
{
    return note->kind < SIM_NOTE_STATE;
}

static bool matters(const struct page *p, const struct sim_note *note)
{
    return note->failed || note->late || note->request_lost || note->answer_lost ||
           sim_note_concerns(note, &p->about);
}

/* Draws the calls that matter first, then others, each from the end; at most CALLS_MAX. */
static void draw_calls(struct page *p)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = p->n; i > 0 && p->shown < CALLS_MAX; i--)
            if (is_call(p->notes[i - 1]) && matters(p, p->notes[i - 1]) == (pass == 0)) {
                draw_call(p, p->notes[i - 1]);
                p->shown++;
            }
}

/* --- lanes --- */

static void draw_state(struct page *p, size_t lane, const char *next, int64_t us)
{
    if (us >= p->from_us && p->states[lane])
        put_line(p, p->states[lane], p->since_us[lane], y_of(lane), us, y_of(lane));
    p->states[lane] = next;
    p->since_us[lane] = us;
}

static void each_state(void *data, const struct sim_note *note)
{
    struct page *p = data;
    size_t lane;

    if (note->kind == SIM_NOTE_STATE && note->at_us <= p->to_us && lane_of(p, note->from, &lane))
        draw_state(p, lane, note->what, note->at_us);
}

static void draw_lanes(struct page *p)
{
    for (size_t i = 0; i < p->n_lanes; i++) {
        p->states[i] = "up";
        p->since_us[i] = 0;
    }
    for (int i = 0; i <= TICKS; i++) {
        int64_t us = p->from_us + (p->to_us - p->from_us) * i / TICKS;
        put_line(p, "grid", us, 0, us, y_of(p->n_lanes));
    }
    sim_trace_each(p->f->trace, each_state, p);
    for (size_t i = 0; i < p->n_lanes; i++)
        draw_state(p, i, NULL, p->to_us);
    fputs("\n", p->out);
}

/* Draws faults and violations: lines through the lane they concern, or through all. */
static void draw_marks(const struct page *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct sim_note *note = p->notes[i];
        size_t lane;
        if (note->kind != SIM_NOTE_FAULT && note->kind != SIM_NOTE_BROKEN)
            continue;
        bool one = lane_of(p, note->from, &lane);
        put_line(p, note->kind == SIM_NOTE_FAULT ? "fault" : "broken", note->at_us,
                 one ? y_of(lane) - 20 : 30, note->at_us, one ? y_of(lane) + 20 : y_of(p->n_lanes));
    }
}

static void put_labels(const struct page *p)
{
    for (int i = 0; i < TICKS; i++) {
        int64_t us = p->from_us + (p->to_us - p->from_us) * i / TICKS;
        fprintf(p->out, "<span style='left:%.4f%%;top:0'>%.3f s</span>\n", percent(p, us), (double)us / 1e6);
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct sim_note *note = p->notes[i];
        size_t lane;
        if (note->kind == SIM_NOTE_FAULT || note->kind == SIM_NOTE_BROKEN)
            fprintf(p->out, "<span class=%s style='left:%.4f%%;top:%dpx'>%s</span>\n",
                    note->kind == SIM_NOTE_FAULT ? "fault" : "broken", percent(p, note->at_us),
                    lane_of(p, note->from, &lane)  ? y_of(lane) - 22
                    : note->kind == SIM_NOTE_FAULT ? 16
                                                   : 30,
                    note->what);
    }
}

/* --- the page --- */

static void each_note(void *data, const struct sim_note *note)
{
    struct page *p = data;

    if (note->at_us > p->to_us || end_of(note) < p->from_us)
        return;
    if (p->n == p->room) {
        p->room = p->room ? 2 * p->room : 1024;
        p->notes = realloc(p->notes, p->room * sizeof p->notes[0]);
        pp_assert(p->notes, "the simulator needs memory");
    }
    p->notes[p->n++] = note;
    p->calls += is_call(note);
}

static void add_lanes(struct page *p)
{
    p->lanes[p->n_lanes++] = "callers";
    for (size_t i = 0; i < p->f->n_nodes; i++)
        p->lanes[p->n_lanes++] = p->f->nodes[i].name;
    p->lanes[p->n_lanes++] = "store";
    p->lanes[p->n_lanes++] = "redis";
    p->lanes[p->n_lanes++] = "broker";
    p->lanes[p->n_lanes++] = "origins";
    pp_assert(p->n_lanes <= LANES_MAX, "too many lanes");
}

static void put_title(const struct page *p)
{
    const struct sim_first *first = p->first;

    fprintf(p->out, "<h3>seed %llu, %.3f s to %.3f s", (unsigned long long)p->f->swarm.seed,
            (double)p->from_us / 1e6, (double)p->to_us / 1e6);
    if (first->rule[0])
        fprintf(p->out, ": %s is broken at %.3f s%s%s%s%s", first->rule, (double)first->at_us / 1e6,
                first->client[0] ? ", client " : "", first->client, first->batch[0] ? ", batch " : "",
                first->batch);
    fputs("</h3>\n<p>", p->out);
    sim_swarm_print(&p->f->swarm, NULL, p->out);
    fputs("</p>\n", p->out);
}

static void put_text(const struct page *p)
{
    struct pp_buf text;
    size_t lines = 0;

    pp_buf_init(&text, 4 << 20);
    for (size_t i = p->n; i > 0 && lines < LINES_MAX; i--)
        if (matters(p, p->notes[i - 1])) {
            sim_note_print(p->notes[i - 1], &text);
            lines++;
        }
    fprintf(
        p->out,
        "<p>%zu of %zu calls are drawn. The last %zu notes of those concerned, the newest first:</p>\n<pre>",
        p->shown, p->calls, lines);
    put_escaped(p->out, text.p ? text.p : "");
    fputs("</pre>\n", p->out);
    pp_buf_fini(&text);
}

void sim_page_write(const struct sim_fleet *f, const char *file, int64_t from_ms, int64_t to_ms)
{
    const struct sim_first *first = sim_judge_first(f->judge);
    struct page p = {.f = f, .first = first, .from_us = from_ms * 1000, .to_us = to_ms * 1000};

    pp_assert(from_ms < to_ms, "a page without time");
    p.about = (struct sim_about){.client = first->client[0] ? first->client : NULL,
                                 .batch = first->batch[0] ? first->batch : NULL,
                                 .process = first->process[0] ? first->process : NULL};
    if (!(p.out = fopen(file, "w"))) {
        fprintf(stderr, "sim: %s: %s\n", file, strerror(errno));
        exit(2);
    }
    add_lanes(&p);
    sim_trace_each(f->trace, each_note, &p);
    fputs(head, p.out);
    put_title(&p);
    fputs(legend, p.out);
    fputs("<div id=all><div id=names>", p.out);
    for (size_t i = 0; i < p.n_lanes; i++)
        fprintf(p.out, "<b style='top:%dpx'>%s</b>", y_of(i) - 8, p.lanes[i]);
    fprintf(p.out,
            "</div><div id=scroll><div id=pane>\n<svg height=%d viewBox='0 0 %.3f %d' "
            "preserveAspectRatio=none>\n",
            y_of(p.n_lanes), (double)(to_ms - from_ms), y_of(p.n_lanes));
    draw_lanes(&p);
    draw_calls(&p);
    draw_marks(&p);
    fputs("</svg>\n", p.out);
    put_labels(&p);
    fputs("</div></div></div>\n", p.out);
    put_text(&p);
    if (fclose(p.out) != 0)
        fprintf(stderr, "sim: %s: %s\n", file, strerror(errno));
    free(p.notes);
}
