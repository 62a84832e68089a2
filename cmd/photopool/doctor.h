/* doctor.h: what the checks of `photopool doctor` share, and those of their decisions that are
 * pure.
 *
 * A check fills in one finding, or one for each thing that it looks at, and gives it to
 * pp_doctor_say(). Checks only look: they make nothing but temporary files, which they remove, and
 * each ends in about PP_DOCTOR_MS for each server that does not answer. To add a check, write a
 * function like those at the end, and add a row to the table of cmd_doctor.c. Checks of adapters
 * are in wire_look.c. */
#ifndef PHOTOPOOL_DOCTOR_H
#define PHOTOPOOL_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "core/budget.h"
#include "runtime/loop.h"

#define PP_DOCTOR_MS 5000

enum pp_doctor_state {
    PP_DOCTOR_OK,
    PP_DOCTOR_WARN, /* a server starts, but works worse than it could, or may fail later */
    PP_DOCTOR_FAIL, /* a server would not start, or not do its work */
    PP_DOCTOR_SKIPPED,
    PP_DOCTOR_STATES
};

struct pp_finding {
    const char *check; /* what was checked; a constant text */
    enum pp_doctor_state state;
    char found[600];
    char remedy[400]; /* what to do; "": nothing */
};

struct pp_doctor {
    const struct pp_config *config;
    struct pp_loop *loop;
    bool fleet;    /* other processes use the same store */
    bool in_use;   /* a process that runs has the data directory */
    bool readable; /* the task store answers, and has the schema of this program */
    void (*show)(void *data, const struct pp_finding *f);
    void *data;
    unsigned counts[PP_DOCTOR_STATES]; /* findings in each state */
};

/* Counts and shows a finding. */
void pp_doctor_say(struct pp_doctor *d, const struct pp_finding *f);
/* Makes and shows a finding. `remedy` may be NULL. */
void pp_doctor_add(struct pp_doctor *d, const char *check, enum pp_doctor_state state, const char *remedy,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* --- decisions, pure --- */

/* Whether the descriptors are enough for what the configuration wants. */
void pp_doctor_descriptors(struct pp_finding *f, const struct pp_budget_want *want);
/* How far this machine's clock is from that of `server`: it is `ahead_ms` later, with an error of
 * at most error_ms. A difference of half a lease makes claims lapse too early or too late. */
void pp_doctor_clock(struct pp_finding *f, const char *server, int64_t ahead_ms, int64_t error_ms,
                     int64_t lease_ms);
/* Which addresses and ports may be connected to, beyond public addresses: `section` is "fetch" for
 * those of photos, "webhooks" for those of endpoints. */
void pp_doctor_policy(struct pp_finding *f, const char *section, const struct pp_config_strings *networks,
                      const struct pp_config_ports *ports);

/* --- doctor_local.c: checks of this machine --- */

void pp_doctor_config(struct pp_doctor *d);
void pp_doctor_auth(struct pp_doctor *d);
void pp_doctor_listen(struct pp_doctor *d);
void pp_doctor_data_dir(struct pp_doctor *d);
void pp_doctor_disk(struct pp_doctor *d);
void pp_doctor_limits(struct pp_doctor *d);
void pp_doctor_sync(struct pp_doctor *d);
void pp_doctor_addresses(struct pp_doctor *d);
void pp_doctor_certificates(struct pp_doctor *d);
/* Checks that files can be written below `path`, a directory that need not exist yet: then it must
 * be possible to make it. `name` is the parameter, for the remedy. */
void pp_doctor_writable(struct pp_doctor *d, const char *check, const char *path, const char *name);

/* --- wire_look.c: checks of servers --- */

void pp_wire_look_store(struct pp_doctor *d);
void pp_wire_look_redis(struct pp_doctor *d);
void pp_wire_look_blobs(struct pp_doctor *d);
void pp_wire_look_dns(struct pp_doctor *d);
void pp_wire_look_amqp(struct pp_doctor *d);
void pp_wire_look_kafka(struct pp_doctor *d);
void pp_wire_look_webhooks(struct pp_doctor *d);

#endif
