/* wire_params.c: converts the configuration to the parameters of the pipeline. */
#include "wire_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* Claim and settle cycles wait this long for more work, in ms: briefly if the store is a file,
 * longer if the store is a server. */
#define GATHER_MS     2
#define GATHER_FAR_MS 1500
/* A host that begins to answer 404 to everything is recognised within this time, if it is asked
 * often. */
#define HOSTS_DOUBT_MS 3000
/* The router saves its learned routes at this interval if the store is a server, so a crash loses
 * little of what the router has learned. */
#define ROUTER_SAVE_FAR_MS 60000

/* The filter of known photos is built anew each day: the store may have deleted photos. */
#define FILTER_AGE_MS 86400000

static uint32_t bounded(int64_t v)
{
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static void set_tiers(struct pp_params *p, const struct pp_config *c)
{
    size_t used = 0;

    p->n_tiers = (uint32_t)c->fetch.tiers.n;
    for (size_t i = 0; i < c->fetch.tiers.n; i++) {
        const struct pp_config_tier *t = &c->fetch.tiers.item[i];
        bool served = c->worker.tiers.n == 0;
        p->tiers[i] = (struct pp_tier){.timeout_ms = t->timeout_ms, .concurrency = bounded(t->concurrency)};
        for (size_t k = 0; k < c->worker.tiers.n; k++)
            served |= c->worker.tiers.item[k] == t->timeout_ms;
        if (!served)
            continue;
        p->tiers_served |= 1u << i;
        if (c->worker.tiers.n > 0)
            used += (size_t)snprintf(p->tiers_text + used, sizeof(p->tiers_text) - used, "%s%g",
                                     used > 0 ? "," : "", (double)t->timeout_ms / 1000.0);
    }
    if (c->worker.tiers.n == 0)
        snprintf(p->tiers_text, sizeof(p->tiers_text), "all");
}

/* Makes a policy of the parameters. The caller frees *networks and *ports, also after a failure. */
static enum pp_err set_policy(struct pp_address_policy *policy,
                              const struct pp_config_strings *allow_networks,
                              const struct pp_config_ports *allow_ports, struct pp_cidr **networks,
                              struct pp_port_range **ports)
{
    size_t n = allow_networks->n, m = allow_ports->n;

    *networks = calloc(n + 1, sizeof(**networks));
    *ports = calloc(m + 1, sizeof(**ports));
    if (!*networks || !*ports)
        return PP_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *text = allow_networks->item[i];
        if (!pp_cidr_parse(&(*networks)[i], text, strlen(text)))
            return PP_EINVAL;
    }
    for (size_t i = 0; i < m; i++)
        (*ports)[i] =
            (struct pp_port_range){.lo = allow_ports->item[i].first, .hi = allow_ports->item[i].last};
    *policy = (struct pp_address_policy){.allow = *networks, .n_allow = n, .ports = *ports, .n_ports = m};
    return PP_OK;
}

static enum pp_err set_policies(struct pp_wire_params *w, const struct pp_config *c)
{
    enum pp_err err = set_policy(&w->params.policy, &c->fetch.allow_networks, &c->fetch.allow_ports,
                                 &w->networks, &w->ports);
    return err != PP_OK ? err
                        : set_policy(&w->params.webhook_policy, &c->webhooks.allow_networks,
                                     &c->webhooks.allow_ports, &w->webhook_networks, &w->webhook_ports);
}

static struct pp_api_key api_key(const struct pp_config_key *from)
{
    struct pp_api_key key = {.scopes = from->scopes};
    snprintf(key.name, sizeof(key.name), "%s", from->name);
    snprintf(key.client, sizeof(key.client), "%s", from->client);
    memcpy(key.sha256, from->sha256, sizeof(key.sha256));
    return key;
}

/* Gives the key the number of the same key before the reload, or a new one if nothing was the
 * same. */
static void number_key(struct pp_wire_params *w, struct pp_api_key *key)
{
    for (size_t i = 0; i < w->params.n_keys && key->number == 0; i++) {
        const struct pp_api_key *old = &w->keys[i];
        if (strcmp(old->name, key->name) == 0 && strcmp(old->client, key->client) == 0 &&
            old->scopes == key->scopes && memcmp(old->sha256, key->sha256, sizeof(key->sha256)) == 0)
            key->number = old->number;
    }
    if (key->number == 0)
        key->number = ++w->last_number;
}

/* Returns false if out of memory; then the old keys stay. */
static bool set_keys(struct pp_wire_params *w, const struct pp_config *c)
{
    struct pp_api_key *keys = calloc(c->auth.keys.n + 1, sizeof(*keys));
    if (!keys)
        return false;
    for (size_t i = 0; i < c->auth.keys.n; i++) {
        keys[i] = api_key(&c->auth.keys.item[i]);
        number_key(w, &keys[i]);
    }
    free(w->keys);
    w->keys = keys;
    w->params.keys = keys;
    w->params.n_keys = c->auth.keys.n;
    return true;
}

/* Makes the worker's id: HOST-PID-NONCE, or worker.id and a nonce. It is unique for each start. */
static void set_worker(struct pp_params *p, const struct pp_config *c)
{
    uint32_t nonce;

    if (gethostname(p->host, sizeof(p->host) - 1) != 0)
        snprintf(p->host, sizeof(p->host), "localhost");
    pp_random_bytes(&nonce, sizeof(nonce));
    if (c->worker.id[0])
        snprintf(p->worker, sizeof(p->worker), "%.80s-%08x", c->worker.id, nonce);
    else
        snprintf(p->worker, sizeof(p->worker), "%.60s-%ld-%08x", p->host, (long)getpid(), nonce);
}

enum pp_err pp_wire_params_reload(struct pp_wire_params *w, const struct pp_config *c)
{
    struct pp_params *p = &w->params;

    if (!set_keys(w, c))
        return PP_ENOMEM;
    p->client_rpm = c->clients.rpm == PP_CONFIG_NONE ? 0 : bounded(c->clients.rpm);
    p->client_concurrency = bounded(c->clients.concurrency);
    p->counters_flush_ms = c->counters.flush_ms;
    p->photo_views = c->counters.photo_views;
    p->router_interval_ms = c->router.interval_ms;
    p->router_half_life_ms = c->router.half_life_ms;
    p->router_min_samples = bounded(c->router.min_samples);
    p->router_margin = c->router.margin;
    p->drain_ms = c->worker.drain_ms;
    p->ladder_max_ms = c->ladder.max_ms;
    p->high_water = (uint64_t)c->ingest.high_water;
    p->queue_bytes = (uint64_t)c->ingest.max_bytes;
    p->max_keys = (uint32_t)c->ingest.max_keys;
    p->idempotency_ms = c->idempotency.retention_ms;
    p->results_ms = c->results.retention_ms;
    p->metrics_public = c->http.metrics_public;
    p->access_log = c->log.access;
    p->caller_rate =
        c->callers.requests_per_second == PP_CONFIG_NONE ? 0 : bounded(c->callers.requests_per_second);
    p->caller_failures =
        c->callers.failures_per_second == PP_CONFIG_NONE ? 0 : bounded(c->callers.failures_per_second);
    p->max_subscribers_per_key =
        c->events.max_subscribers_per_key == PP_CONFIG_NONE ? 0 : bounded(c->events.max_subscribers_per_key);
    p->ticket_secret = c->auth.ticket_secret;
    p->hosts = c->http.hosts.item;
    p->n_hosts = c->http.hosts.n;
    p->events_ms = c->events.retention_ms;
    p->events_bytes = (uint64_t)c->events.max_bytes;
    p->retry = (struct pp_retry_params){.max_attempts = bounded(c->retry.attempts),
                                        .delays_ms = c->retry.delays.item,
                                        .n_delays = c->retry.delays.n};
    p->hosts_wait_ms = c->hosts.wait_ms;
    p->hosts_doubt_ms = HOSTS_DOUBT_MS;
    p->hosts_believe_ms = c->hosts.believe_ms;
    p->hosts_concurrency = c->hosts.concurrency == PP_CONFIG_NONE ? 0 : bounded(c->hosts.concurrency);
    return PP_OK;
}

enum pp_err pp_wire_params_init(struct pp_wire_params *w, const struct pp_config *c)
{
    struct pp_params *p = &w->params;

    memset(w, 0, sizeof(*w));
    set_tiers(p, c);
    set_worker(p, c);
    p->max_bytes = (uint64_t)c->fetch.max_bytes;
    p->max_pixels = (uint64_t)c->fetch.max_pixels;
    p->language = c->results.language;
    p->min_width = bounded(c->photos.min_width);
    p->min_height = bounded(c->photos.min_height);
    p->max_redirects = bounded(c->fetch.max_redirects);
    p->threads = bounded(c->worker.threads);
    p->weight = bounded(c->worker.weight);
    p->buffer_bytes = (uint64_t)c->fetch.buffer_bytes / p->threads;
    p->min_free = (uint64_t)c->blobs.min_free_bytes;
    p->min_free_is_set = pp_config_is_set(c, "blobs.min_free");
    p->blobs_dir = strncmp(c->blobs.url, "file:", 5) == 0 ? c->blobs.url + 5 : NULL;
    p->data_dir = pp_wire_is_fleet(c) ? NULL : c->data_dir;
    p->lease_ms = c->worker.lease_ms;
    p->share_window_ms = c->share.window_ms == PP_CONFIG_NONE ? 0 : c->share.window_ms;
    p->gather_ms = GATHER_MS;
    bool fleet = pp_wire_is_fleet(c); /* so the store is far */
    p->gather_max_ms = fleet ? GATHER_FAR_MS : GATHER_MS;
    p->router_save_ms = fleet ? ROUTER_SAVE_FAR_MS : 0;
    p->plan_chunk = bounded(c->ingest.plan_chunk);
    p->filter_bytes = (uint64_t)c->ingest.filter_bytes;
    p->filter_age_ms = FILTER_AGE_MS;
    p->max_body = (uint64_t)c->http.max_body_bytes;
    p->caller_bytes = (uint64_t)c->callers.max_bytes;
    p->max_items = bounded(c->http.max_items);
    p->max_photos_per_item = bounded(c->batches.max_photos_per_item);
    p->max_subscribers = bounded(c->events.max_subscribers);
    enum pp_err err = pp_wire_params_reload(w, c);
    return err == PP_OK ? set_policies(w, c) : err;
}

void pp_wire_params_fini(struct pp_wire_params *w)
{
    free(w->networks);
    free(w->ports);
    free(w->webhook_networks);
    free(w->webhook_ports);
    free(w->keys);
}

bool pp_wire_is_fleet(const struct pp_config *config)
{
    return strncmp(config->store.url, "sqlite:", 7) != 0;
}

const char **pp_wire_kafka_properties(const struct pp_config *config)
{
    const struct pp_config_properties *all = &config->kafka.properties;
    const char **out = calloc(2 * all->n + 1, sizeof *out);
    for (size_t i = 0; out && i < all->n; i++) {
        out[2 * i] = all->item[i].name;
        out[2 * i + 1] = all->item[i].value;
    }
    return out;
}
