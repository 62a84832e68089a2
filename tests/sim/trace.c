/* trace.c: keeps the last notes of a fleet in a ring, and writes them as text. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include "adapter/memory/call.h"
#include "base/check.h"
#include "record.h"
#include "runtime/sim/sim.h"

struct sim_trace {
    struct pp_sim_world *world;
    struct sim_note *notes; /* note number n is at n % room */
    size_t room;
    uint64_t n; /* number of the newest note; 0: there is none */
};

struct sim_trace *sim_trace_open(struct pp_sim_world *world, size_t room)
{
    struct sim_trace *t = calloc(1, sizeof *t);

    pp_assert(t && room > 0 && (t->notes = calloc(room, sizeof t->notes[0])), "the simulator needs memory");
    t->world = world;
    t->room = room;
    return t;
}

/* --- writing --- */

struct sim_note *sim_trace_note(struct sim_trace *t, enum sim_note_kind kind, const char *what)
{
    struct sim_note *note = &t->notes[++t->n % t->room];

    note->kind = kind;
    note->at_us = pp_sim_now_us(t->world);
    note->arrived_us = note->ended_us = SIM_NOT_YET;
    note->what = what;
    note->from[0] = note->to[0] = note->about[0] = '\0';
    note->result = NULL;
    note->late = note->request_lost = note->answer_lost = note->failed = false;
    return note;
}

uint64_t sim_trace_number(const struct sim_trace *t)
{
    return t->n;
}

struct sim_note *sim_trace_at(struct sim_trace *t, uint64_t number)
{
    return number > 0 && number <= t->n && t->n - number < t->room ? &t->notes[number % t->room] : NULL;
}

void sim_note_name(char *to, size_t n, const char *text)
{
    size_t length = strnlen(text, n - 1);

    memcpy(to, text, length);
    to[length] = '\0';
}

void sim_note_word(struct sim_note *note, const char *word)
{
    size_t used = strlen(note->about), n = strlen(word);

    if (used + n + 2 > sizeof note->about) /* Half a word would name somebody else. */
        return;
    if (used > 0)
        note->about[used++] = ' ';
    memcpy(note->about + used, word, n + 1);
}

void sim_trace_state(struct sim_trace *t, const char *who, const char *state)
{
    struct sim_note *note = sim_trace_note(t, SIM_NOTE_STATE, state);
    sim_note_name(note->from, sizeof note->from, who);
}

uint64_t sim_trace_call(struct sim_trace *t, const char *from, const char *to,
                        const struct pp_memory_call *call)
{
    struct sim_note *note = sim_trace_note(t, SIM_NOTE_CALL, call->op->name);

    sim_note_name(note->from, sizeof note->from, from);
    sim_note_name(note->to, sizeof note->to, to);
    sim_note_about(note, call);
    return t->n;
}

void sim_trace_arrived(struct sim_trace *t, uint64_t number)
{
    struct sim_note *note = sim_trace_at(t, number);
    if (note)
        note->arrived_us = pp_sim_now_us(t->world);
}

void sim_trace_ended(struct sim_trace *t, uint64_t number, enum pp_err err)
{
    static const char *const names[] = {
#define X(name, text) [name] = #name,
        PP_ERR_TABLE(X)
#undef X
    };
    struct sim_note *note = sim_trace_at(t, number);

    if (!note)
        return;
    note->ended_us = pp_sim_now_us(t->world);
    note->result = names[err];
    note->failed = err == PP_EIO || err == PP_EUNKNOWN || err == PP_ETIMEOUT;
}

void sim_trace_request(void *data, struct sim_request *q, bool ended)
{
    struct sim_trace *t = data;
    struct sim_note *note = ended ? sim_trace_at(t, q->tag) : sim_trace_note(t, SIM_NOTE_REQUEST, "GET");

    if (!note)
        return;
    if (ended) {
        note->ended_us = q->end_ms * 1000;
        note->result = q->status == 200 ? "200" : q->status == 0 ? "closed" : "no photo";
        note->failed = q->status == 0;
        return;
    }
    q->tag = t->n;
    note->at_us = note->arrived_us = q->start_ms * 1000;
    sim_note_name(note->from, sizeof note->from, q->process);
    sim_note_name(note->to, sizeof note->to, "origins");
    sim_note_word(note, "client");
    sim_note_word(note, sim_request_client(q));
    sim_note_word(note, q->url);
}

/* --- reading --- */

void sim_trace_each(const struct sim_trace *t, void (*each)(void *data, const struct sim_note *note),
                    void *data)
{
    for (uint64_t i = t->n > t->room ? t->n - t->room + 1 : 1; i <= t->n; i++)
        each(data, &t->notes[i % t->room]);
}

/* Returns true if `word` is one of the words after `label`, up to the next label. */
static bool has_word(const char *about, const char *label, const char *word)
{
    size_t n = strlen(word);
    bool labelled = false;

    for (const char *at = about; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        bool is_label = (length == 6 && memcmp(at, "client", 6) == 0) ||
                        (length == 5 && memcmp(at, "batch", 5) == 0) ||
                        (length == 3 && memcmp(at, "key", 3) == 0);
        if (is_label)
            labelled = strncmp(at, label, length) == 0;
        else if (labelled && length == n && memcmp(at, word, n) == 0)
            return true;
        at += length;
    }
    return false;
}

bool sim_note_concerns(const struct sim_note *note, const struct sim_about *about)
{
    if (!about || (!about->client && !about->batch && !about->process))
        return true;
    if (note->kind >= SIM_NOTE_STATE) /* They are few, and may be the cause. */
        return true;
    return (about->client && has_word(note->about, "client", about->client)) ||
           (about->batch && has_word(note->about, "batch", about->batch)) ||
           (about->process &&
            (strcmp(note->from, about->process) == 0 || strcmp(note->to, about->process) == 0));
}

static void put_time(struct pp_buf *out, const char *label, int64_t us)
{
    if (us == SIM_NOT_YET)
        pp_buf_printf(out, " %s -", label);
    else
        pp_buf_printf(out, " %s %.3f", label, (double)us / 1e6);
}

void sim_note_print(const struct sim_note *note, struct pp_buf *out)
{
    static const char *const kinds[] = {
        [SIM_NOTE_STATE] = "is", [SIM_NOTE_FAULT] = "fault:", [SIM_NOTE_BROKEN] = "BROKEN:"};

    pp_buf_printf(out, "%10.3f %s%s", (double)note->at_us / 1e6, note->from, note->from[0] ? " " : "");
    if (note->kind >= SIM_NOTE_STATE)
        pp_buf_printf(out, "%s %s", kinds[note->kind], note->what);
    else
        pp_buf_printf(out, "-> %s: %s", note->to, note->what);
    if (note->about[0])
        pp_buf_printf(out, " (%s)", note->about);
    if (note->kind < SIM_NOTE_STATE) {
        if (note->kind == SIM_NOTE_CALL)
            put_time(out, "arrived", note->arrived_us);
        put_time(out, "ended", note->ended_us);
        pp_buf_printf(out, "%s%s%s%s%s", note->result ? " " : "", note->result ? note->result : "",
                      note->late ? ", late" : "", note->request_lost ? ", request lost" : "",
                      note->answer_lost ? ", answer lost" : "");
    }
    pp_buf_putc(out, '\n');
}

void sim_trace_print(const struct sim_trace *t, const struct sim_about *about, size_t most,
                     struct pp_buf *out)
{
    const struct sim_note **found = calloc(most + 1, sizeof found[0]);
    size_t n = 0;

    pp_assert(found, "the simulator needs memory");
    for (uint64_t i = t->n; i > 0 && t->n - i < t->room && n < most; i--)
        if (sim_note_concerns(&t->notes[i % t->room], about))
            found[n++] = &t->notes[i % t->room];
    /* An insertion sort, because the notes are nearly in the reverse order. */
    for (size_t i = 0; i < n; i++) {
        const struct sim_note *note = found[n - 1];
        size_t to = i;
        memmove(&found[i + 1], &found[i], (n - 1 - i) * sizeof found[0]);
        for (; to > 0 && found[to - 1]->at_us > note->at_us; to--)
            found[to] = found[to - 1];
        found[to] = note;
    }
    for (size_t i = 0; i < n; i++)
        sim_note_print(found[i], out);
    free(found);
}
