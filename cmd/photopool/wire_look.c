/* wire_look.c: the checks of `photopool doctor` that ask servers: the stores, Redis, the name
 * service, brokers, and the hosts of webhooks. They use the adapters of a server. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/amqp/amqp_sink.h"
#include "adapter/cares/resolver.h"
#include "adapter/kafka/kafka_sink.h"
#include "adapter/mongo/mongo_store.h"
#include "adapter/redis/redis_look.h"
#include "adapter/s3/s3_blob_store.h"
#include "adapter/sqlite/sqlite_store.h"
#include "doctor.h"
#include "pipeline/deliver/webhook_post.h"
#include "pipeline/fetch/policy.h"
#include "wire_parts.h"

enum { WEBHOOKS_MAX = 100, KAFKA_MS = PP_DOCTOR_MS };

/* Any name that exists for certain: RFC 2606 reserves it, and IANA serves it. */
#define KNOWN_HOST "example.com"

/* Returns the part after "scheme:", or NULL if the URL has another scheme. */
static const char *after(const char *url, const char *scheme)
{
    size_t n = strlen(scheme);
    return strncmp(url, scheme, n) == 0 ? url + n : NULL;
}

/* --- the task store --- */

/* Says whether this program can use a schema of this version; 0: there is none yet. */
static void say_schema(struct pp_doctor *d, const char *what, int version, int known)
{
    d->readable = version == known;
    if (version > known)
        pp_doctor_add(d, "store", PP_DOCTOR_FAIL, "run the newer photopool, or use another store (store.url)",
                      "%s: schema %d was written by a newer photopool; this one knows %d", what, version,
                      known);
    else if (version == known || version == 0)
        pp_doctor_add(d, "store", PP_DOCTOR_OK, NULL, "%s, %s %d", what,
                      version > 0 ? "schema" : "empty: a server makes schema", known);
    else
        pp_doctor_add(d, "store", PP_DOCTOR_OK, NULL, "%s, schema %d: a server brings it to %d", what,
                      version, known);
}

static void look_sqlite(struct pp_doctor *d, const char *path)
{
    struct pp_sqlite_look look;
    char what[300];
    enum pp_err err = pp_sqlite_task_store_look(path, &look);

    (void)snprintf(what, sizeof what, "SQLite %.280s", path);
    if (err == PP_ENOTFOUND)
        pp_doctor_add(d, "store", PP_DOCTOR_OK, NULL, "%s does not exist yet; a server makes it", what);
    else if (err == PP_OK)
        say_schema(d, what, look.version, look.known);
    else
        pp_doctor_add(d, "store", PP_DOCTOR_FAIL,
                      err == PP_ECORRUPT ? "restore the file from a backup, or move it away to begin anew"
                                         : "check the disk and the file's owner",
                      "%s: %s", what, pp_err_text(err));
}

static void look_mongo(struct pp_doctor *d)
{
    const struct pp_mongo_options options = {.uri = d->config->store.url, .timeout_ms = PP_DOCTOR_MS};
    char error[PP_MONGO_ERROR_MAX], what[160];
    struct pp_mongo_look look;
    struct pp_finding clock = {.check = "clock"};
    enum pp_err err = pp_mongo_look(&options, &look, error);

    if (err != PP_OK) {
        pp_doctor_add(d, "store", PP_DOCTOR_FAIL,
                      err == PP_EMISMATCH ? "photopool needs MongoDB 5.0 or later, as a replica set"
                      : err == PP_EINVAL  ? "correct store.url"
                                          : "start MongoDB, or correct store.url",
                      "MongoDB: %s", error);
        return;
    }
    (void)snprintf(what, sizeof what, "MongoDB %s, %s%s", look.version,
                   look.set[0] ? "replica set " : "a router of a sharded cluster", look.set);
    say_schema(d, what, look.schema, look.known);
    pp_doctor_clock(&clock, "MongoDB", -look.ahead_ms, 0, d->config->worker.lease_ms);
    pp_doctor_say(d, &clock);
}

void pp_wire_look_store(struct pp_doctor *d)
{
    const char *path = after(d->config->store.url, "sqlite:");
    if (path)
        look_sqlite(d, path);
    else
        look_mongo(d);
}

/* --- Redis --- */

/* Says what the server's settings mean for what it holds. */
static void say_redis(struct pp_doctor *d, const char *check, const struct pp_redis_server *s)
{
    struct pp_finding f = {.check = check};

    (void)snprintf(f.found, sizeof f.found, "Redis %s; what it holds %s", s->version[0] ? s->version : "(?)",
                   pp_redis_server_durability(s));
    if (pp_redis_server_old(s)) {
        f.state = PP_DOCTOR_FAIL;
        (void)snprintf(f.remedy, sizeof f.remedy, "install Redis 6.2 or later");
    } else if (pp_redis_server_evicts(s)) {
        f.state = PP_DOCTOR_WARN;
        (void)snprintf(f.found, sizeof f.found,
                       "Redis %s may drop what it holds when its memory (maxmemory %s) is full: "
                       "maxmemory-policy is %s",
                       s->version, s->maxmemory, s->policy);
        (void)snprintf(f.remedy, sizeof f.remedy,
                       "CONFIG SET maxmemory-policy noeviction, and in redis.conf");
    } else if (strcmp(s->last_write, "err") == 0) {
        f.state = PP_DOCTOR_WARN;
        (void)snprintf(f.found, sizeof f.found, "Redis %s: its last write to disk has failed", s->version);
        (void)snprintf(f.remedy, sizeof f.remedy, "look at the disk and the log of Redis");
    } else if (s->aof[0] && strcmp(s->aof, "1") != 0) {
        f.state = PP_DOCTOR_WARN;
        (void)snprintf(f.remedy, sizeof f.remedy, "CONFIG SET appendonly yes, and in redis.conf");
    }
    pp_doctor_say(d, &f);
}

static void look_redis(struct pp_doctor *d, const char *check, const char *url, bool coordinates)
{
    char why[PP_REDIS_WHY_MAX], remedy[80];
    struct pp_redis_look look;
    struct pp_finding clock = {.check = "clock"};

    if (pp_redis_look(d->loop, url, PP_DOCTOR_MS, &look, why) != PP_OK) {
        (void)snprintf(remedy, sizeof remedy, "start Redis, or correct %s",
                       coordinates ? "coordinator.url" : "share.servers");
        pp_doctor_add(d, check, PP_DOCTOR_FAIL, remedy, "Redis: %s", why);
        return;
    }
    if (!coordinates) {
        pp_doctor_add(d, check, PP_DOCTOR_OK, NULL, "Redis %s answers", look.server.version);
        return;
    }
    say_redis(d, check, &look.server);
    if (look.clock_ms == 0)
        return;
    int64_t half = (look.heard_ms - look.asked_ms) / 2;
    pp_doctor_clock(&clock, "Redis", look.asked_ms + half - look.clock_ms, half + 1,
                    d->config->worker.lease_ms);
    pp_doctor_say(d, &clock);
}

void pp_wire_look_redis(struct pp_doctor *d)
{
    const struct pp_config *c = d->config;

    if (after(c->coordinator.url, "local:"))
        pp_doctor_add(d, "coordinator", PP_DOCTOR_OK, NULL, "local: in the process itself");
    else
        look_redis(d, "coordinator", c->coordinator.url, true);
    for (size_t i = 0; i < c->share.servers.n; i++)
        look_redis(d, "share.servers", c->share.servers.item[i], false);
}

/* --- photos --- */

static void look_s3(struct pp_doctor *d)
{
    char reason[PP_S3_REASON_MAX];
    struct pp_s3_options options;
    struct pp_blob_store *store = NULL;
    enum pp_err err = pp_s3_options_parse(d->config->blobs.url, getenv, &options, reason);

    if (err == PP_OK) {
        options.probe_ms = PP_DOCTOR_MS;
        err = pp_s3_blob_store_open(&options, &store);
        (void)snprintf(reason, sizeof reason, "the object store can't be used: %s", pp_err_text(err));
    }
    if (err == PP_OK)
        err = pp_s3_blob_store_probe(store, reason);
    if (store)
        store->ops->close(store);
    if (err == PP_OK)
        pp_doctor_add(d, "photos", PP_DOCTOR_OK, NULL, "bucket %s at %s can be written", options.bucket,
                      options.endpoint);
    else
        pp_doctor_add(d, "photos", PP_DOCTOR_FAIL,
                      err == PP_EINVAL ? "correct blobs.url, the keys in AWS_*, or the bucket"
                                       : "start the object store, or correct blobs.url",
                      "%s", reason);
}

void pp_wire_look_blobs(struct pp_doctor *d)
{
    const char *path = after(d->config->blobs.url, "file:");
    if (path)
        pp_doctor_writable(d, "photos", path, "--set blobs.url=file:PATH");
    else
        look_s3(d);
}

/* --- names --- */

static void on_resolved(struct pp_query *q)
{
    *(bool *)q->data = true;
}

/* Looks up a name, and waits for the answer. Returns true if there is an address. */
static bool resolve(struct pp_doctor *d, struct pp_resolver *r, struct pp_query *q)
{
    bool done = false;
    q->done = on_resolved;
    q->data = &done;
    if (!r->ops->resolve(r, q))
        while (!done)
            (void)pp_loop_turn(d->loop, true);
    return q->code == 0 && q->n > 0;
}

/* Returns why a look-up has failed. */
static const char *no_address(const struct pp_query *q)
{
    if (q->local_errno)
        return strerror(q->local_errno);
    return q->code == PP_CODE_DNS_NOT_FOUND ? "it does not exist" : "no name server answers";
}

/* Opens the resolver of a server. Returns NULL after a finding. */
static struct pp_resolver *open_resolver(struct pp_doctor *d, const char *check)
{
    const struct pp_config *c = d->config;
    int64_t ms = c->fetch.dns_timeout_ms;
    struct pp_resolver *r = NULL;
    char **pins = pp_wire_make_pins(c);
    const struct pp_cares_options options = {.pins = (const char *const *)pins,
                                             .timeout_ms = ms < PP_DOCTOR_MS ? ms : PP_DOCTOR_MS};
    enum pp_err err = pins ? pp_cares_resolver_open(d->loop, &options, &r) : PP_ENOMEM;

    pp_wire_free_pins(pins);
    if (err != PP_OK)
        pp_doctor_add(d, check, PP_DOCTOR_FAIL, "check fetch.resolve and /etc/resolv.conf",
                      "the resolver does not start: %s", pp_err_text(err));
    return err == PP_OK ? r : NULL;
}

void pp_wire_look_dns(struct pp_doctor *d)
{
    struct pp_query q = {.host = KNOWN_HOST, .port = 443};
    struct pp_resolver *r = open_resolver(d, "names");

    if (!r)
        return;
    if (resolve(d, r, &q))
        pp_doctor_add(d, "names", PP_DOCTOR_OK, NULL, KNOWN_HOST " has %zu addresses", q.n);
    else
        pp_doctor_add(d, "names", PP_DOCTOR_WARN,
                      "check /etc/resolv.conf and the way to its name servers; a machine without internet "
                      "needs photo hosts in /etc/hosts or fetch.resolve",
                      KNOWN_HOST " can't be looked up: %s", no_address(&q));
    r->ops->close(r);
}

/* --- brokers --- */

void pp_wire_look_amqp(struct pp_doctor *d)
{
    const struct pp_config *c = d->config;
    const struct pp_amqp_options options = {.url = c->amqp.url,
                                            .exchange = c->amqp.exchange,
                                            .routing_key = c->amqp.routing_key,
                                            .ca_file = c->amqp.ca_file[0] ? c->amqp.ca_file : NULL,
                                            .timeout_ms = PP_DOCTOR_MS};
    char error[PP_SINK_ERROR_MAX];

    if (strcmp(c->amqp.url, "none") == 0)
        pp_doctor_add(d, "sink amqp", PP_DOCTOR_SKIPPED, NULL, "not used (amqp.url)");
    else if (pp_amqp_probe(&options, error) == PP_OK)
        pp_doctor_add(d, "sink amqp", PP_DOCTOR_OK, NULL, "the broker answers, and has the exchange %s",
                      c->amqp.exchange);
    else
        pp_doctor_add(d, "sink amqp", PP_DOCTOR_FAIL, "start the broker, or correct amqp.url or its user",
                      "%s", error);
}

void pp_wire_look_kafka(struct pp_doctor *d)
{
    const struct pp_config *c = d->config;
    const char **properties = pp_wire_kafka_properties(c);
    const struct pp_kafka_options options = {.brokers = c->kafka.brokers,
                                             .topic = c->kafka.topic,
                                             .properties = properties,
                                             .timeout_ms = KAFKA_MS};
    char error[PP_SINK_ERROR_MAX];
    bool exists;

    if (!c->kafka.brokers[0])
        pp_doctor_add(d, "sink kafka", PP_DOCTOR_SKIPPED, NULL, "not used (kafka.brokers)");
    else if (!properties || pp_kafka_probe(&options, &exists, error) != PP_OK)
        pp_doctor_add(d, "sink kafka", PP_DOCTOR_FAIL,
                      "start the brokers, or correct kafka.brokers or kafka.properties", "%s",
                      properties ? error : pp_err_text(PP_ENOMEM));
    else if (exists)
        pp_doctor_add(d, "sink kafka", PP_DOCTOR_OK, NULL, "the brokers answer, and have the topic %s",
                      c->kafka.topic);
    else
        pp_doctor_add(d, "sink kafka", PP_DOCTOR_WARN,
                      "create the topic, or let the brokers create topics (auto.create.topics.enable)",
                      "the brokers answer, and have no topic %s", c->kafka.topic);
    free(properties);
}

/* --- webhooks --- */

/* Opens the delivery store. Returns NULL if that could change it, or after a finding. */
static struct pp_delivery_store *open_deliveries(struct pp_doctor *d)
{
    const struct pp_config *c = d->config;
    const struct pp_mongo_options mongo = {.uri = c->store.url, .threads = 1, .timeout_ms = PP_DOCTOR_MS};
    char path[4096], error[PP_MONGO_ERROR_MAX];
    struct pp_delivery_store *out = NULL;
    struct pp_sqlite_look look;
    enum pp_err err;

    if (d->fleet) {
        err = d->readable ? pp_mongo_delivery_store_open(d->loop, &mongo, &out, error) : PP_ENOTFOUND;
    } else {
        (void)snprintf(path, sizeof path, "%s/deliveries.db", c->data_dir);
        err = pp_sqlite_delivery_store_look(path, &look);
        if (err == PP_OK && look.version != look.known)
            err = PP_ENOTFOUND;
        if (err == PP_OK)
            err = pp_sqlite_delivery_store_open(d->loop, path, &out);
    }
    if (err == PP_ENOTFOUND)
        pp_doctor_add(d, "webhooks", PP_DOCTOR_SKIPPED, NULL, "no server of this version has run here yet");
    else if (err != PP_OK)
        pp_doctor_add(d, "webhooks", PP_DOCTOR_FAIL, "see the finding about the store",
                      "the endpoints can't be read: %s", pp_err_text(err));
    return err == PP_OK ? out : NULL;
}

/* Checks the URL of an endpoint, and looks up its host. */
static void look_webhook(struct pp_doctor *d, struct pp_resolver *r, const struct pp_params *params,
                         const struct pp_webhook *hook)
{
    struct sockaddr_storage allowed[PP_EXCHANGE_ADDRS];
    char text[PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];
    struct pp_url url;
    const char *problem = pp_webhook_url_problem(params, hook->url);
    struct pp_query q = {.host = url.host};

    if (problem || pp_url_read(&url, NULL, hook->url, strlen(hook->url), text, why) != 0) {
        pp_doctor_add(d, "webhook", PP_DOCTOR_FAIL,
                      "change the endpoint, or webhooks.allow_networks and webhooks.allow_ports", "%s: %s",
                      hook->name, problem ? problem : why);
        return;
    }
    q.port = url.port;
    if (!url.host_is_ip && !resolve(d, r, &q))
        pp_doctor_add(d, "webhook", PP_DOCTOR_WARN, "check the name, and the finding about names",
                      "%s: %.200s can't be looked up: %s", hook->name, url.host, no_address(&q));
    else if (!url.host_is_ip && pp_policy_filter(&params->webhook_policy, q.addrs, q.n, allowed) == 0)
        pp_doctor_add(d, "webhook", PP_DOCTOR_FAIL,
                      "if the receiver is one of yours, add its network to webhooks.allow_networks",
                      "%s: the address policy denies all addresses of %.200s", hook->name, url.host);
    else
        pp_doctor_add(d, "webhook", PP_DOCTOR_OK, NULL, "%s: %.200s%s", hook->name, url.host,
                      hook->paused     ? ", paused"
                      : hook->disabled ? ", disabled: its receiver answered 410"
                                       : "");
}

static void on_read(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static void look_webhooks(struct pp_doctor *d, struct pp_delivery_store *store, struct pp_resolver *r)
{
    struct pp_wire_params w;
    struct pp_arena arena;
    bool done = false;
    pp_arena_init(&arena, 0);
    struct pp_webhooks list = {.req = {.done = on_read, .data = &done, .arena = &arena},
                               .limit = WEBHOOKS_MAX};
    enum pp_err err = pp_wire_params_init(&w, d->config);

    if (err == PP_OK)
        err = store->ops->webhooks(store, &list);
    while (err == PP_OK && !done)
        (void)pp_loop_turn(d->loop, true);
    if (err == PP_OK)
        err = list.req.err;
    for (size_t i = 0; err == PP_OK && i < list.n; i++)
        look_webhook(d, r, &w.params, &list.webhooks[i]);
    if (err != PP_OK)
        pp_doctor_add(d, "webhooks", PP_DOCTOR_FAIL, "see the finding about the store",
                      "the endpoints can't be read: %s", pp_err_text(err));
    else if (list.n == 0)
        pp_doctor_add(d, "webhooks", PP_DOCTOR_SKIPPED, NULL, "there are no endpoints");
    else if (list.more)
        pp_doctor_add(d, "webhooks", PP_DOCTOR_SKIPPED, NULL, "only the first %d are checked", WEBHOOKS_MAX);
    pp_wire_params_fini(&w);
    pp_arena_fini(&arena);
}

void pp_wire_look_webhooks(struct pp_doctor *d)
{
    if (d->in_use && !d->fleet) {
        pp_doctor_add(d, "webhooks", PP_DOCTOR_SKIPPED, NULL,
                      "a server has them open; ask it: photopool webhooks list");
        return;
    }
    struct pp_delivery_store *store = open_deliveries(d);
    struct pp_resolver *r = store ? open_resolver(d, "webhooks") : NULL;
    if (r) {
        look_webhooks(d, store, r);
        r->ops->close(r);
    }
    if (store)
        store->ops->close(store);
}
