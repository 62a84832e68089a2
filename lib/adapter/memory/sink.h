/* sink.h: a message broker in memory and its result sink, for the simulator and for tests.
 *
 * The broker keeps all messages that it has accepted, in order. Any number of processes share it,
 * each through a sink of its own. A send or its answer can be lost (call.h); the sink then says
 * that every message is UNKNOWN. All functions must be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_SINK_H
#define PP_ADAPTER_MEMORY_SINK_H

#include "adapter/memory/call.h"
#include "photopool/port/result_sink.h"
#include "runtime/loop.h"

struct pp_memory_broker;

/* Makes a broker without messages. Returns NULL when out of memory. */
struct pp_memory_broker *pp_memory_broker_new(void);
/* Frees the broker, when all its sinks are closed and no call can reach it any more. `broker` may
 * be NULL. */
void pp_memory_broker_free(struct pp_memory_broker *broker);

/* Opens a process's sink. `line` carries its sends, and must outlive the sink. NULL: the sink has a
 * plain line of its own. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_sink_open(struct pp_loop *loop, struct pp_memory_broker *broker,
                                              struct pp_memory_line *line, struct pp_result_sink **out);

/* --- faults --- */

enum pp_memory_broker_state {
    PP_BROKER_WELL,
    PP_BROKER_AWAY,           /* accepts nothing; a send ends with PP_EIO */
    PP_BROKER_SILENT,         /* accepts nothing; a send ends with PP_ETIMEOUT */
    PP_BROKER_LOSES_CONFIRMS, /* accepts messages; a send ends with PP_ETIMEOUT, all are UNKNOWN */
    PP_BROKER_UNBOUND         /* no queue receives messages: all are RETURNED */
};

void pp_memory_broker_set(struct pp_memory_broker *broker, enum pp_memory_broker_state state);
/* While the broker is well, it refuses every n-th message; 0: none, 1: all. */
void pp_memory_broker_refuse(struct pp_memory_broker *broker, unsigned every);
/* The broker breaks during its next send, and is AWAY after that: it accepts and confirms the first
 * `confirmed` messages, and accepts the next `accepted` ones without a confirm. The others are
 * lost. pp_memory_broker_set() before that send cancels the break. */
void pp_memory_broker_break(struct pp_memory_broker *broker, size_t confirmed, size_t accepted);

/* --- what the broker has accepted --- */

struct pp_memory_accepted {
    const char *id, *client, *body; /* the body has a NUL behind its end */
    size_t body_n;
};

/* Return the number of messages, and the i-th that the broker has accepted, which is valid until
 * the broker is freed. A message that was sent twice is there twice. */
size_t pp_memory_broker_count(const struct pp_memory_broker *broker);
const struct pp_memory_accepted *pp_memory_broker_at(const struct pp_memory_broker *broker, size_t i);

#endif
