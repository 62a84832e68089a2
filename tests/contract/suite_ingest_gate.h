/* suite_ingest_gate.h: an ingest queue behind a gate, which can hold or refuse requests. */
#ifndef PP_SUITE_INGEST_GATE_H
#define PP_SUITE_INGEST_GATE_H

#include "photopool/port/ingest_queue.h"
#include "redis_server.h"
#include "runtime/loop.h"

/* What the gate does with a request. GATE_REFUSES and GATE_HOLDS affect only appends; the gate lets
 * all other requests pass. GATE_ONLY_APPENDS refuses all others. */
enum gate_mode { GATE_OPEN, GATE_SHUT, GATE_REFUSES, GATE_LOSES_ANSWERS, GATE_HOLDS, GATE_ONLY_APPENDS };

struct gate_keeper {
    enum gate_mode mode;
    int appends, checks;
    int cancels, cancels_most;    /* in flight; most of them at one time */
    struct redis_server *forgets; /* loses its data before the next get; NULL: does not */
    struct gate *of;
    struct pp_ingest_append *held;
};

/* Opens a gate in front of `real`, which it closes with itself. */
struct pp_ingest_queue *pp_ingest_gate_open(struct gate_keeper *keeper, struct pp_loop *loop,
                                            struct pp_ingest_queue *real);
/* Returns true if the gate holds an append. `arg` is its keeper. */
bool pp_ingest_gate_holds(void *arg);
/* Returns true while a refused request has no answer yet. */
bool pp_ingest_gate_refusing(const struct gate_keeper *keeper);
/* Opens the gate for the held append. */
void pp_ingest_gate_let_through(struct gate_keeper *keeper);
/* Opens the gate; the held append gets no answer. */
void pp_ingest_gate_lose(struct gate_keeper *keeper);

#endif
