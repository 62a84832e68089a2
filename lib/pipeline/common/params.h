/* params.h: the parameters of the pipeline, which cmd/photopool/wire_params.c fills in from the
 * configuration. A reload may change reloadable parameters between two turns of the main loop;
 * fetch loops use a copy made at the start. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_PARAMS_H
#define PHOTOPOOL_PIPELINE_COMMON_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/address.h"
#include "core/retry.h"
#include "core/tier.h"
#include "photopool/code.h"

/* The roles of a process, as a mask. */
#define PP_ROLE_API     1u
#define PP_ROLE_INGEST  2u
#define PP_ROLE_WORKER  4u
#define PP_ROLE_CRON    8u
#define PP_ROLE_DELIVER 16u

struct pp_api_key {
    /* No other key has this number or had it. A reload gives a new number to a key that differs
     * from the old one in anything. 0: the keys never change, as in tests. */
    uint64_t number;
    char name[65];
    uint8_t sha256[32];
    unsigned scopes; /* what the key may do: a mask of PP_SCOPE_* */
    char client[65]; /* the only client that the key may use; "": the key may use any client */
};

struct pp_params {
    /* --- parameters of fetching --- */
    struct pp_tier tiers[PP_TIERS_MAX];
    uint32_t n_tiers;
    uint32_t tiers_served; /* bit i: this worker serves tier i */
    struct pp_address_policy policy, webhook_policy; /* for photos; for endpoints of webhooks */
    uint64_t max_bytes, max_pixels;
    enum pp_language language;      /* of the messages in results */
    uint32_t min_width, min_height; /* of a photo, in pixels; 0: any number */
    uint32_t max_redirects;
    /* the bodies in memory of one fetch loop have at most this many bytes together */
    uint64_t buffer_bytes;
    /* At least this many bytes must be free on the disks of these folders; NULL: no such folder. */
    uint64_t min_free;
    bool min_free_is_set; /* false: it is the default, which a small disk lowers */
    const char *blobs_dir, *data_dir;
    /* --- defaults for clients without settings; reloadable --- */
    uint32_t client_rpm; /* requests in any 60 s; 0: unlimited */
    uint32_t client_concurrency;
    /* --- parameters of retries; reloadable --- */
    struct pp_retry_params retry;
    /* --- photo hosts that are down; reloadable --- */
    int64_t hosts_wait_ms;    /* a task waits at most this long for its host, then it fails */
    int64_t hosts_doubt_ms;   /* absent photos of a host that answers little else are believed after this */
    int64_t hosts_believe_ms; /* failures that are held back for an outage are final after this */
    /* requests in flight to one host, of all clients and workers together; 0: no limit */
    uint32_t hosts_concurrency;
    /* --- parameters of the learned routes; reloadable --- */
    int64_t router_interval_ms, router_half_life_ms;
    int64_t router_save_ms; /* a route whose tier stays is saved at most once in this time */
    uint32_t router_min_samples;
    double router_margin;
    /* --- parameters of the worker --- */
    char worker[96]; /* the worker's id, host-pid-nonce, which differs at each start */
    char host[64];
    uint32_t threads;
    uint32_t weight; /* its share of clients beside other workers of the same capacity; 0: as 1 */
    int64_t lease_ms, drain_ms;
    /* The minimum and maximum batching delay of claim and settle cycles. The delay is longer if the
     * store is a server, because a round trip costs more than a file access. */
    int64_t gather_ms, gather_max_ms;
    /* the tiers that the worker serves: "all", or timeouts in seconds such as "1,5" */
    char tiers_text[64];
    /* true: no other process uses this store, so claims of other workers are stale */
    bool sole_worker;
    /* The time of an earlier crash: objects stored after it may lack a record; 0: no crash. */
    int64_t orphans_since_ms;
    int64_t started_wall_ms;
    int64_t pid; /* the number of this process, which /v1/workers shows */
    /* Tasks share the outcome of a fetch for this time, in ms; 0: only if they wait for it. */
    int64_t share_window_ms;
    /* --- parameters of planning and of the API --- */
    int64_t ladder_max_ms;            /* core/plan.h; 0: there is no ladder; reloadable */
    uint64_t high_water, queue_bytes; /* weight and bytes of the entries that wait to be planned */
    uint32_t max_keys;                /* one client may use this many Idempotency-Keys in an hour */
    uint32_t plan_chunk;              /* the planner plans at most this many items in one step */
    uint64_t filter_bytes;            /* size of the filter of known photos; 0: there is none */
    int64_t filter_age_ms;            /* a filter is built anew after this time */
    uint64_t max_body;
    uint32_t max_items, max_photos_per_item;
    int64_t idempotency_ms, results_ms;
    int64_t counters_flush_ms; /* pending increments of counters are stored this often; reloadable */
    bool photo_views;          /* GET /v1/photos/{sha256} counts; reloadable */
    /* --- parameters of events and delivery --- */
    uint32_t max_posts; /* all webhooks together have at most this many posts in flight */
    uint32_t max_subscribers;
    uint32_t max_subscribers_per_key; /* of one caller; 0: no limit of its own */
    int64_t events_ms;                /* events are kept for this time, in ms */
    uint64_t events_bytes;            /* at most this many bytes of event data are kept */
    const char *ticket_secret;        /* signs tickets; "" or NULL: the coordinator has the secret */
    const struct pp_api_key *keys;
    size_t n_keys;
    bool metrics_public;
    bool access_log; /* the log gets a line for each HTTP request */
    /* --- limits of a caller of the API --- */
    uint32_t caller_rate;     /* requests a second; 0: unlimited */
    uint32_t caller_failures; /* requests a second without a valid key; 0: unlimited */
    uint32_t caller_bodies;   /* bodies of one key that arrive at the same time; 0: unlimited */
    uint64_t caller_bytes;    /* bytes of bodies, and bytes of unread answers */
    const char *const *hosts; /* names of the server besides loopback ones (core/site.h) */
    size_t n_hosts;
};

#endif
