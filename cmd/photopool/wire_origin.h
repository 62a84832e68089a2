/* wire_origin.h: the made-up photo host of `photopool bench`: it serves a JPEG for each path, on a
 * loopback address, from a thread of its own. */
#ifndef PHOTOPOOL_CMD_WIRE_ORIGIN_H
#define PHOTOPOOL_CMD_WIRE_ORIGIN_H

#include <stdint.h>

#include "photopool/err.h"

/* Size of each photo, in bytes. */
#define PP_ORIGIN_PHOTO_BYTES (64u << 10)

struct pp_origin;

/* Starts the host. The caller ends it by pp_wire_origin_close(). PP_EIO, PP_EBUSY: it can't listen.
 * PP_ENOMEM. */
pp_must_check enum pp_err pp_wire_origin_open(struct pp_origin **out);
/* Returns the port on which it listens at 127.0.0.1. */
uint16_t pp_wire_origin_port(const struct pp_origin *o);
/* Returns how many photos it has served. Any thread may call it. */
uint64_t pp_wire_origin_served(const struct pp_origin *o);
/* Ends the host. `o` may be NULL. */
void pp_wire_origin_close(struct pp_origin *o);

#endif
