/* wire.h: opens everything that one process runs, as the configuration says. Only the files wire*.c
 * know every adapter.
 *
 *   configuration -> params, adapters (store, ingest queue, coordinator, blobs, HTTP) -> pipeline,
 *   API
 *
 * To add an adapter, add its URL scheme to the function of its port in wire_ports.c. */
#ifndef PHOTOPOOL_CMD_WIRE_H
#define PHOTOPOOL_CMD_WIRE_H

#include <stdbool.h>

#include "base/log.h"
#include "config/config.h"
#include "photopool/err.h"
#include "runtime/loop.h"

struct pp_wire;

struct pp_wire_error {
    char text[512]; /* says what failed, and what to do */
};

/* Returns true if store.url and coordinator.url go together: both are of this process alone, or
 * both are shared. Several processes that share a store without a common coordinator would each
 * use a client's whole limit. */
bool pp_wire_stores_fit(const struct pp_config *config);
#define PP_WIRE_STORES_MISFIT                                                               \
    "store.url and coordinator.url do not go together: sqlite: with local:, or mongodb:// " \
    "with redis://"

/* Opens all parts that `roles` (PP_ROLE_*) need on `loop`. `config` must stay valid as long as the
 * wire, or until pp_wire_reload() replaces it. */
pp_must_check enum pp_err pp_wire_open(struct pp_loop *loop, struct pp_log *log,
                                       const struct pp_config *config, unsigned roles, struct pp_wire **out,
                                       struct pp_wire_error *error);
/* Returns the port on which the HTTP server listens; 0: a unix socket. */
uint16_t pp_wire_port(struct pp_wire *wire);
/* Applies the reloadable parameters of a newer configuration. Ends the subscriptions whose API key
 * is gone or has changed. New connections get the certificate that http.tls.cert has now. Returns
 * PP_ENOMEM when out of memory, or PP_EINVAL if the certificate or its key can't be used; then it
 * changes nothing, and `error` says why. */
pp_must_check enum pp_err pp_wire_reload(struct pp_wire *wire, const struct pp_config *config,
                                         struct pp_wire_error *error);
/* Publishes an event for operators, if this process has an event log (events/publisher.h). */
void pp_wire_publish(struct pp_wire *wire, const char *type, const char *data, size_t n);
/* Drains: stops accepting and claiming, finishes transfers in flight or hands their tasks back,
 * then calls done(data) once. A second call hands back the remaining tasks at once. */
void pp_wire_drain(struct pp_wire *wire, void (*done)(void *data), void *data);
/* Makes the wire call cb with the worker's id when an operator asks this process to drain. */
void pp_wire_on_drain(struct pp_wire *wire, void (*cb)(void *data, const char *worker), void *data);
/* Frees everything. The caller calls this after the drain's done(). */
void pp_wire_close(struct pp_wire *wire);
/* Frees the process-wide state of libraries. Call it once, at the end of the process. */
void pp_wire_end(void);

#endif
