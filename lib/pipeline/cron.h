/* cron.h: runs the periodic jobs: it renews leases and slots, decides routes, returns lapsed
 * claims, removes old data, sends heartbeats and updates gauges. Each job is a row of jobs[] in
 * cron.c. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_CRON_H
#define PHOTOPOOL_PIPELINE_CRON_H

#include "pipeline/pipeline.h"

struct pp_cron;

/* Opens cron. Returns NULL when out of memory. */
struct pp_cron *pp_cron_open(struct pp_pipeline *p);
/* Starts no more jobs. */
void pp_cron_stop(struct pp_cron *cron);
/* Returns the number of requests in flight. */
size_t pp_cron_busy(const struct pp_cron *cron);
void pp_cron_close(struct pp_cron *cron);

#endif
