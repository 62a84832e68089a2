/* sink_lane.h: what all sinks of results (photopool/port/result_sink.h) whose library blocks share.
 *
 *   loop --send--> lane: one thread, on which the driver talks to the broker --> loop
 *
 * The sink of a broker consists of a struct pp_sink_lane, embedded as the first member of the
 * adapter's struct, and a driver, which calls the broker's library. The sink lane takes one send at
 * a time, carries it to the thread and back, and closes everything in order.
 *
 * To add a broker: add a folder under lib/adapter/ with a driver and an open function, its lines in
 * scripts/packages, its parameters (config/config.h, config/params.c), a row in the table of sinks
 * of cmd/photopool/wire_ports.c, and its channel in asyncapi.json.
 * tests/contract/suite_result_sink.c tests it. */
#ifndef PP_RUNTIME_SINK_LANE_H
#define PP_RUNTIME_SINK_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/port/result_sink.h"
#include "runtime/lane.h"

/* Size of a text that tells the operator what is wrong with an option, and which values are
 * allowed. */
#define PP_SINK_ERROR_MAX 512

struct pp_sink_lane;

struct pp_sink_driver {
    const char *name; /* name of the sink's thread */
    size_t id_max;    /* a message id has at most this many bytes; 0: no limit */
    /* Sends messages to the broker, on the lane's thread; may block. Sets the verdict of each
     * message, and r->error on failure. Returns PP_OK, PP_EIO or PP_ETIMEOUT. */
    pp_must_check enum pp_err (*send)(struct pp_sink_lane *s, struct pp_sink_send *r);
    /* Called on the lane's thread whenever no send has come for idle_ms. */
    void (*idle)(struct pp_sink_lane *s);
    /* Called on the lane's thread after the last send; may be NULL. */
    void (*leave)(struct pp_sink_lane *s);
    /* Frees the adapter's struct, after the thread has ended. */
    void (*destroy)(struct pp_sink_lane *s);
};

/* The adapter's first member. The adapter zeroes the struct, and pp_sink_lane_open() fills it
 * in. */
struct pp_sink_lane {
    struct pp_result_sink base;
    const struct pp_sink_driver *driver;
    struct pp_lane *lane;
    struct pp_lane_home *home;
};

/* Starts the thread of a sink and sets `*out`. Must be called on the loop's thread. `read` is the
 * result of reading the sink's options. If `read` is not PP_OK, or if the thread does not start,
 * destroys `s` and returns the error; for PP_ENOMEM, also writes a text to `error`. */
pp_must_check enum pp_err pp_sink_lane_open(struct pp_sink_lane *s, const struct pp_sink_driver *driver,
                                            struct pp_loop *loop, int64_t idle_ms, enum pp_err read,
                                            struct pp_result_sink **out, char error[PP_SINK_ERROR_MAX]);
/* Writes `why` to `error`; returns PP_EINVAL. */
enum pp_err pp_sink_bad_option(char error[PP_SINK_ERROR_MAX], const char *why);
/* Marks a message as REFUSED by the broker, and copies the first 255 bytes of `why` to the
 * arena. */
void pp_sink_refuse(struct pp_arena *arena, struct pp_sink_message *m, const char *why);

#endif
