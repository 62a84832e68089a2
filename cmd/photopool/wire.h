/* wire.h: from a configuration to running stages: the only place that knows every adapter.
 *
 *   configuration -> params, adapters (store, ingest queue, coordinator, blobs, HTTP) -> pipeline, API
 *
 * To add an adapter: see wire_ports.c. */
#ifndef PHOTOPOOL_CMD_WIRE_H
#define PHOTOPOOL_CMD_WIRE_H

#include "base/log.h"
#include "config/config.h"
#include "photopool/err.h"
#include "runtime/loop.h"

struct pp_wire;

struct pp_wire_error {
    char text[512]; /* what failed and what to do */
};

/* Opens everything for `roles` (PP_ROLE_*) on `loop`. `config` must outlive the wire, until pp_wire_reload()
 * replaces it. */
pp_must_check enum pp_err pp_wire_open(struct pp_loop *loop, struct pp_log *log,
                                       const struct pp_config *config, unsigned roles, struct pp_wire **out,
                                       struct pp_wire_error *error);
/* The port that HTTP listens on. */
uint16_t pp_wire_port(struct pp_wire *wire);
/* Takes what is reloadable from a newer configuration. */
void pp_wire_reload(struct pp_wire *wire, const struct pp_config *config);
/* Stops accepting and claiming, finishes or hands back, then calls done(data) once. Again: hands back at
 * once. */
void pp_wire_drain(struct pp_wire *wire, void (*done)(void *data), void *data);
/* Called with the worker's id when somebody asks this process to drain. */
void pp_wire_on_drain(struct pp_wire *wire, void (*cb)(void *data, const char *worker), void *data);
/* Frees everything; after done(). */
void pp_wire_close(struct pp_wire *wire);
/* What libraries keep for the whole process: once, at its end. */
void pp_wire_end(void);

#endif
