/* wire_ports.h: from URLs to adapters of the ports that hold data. To add one: a scheme in the function of
 * its port. What is opened stands in the pipeline, whoever closes it. */
#ifndef PHOTOPOOL_CMD_WIRE_PORTS_H
#define PHOTOPOOL_CMD_WIRE_PORTS_H

#include "config/config.h"
#include "pipeline/pipeline.h"
#include "wire.h"

/* Does this configuration share its store with other processes? */
bool pp_wire_is_fleet(const struct pp_config *config);

/* The task store, the ingest queue, the coordinator and, where the roles need one, the blob store, into `p`,
 * whose loop, log, params and roles are set. On failure `error` says what to do; what was opened stays. */
pp_must_check enum pp_err pp_wire_open_ports(struct pp_pipeline *p, const struct pp_config *config,
                                             struct pp_wire_error *error);
void pp_wire_close_ports(struct pp_pipeline *p);

/* Writes the text; answers `err`. */
enum pp_err pp_wire_refuse(struct pp_wire_error *error, enum pp_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
