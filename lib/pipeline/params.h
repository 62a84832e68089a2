/* params.h: what the pipeline takes from the configuration, in its own terms. cmd/photopool/wire.c fills it
 * in; what is marked reloadable may change between two turns of the main loop (fetch loops get a copy at
 * start). */
#ifndef PHOTOPOOL_PIPELINE_PARAMS_H
#define PHOTOPOOL_PIPELINE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/address.h"
#include "core/retry.h"
#include "core/tier.h"

struct pp_api_key {
    char name[65];
    uint8_t sha256[32];
    bool submit, read, admin;
    char client[65]; /* "": any */
};

struct pp_params {
    /* fetch */
    struct pp_tier tiers[PP_TIERS_MAX];
    uint32_t n_tiers;
    uint32_t tiers_served; /* bit i: this worker serves tier i */
    struct pp_address_policy policy;
    uint64_t max_bytes, max_pixels;
    uint32_t max_redirects;
    uint64_t buffer_bytes; /* all bodies in memory, per fetch loop */
    /* clients; reloadable */
    uint32_t client_rpm; /* 0: unlimited */
    uint32_t client_concurrency;
    /* retry; reloadable */
    struct pp_retry_params retry;
    /* router; reloadable */
    int64_t router_interval_ms, router_half_life_ms;
    int64_t router_save_ms; /* a route whose tier stays is saved at most so often */
    uint32_t router_min_samples;
    double router_margin;
    /* worker */
    char worker[96]; /* host-pid-nonce: unique per start */
    char host[64];
    uint32_t threads;
    int64_t lease_ms, drain_ms;
    /* Cycles of claiming and settling wait so long for company, and at most so long where company is to be
     * expected: a round trip to a server costs more than one to a file. */
    int64_t gather_ms, gather_max_ms;
    char tiers_text[64];      /* tiers served: "all" or seconds, "1,5" */
    bool sole_worker;         /* nobody else works on this store: claims of others are left-overs */
    int64_t orphans_since_ms; /* an earlier process crashed: objects since then may have no record; 0: no */
    int64_t started_wall_ms;
    /* ingest, API */
    uint64_t high_water;
    uint32_t plan_chunk; /* items */
    uint64_t max_body;
    uint32_t max_items, max_photos_per_item;
    int64_t idempotency_ms, results_ms;
    /* events, delivery */
    uint32_t max_subscribers;
    int64_t events_ms;     /* kept so long, */
    uint64_t events_bytes; /* and so many bytes of data */
    const struct pp_api_key *keys;
    size_t n_keys;
    bool metrics_public;
};

#endif
