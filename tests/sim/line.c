/* line.c: carries calls between processes and servers, with delays and losses. */
#include "line.h"

#include <stdlib.h>

#include "base/check.h"

enum { STALE_MS = 15000 }; /* after the caller has given up, a request takes up to this time more */

/* A call on its way. It is freed when the caller has its answer and no event is scheduled. */
struct flight {
    struct pp_memory_call *call;
    struct sim_line *line;
    struct pp_sim_event arrival; /* of the world: the request reaches the server */
    struct pp_sim_event answer;  /* of the process: the answer reaches the caller */
    struct pp_sim_event give_up; /* of the process: the caller's patience ends */
    bool lost, answer_lost;      /* the request never arrives; its answer does not */
    bool ended;                  /* the caller has been answered */
    bool stale;                  /* it arrives after the caller has given up */
    uint64_t note;               /* number of the call's note */
};

static bool one_of(const struct sim_weather *w, unsigned of_10000)
{
    return of_10000 > 0 && pp_rng_below(pp_sim_rng(w->world), 10000) < of_10000;
}

/* Draws a time below `ms`, in us. */
static int64_t below_us(const struct sim_weather *w, int64_t ms)
{
    return (int64_t)pp_rng_below(pp_sim_rng(w->world), (uint64_t)ms * 1000);
}

static int64_t way_us(const struct sim_weather *w)
{
    return w->way_us +
           (w->jitter_us > 0 ? (int64_t)pp_rng_below(pp_sim_rng(w->world), (uint64_t)w->jitter_us) : 0);
}

static void end_flight(struct flight *f, enum pp_err err)
{
    bool gone, waits = pp_sim_event_pending(&f->arrival);
    struct pp_memory_call *call = f->call;

    f->ended = true;
    f->line->in_flight--;
    sim_trace_ended(f->line->weather->trace, f->note, err == PP_OK ? call->err : err);
    pp_sim_event_cancel(&f->answer);
    pp_sim_event_cancel(&f->give_up);
    if (waits && !call->op->copy) { /* A read that nobody waits for need not arrive. */
        pp_sim_event_cancel(&f->arrival);
        waits = false;
    }
    bool ran = call->ran;
    if (!waits)
        free(f);
    pp_memory_end(call, err, &gone);
    if (!gone && !ran && !waits)
        pp_memory_drop(call);
}

static void on_answer(void *data)
{
    end_flight(data, PP_OK);
}

static void on_give_up(void *data)
{
    end_flight(data, PP_EUNKNOWN);
}

static void on_refused(void *data)
{
    end_flight(data, PP_EIO);
}

static void on_arrival(void *data)
{
    struct flight *f = data;
    struct sim_weather *w = f->line->weather;
    bool ended = f->ended;

    if (w->down || f->line->cut) { /* The caller notices by its patience. */
        w->faults++;
        if (ended) {
            pp_memory_drop(f->call);
            free(f);
        }
        return;
    }
    if (w->inside && pp_sim_process_crashed(f->line->process))
        return;
    sim_trace_arrived(w->trace, f->note);
    pp_memory_run(f->call);
    w->arrived(f->line->owner);
    if (f->stale && w->on_stale)
        w->on_stale(w->stale_data, f->line->process);
    if (ended)
        free(f);
    else if (!f->answer_lost)
        pp_sim_event_in(&f->answer, way_us(w));
}

static void send_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    struct sim_line *l = (struct sim_line *)line;
    struct sim_weather *w = l->weather;
    struct flight *f = malloc(sizeof *f);

    pp_assert(f, "the simulator needs memory");
    *f = (struct flight){.call = call, .line = l};
    pp_sim_event_init(&f->arrival, w->world, "arrival", on_arrival, f);
    pp_sim_event_init_on(&f->answer, line->loop, "answer", on_answer, f);
    pp_sim_event_init_on(&f->give_up, line->loop, "give up", on_give_up, f);
    if (pp_sim_process_crashed(l->process)) /* Its callback goes on until it returns; nothing leaves. */
        return;
    l->in_flight++;
    f->note = sim_trace_call(w->trace, pp_sim_process_name(l->process), w->name, call);
    if (w->down || l->cut) {
        w->faults++;
        pp_sim_event_init_on(&f->answer, line->loop, "refusal", on_refused, f);
        pp_sim_event_in(&f->answer, w->way_us);
        return;
    }
    f->lost = one_of(w, w->lose_requests);
    f->answer_lost = one_of(w, w->lose_answers);
    f->stale = one_of(w, w->stale);
    int64_t late = f->stale             ? l->patience_ms * 1000 + below_us(w, STALE_MS)
                   : one_of(w, w->late) ? below_us(w, w->late_ms)
                                        : 0;
    w->faults += f->lost || f->answer_lost || late > 0;
    struct sim_note *note = sim_trace_at(w->trace, f->note);
    note->request_lost = f->lost;
    note->answer_lost = f->answer_lost;
    note->late = late > 0;
    if (!f->lost)
        pp_sim_event_in(&f->arrival, way_us(w) + late);
    pp_sim_event_in(&f->give_up, l->patience_ms * 1000);
}

/* --- what servers tell processes --- */

/* A message or a notice on its way. */
struct errand {
    struct pp_sim_event event;
    struct pp_memory_message *message; /* or */
    struct pp_memory_notice *notice;
};

static void on_errand(void *data)
{
    struct errand e = *(struct errand *)data;

    free(data);
    if (e.message)
        pp_memory_arrive(e.message);
    else
        pp_memory_notice_arrive(e.notice);
}

/* Decides whether something reaches the process of the line. */
static bool is_lost(struct sim_weather *w, const struct pp_memory_line *to)
{
    bool lost = w->down || ((const struct sim_line *)to)->cut || one_of(w, w->lose_answers);
    w->faults += lost;
    return lost;
}

static void carry(struct sim_weather *w, struct pp_loop *loop, struct errand what)
{
    struct errand *e = malloc(sizeof *e);

    pp_assert(e, "the simulator needs memory");
    *e = what;
    pp_sim_event_init_on(&e->event, loop, "message", on_errand, e);
    pp_sim_event_in(&e->event, way_us(w));
}

static void post(void *data, struct pp_memory_line *to, struct pp_memory_message *m)
{
    if (is_lost(data, to))
        pp_memory_lose(m);
    else
        carry(data, to->loop, (struct errand){.message = m});
}

struct pp_memory_post sim_post(struct sim_weather *weather)
{
    return (struct pp_memory_post){post, weather};
}

void sim_carry(void *weather, struct pp_memory_notice *notice)
{
    if (!notice->sure && is_lost(weather, notice->line))
        pp_memory_notice_drop(notice);
    else
        carry(weather, notice->line->loop, (struct errand){.notice = notice});
}

void sim_line_open(struct sim_line *l, struct pp_loop *loop, struct sim_weather *weather, int64_t patience_ms)
{
    *l = (struct sim_line){.line = {.loop = loop, .send = send_call},
                           .process = pp_sim_loop_process(loop),
                           .weather = weather,
                           .patience_ms = patience_ms};
}
