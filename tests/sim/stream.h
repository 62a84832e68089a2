/* stream.h: checks what consumers get of the numbered events, against what the event log has taken.
 *
 *   [event log] --appended--> the record of all events, with the events that the log loses later
 *                                 |
 *   consumer --event, gap, last--> its place: what it must get next
 *
 * Checked, as the rule "events": numbers of a consumer ascend; it gets each event of its keys, or
 * a gap that covers the event; a gap covers no event that the log still has; the event is the one
 * that the log has taken under this number; no number is given twice. As I2 and I10: one id has
 * one payload here and at the broker, and each result at the broker comes here, too. */
#ifndef PP_SIM_STREAM_H
#define PP_SIM_STREAM_H

#include "fleet.h"

enum { SIM_STREAM_KEYS = 3 };

/* How far a consumer is. */
struct sim_place {
    const char *name; /* of the consumer */
    char keys[SIM_STREAM_KEYS][24];
    size_t n_keys;
    bool known;  /* false: its first event says where it begins */
    uint64_t at; /* it has everything up to this number */
    size_t next; /* index of the first event of the record above `at` */
};

struct sim_stream *sim_stream_open(struct sim_fleet *f);
/* The log has taken the event. */
void sim_stream_appended(struct sim_stream *s, const struct pp_event *e);
/* The log has lost data: what it has cleaned may be there again. */
void sim_stream_forgot(struct sim_stream *s);
/* The consumer has got an event, as JSON text. Returns its number; 0: the text has none. */
uint64_t sim_stream_event(struct sim_stream *s, struct sim_place *p, const char *json, size_t n);
/* The consumer was told that the events from..to are missing. */
void sim_stream_gap(struct sim_stream *s, struct sim_place *p, uint64_t from, uint64_t to);
/* The consumer was told that it has everything up to `last`. */
void sim_stream_last(struct sim_stream *s, struct sim_place *p, uint64_t last);
/* Lets the consumer begin again after the event `at`. */
void sim_stream_begin(struct sim_stream *s, struct sim_place *p, uint64_t at);
/* Returns true if the record has an event that the consumer must still get. */
bool sim_stream_is_behind(const struct sim_stream *s, const struct sim_place *p);
/* Reports that the rule "events" is broken for the consumer. */
void sim_stream_report(struct sim_stream *s, const struct sim_place *p, const char *what, uint64_t number);
/* Compares what has reached the broker. Returns the number of results that the log does not have
 * yet. */
size_t sim_stream_missing(struct sim_stream *s);
/* Checks what must hold when all has ended. */
void sim_stream_end(struct sim_stream *s);

#endif
