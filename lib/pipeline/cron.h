/* cron.h: everything that happens by the clock: leases, slots, routes, lapsed claims, retention, signs of
 * life, gauges. Each job is one row of the table in cron.c. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_CRON_H
#define PHOTOPOOL_PIPELINE_CRON_H

#include "pipeline/pipeline.h"

struct pp_cron;

struct pp_cron *pp_cron_open(struct pp_pipeline *p);
/* No new jobs. */
void pp_cron_stop(struct pp_cron *cron);
/* Requests that have not come back. */
size_t pp_cron_busy(const struct pp_cron *cron);
void pp_cron_close(struct pp_cron *cron);

#endif
