/* trace.h: what lately happened in a fleet: a ring of notes, for the report of a broken rule and
 * for the page (page.c).
 *
 * A note is a call to a server, a request at an origin, a post of a caller, or something that
 * happens to a process or a server at one moment. A call has one note, which its line completes
 * when the call arrives and when it ends. Notes never influence the run.
 *
 * To trace one more thing: let its place call sim_trace_note(). To name clients and batches in one
 * more operation: a row in trace_about.c. */
#ifndef PP_SIM_TRACE_H
#define PP_SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "photopool/err.h"

struct pp_memory_call;
struct pp_sim_world;
struct sim_request;

enum sim_note_kind {
    SIM_NOTE_CALL,    /* `from` calls the server `to` */
    SIM_NOTE_REQUEST, /* `from` sends a request to an origin */
    SIM_NOTE_POST,    /* a caller posts to the process `to` */
    SIM_NOTE_STATE,   /* from now on, the process or server `from` is `what` */
    SIM_NOTE_FAULT,   /* the fault `what` happens, to `from` if that is not "" */
    SIM_NOTE_BROKEN   /* the rule `what` is broken */
};

/* A call that has not arrived or not ended yet has this time. */
#define SIM_NOT_YET INT64_MAX

struct sim_note {
    enum sim_note_kind kind;
    int64_t at_us, arrived_us, ended_us;
    const char *what;        /* a constant: an operation, a fault, a state, a rule */
    char from[16], to[16];   /* a process, a server, "callers", "origins"; "": nobody */
    char about[72];          /* words: "client 3 4", "batch ID", "key k3"; as many as there is room for */
    const char *result;      /* a constant; NULL: none yet */
    bool late, request_lost; /* the network delays the request, or loses it */
    bool answer_lost, failed;
};

/* Who is concerned by a violation. NULL: not known. */
struct sim_about {
    const char *client, *batch, *item, *process;
};

struct sim_trace;

/* Makes a ring of `room` notes. Aborts if out of memory. */
struct sim_trace *sim_trace_open(struct pp_sim_world *world, size_t room);
/* Adds a note of this moment, whose texts are empty. `what` is a constant. Returns the note, which
 * is valid until the next one is added. */
struct sim_note *sim_trace_note(struct sim_trace *t, enum sim_note_kind kind, const char *what);
/* Returns the number of the newest note, at least 1. */
uint64_t sim_trace_number(const struct sim_trace *t);
/* Returns the note with this number, NULL if the ring no longer has it. */
struct sim_note *sim_trace_at(struct sim_trace *t, uint64_t number);
/* Copies a text into a member of a note, as much as there is room for. */
void sim_note_name(char *to, size_t n, const char *text);
/* Appends a word to note->about. */
void sim_note_word(struct sim_note *note, const char *word);

/* Notes that a process or a server is in a new state, a constant such as "down" or "up". */
void sim_trace_state(struct sim_trace *t, const char *who, const char *state);
/* Notes a call, and whom it is about. Returns the number of its note. */
uint64_t sim_trace_call(struct sim_trace *t, const char *from, const char *to,
                        const struct pp_memory_call *call);
void sim_trace_arrived(struct sim_trace *t, uint64_t number);
void sim_trace_ended(struct sim_trace *t, uint64_t number, enum pp_err err);
/* The record's hook `seen` (record.h); `data` is the trace. */
void sim_trace_request(void *data, struct sim_request *q, bool ended);

/* Writes the words of a request to a server into note->about. */
void sim_note_about(struct sim_note *note, const struct pp_memory_call *call);

/* --- reading --- */

/* Calls each(data, note) for all notes of the ring, the oldest first. */
void sim_trace_each(const struct sim_trace *t, void (*each)(void *data, const struct sim_note *note),
                    void *data);
/* Returns true if the note is about the client, the batch or the process, or if `about` is NULL or
 * names none of these. States, faults and violations concern everybody. */
bool sim_note_concerns(const struct sim_note *note, const struct sim_about *about);
/* Writes a note as one line. */
void sim_note_print(const struct sim_note *note, struct pp_buf *out);
/* Writes the last `most` notes that are about `about`, a line each, in the order of time. */
void sim_trace_print(const struct sim_trace *t, const struct sim_about *about, size_t most,
                     struct pp_buf *out);

#endif
