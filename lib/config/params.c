/* params.c: the table of parameters.
 *
 * To add a parameter: add a field in config.h and a row here, beside the others of its section,
 * then run `photopool config --markdown > configs/README.md`. If a row's type does not fit its
 * field, the compiler reports it. Mark a parameter as reloadable only if every reader looks it up
 * at each use. */
#include "config/params.h"

#include "config/config.h"

/* The C type of the field for each parameter type. A field with choices is an enum, which has the
 * size of int. */
#define C_BOOL             bool
#define C_STRING           const char *
#define C_URL              const char *
#define C_LISTEN           struct pp_config_listen
#define C_COUNT            int64_t
#define C_COUNT_OR_NULL    int64_t
#define C_COUNT_OR_OFF     int64_t
#define C_SIZE             int64_t
#define C_DURATION         int64_t
#define C_DURATION_OR_OFF  int64_t
#define C_NUMBER           double
#define C_PORTS            struct pp_config_ports
#define C_NETWORKS         struct pp_config_strings
#define C_HOSTS            struct pp_config_strings
#define C_URLS             struct pp_config_strings
#define C_RESOLVES         struct pp_config_resolves
#define C_DURATIONS        struct pp_config_durations
#define C_DURATIONS_OR_ALL struct pp_config_durations
#define C_TIERS            struct pp_config_tiers
#define C_KEYS             struct pp_config_keys
#define C_PROPERTIES       struct pp_config_properties

#define FIELD(path)   __typeof__(((struct pp_config *)0)->path)
#define FITS(path, t) __builtin_types_compatible_p(FIELD(path), C_##t)
#define CHECKED(c)                                           \
    (0 * sizeof(struct {                                     \
         _Static_assert(c, "the field's type does not fit"); \
         char x;                                             \
     }))
#define AT(path, c) (offsetof(struct pp_config, path) + CHECKED(c))

/* Macros for rows. P: type, name, field, default, range. C: like P, with choices instead of a
 * range. E: like C, for an enum field. */
#define P(t, name, path, def, min, max, flags, help) \
    {name, PP_TYPE_##t, def, min, max, NULL, flags, AT(path, FITS(path, t)), help},
#define C(t, name, path, def, choices, flags, help) \
    {name, PP_TYPE_##t, def, 0, 0, choices, flags, AT(path, FITS(path, t)), help},
#define E(name, path, def, choices, flags, help) \
    {name, PP_TYPE_ENUM, def, 0, 0, choices, flags, AT(path, sizeof(FIELD(path)) == sizeof(int)), help},

#define LIVE   PP_PARAM_RELOADABLE
#define SECRET PP_PARAM_SECRET

#define MS(n)  (n)
#define SEC(n) (1000.0 * (n))
#define MIN(n) (60 * SEC(n))
#define HR(n)  (60 * MIN(n))
#define DAY(n) (24 * HR(n))
#define KIB(n) (1024.0 * (n))
#define MIB(n) (1024 * KIB(n))
#define GIB(n) (1024 * MIB(n))

static const struct pp_section sections[] = {
    {"http", "The API, metrics and the dashboard."},
    {"batches", "What a batch may hold."},
    {"auth", "API keys."},
    {"callers", "Limits of a caller of the API: of each key, and of each address without one."},
    {"store", "Where items, tasks and photo records are kept: the truth."},
    {"coordinator", "Where limits and slots are agreed."},
    {"blobs", "Where the photos' bytes are kept."},
    {"ingest", "Between the 202 and the plan."},
    {"clients", "Limits of clients that have none of their own (PUT /v1/clients/{id})."},
    {"worker", "Claiming and running tasks."},
    {"fetch", "Transfers from untrusted hosts."},
    {"photos", "What is accepted as a photo."},
    {"retry", "Failures that may pass."},
    {"hosts", "Photo hosts that are down, or answer that all photos are missing; requests to one host."},
    {"ladder", "Imports that are answered from a photo's recorded failure."},
    {"share", "One request for a URL that several photos name."},
    {"router", "Learning the tier of a client's host."},
    {"keep", "Hashing and writing what was fetched."},
    {"events", "The numbered stream of results and progress."},
    {"counters", "Counters that callers increment and read."},
    {"webhooks", "Results to webhooks (role deliver): which addresses their endpoints may have."},
    {"amqp", "Results to an AMQP 0-9-1 broker (role deliver)."},
    {"kafka", "Results to Kafka (role deliver)."},
    {"idempotency", "Answers kept for repeated POSTs."},
    {"results", "Results kept for reading."},
    {"log", "Lines on standard error."},
};

/* clang-format off */
static const struct pp_param params[] = {
P(LISTEN, "http.listen", http.listen, "127.0.0.1:8080", 0, 0, 0,
  "Where the server listens: ADDRESS:PORT, or unix:PATH, a socket file with mode 0660. Other than loopback and unix "
  "needs auth.keys. Port 0 takes a free one.")
P(STRING, "http.tls.cert", http.tls.cert, "", 0, 4095, LIVE,
  "File of the server's certificate (PEM), then those of its authorities: the server speaks https only. SIGHUP reads "
  "it again, for new connections. Empty: http.")
P(STRING, "http.tls.key", http.tls.key, "", 0, 4095, LIVE,
  "File of the private key for http.tls.cert (PEM, without a password). SIGHUP reads it again.")
P(COUNT, "http.max_connections", http.max_connections, "12000", 16, 1e6, 0,
  "Open connections in all; beyond it the one gives way that is least useful. Lowered if descriptors are few.")
P(COUNT, "http.max_connections_per_address", http.max_connections_per_address, "256", 1, 1e6, 0,
  "Connections of an address that are no subscriptions. A key may send a quarter as many bodies at once, at least 8.")
P(DURATION, "http.header_timeout", http.header_timeout_ms, "10s", MS(100), MIN(10), 0,
  "For a request's headers to arrive.")
P(DURATION, "http.body_timeout", http.body_timeout_ms, "30s", MS(100), HR(1), 0,
  "For a request's body to arrive.")
P(SIZE, "http.max_body", http.max_body_bytes, "32MiB", KIB(1), GIB(1), 0,
  "Largest request body, after decompression too.")
P(COUNT, "http.max_items", http.max_items, "10k", 1, 1e6, 0,
  "Items in one batch.")
P(BOOL, "http.metrics_public", http.metrics_public, "on", 0, 0, LIVE,
  "Whether /metrics is served without a key.")
P(HOSTS, "http.hosts", http.hosts, "[]", 0, 0, LIVE,
  "Without auth.keys: names of this server, besides localhost and loopback addresses. Requests for others are refused.")

P(COUNT, "batches.max_photos_per_item", batches.max_photos_per_item, "100", 1, 1000, 0,
  "Photos that one item may name.")

P(KEYS, "auth.keys", auth.keys, "[]", 0, 0, LIVE | SECRET,
  "API keys, by the SHA-256 of their text. With `client` a key acts for that client only.")
P(STRING, "auth.ticket_secret", auth.ticket_secret, "", 0, 1024, LIVE | SECRET,
  "Signs tickets (POST /v1/tickets), at least 32 characters; empty: a random one, which a fleet shares through Redis.")

P(COUNT_OR_NULL, "callers.requests_per_second", callers.requests_per_second, "2000", 1, 1e6, LIVE,
  "Requests a second, and as many at once; then 429. /healthz, /readyz and /metrics don't count; null: no limit.")
P(COUNT_OR_NULL, "callers.failures_per_second", callers.failures_per_second, "10", 1, 1e6, LIVE,
  "Requests a second of an address without a valid key, and ten times as many at once; then 429; null: no limit.")
P(SIZE, "callers.max_bytes", callers.max_bytes, "128MiB", MIB(1), GIB(64), 0,
  "Memory for a caller's bodies, and for answers that it does not read; at least two bodies of http.max_body.")

C(URL, "store.url", store.url, "sqlite:DIR/photopool.db",
  "sqlite:PATH|mongodb://HOSTS|mongodb+srv://HOST", SECRET,
  "The task store.")

C(URL, "coordinator.url", coordinator.url, "local:", "local:|redis://HOST|rediss://HOST|redis+sentinel://HOST,HOST/NAME", SECRET,
  "Limits, slots and wake-ups: in this process, or shared. rediss: by TLS; ?ca=FILE is who may have signed the server's "
  "certificate (else the system's), ?cert=FILE&key=FILE our own. redis+sentinel: sentinels, and the name of the master that they know. All with "
  "[[USER]:PASSWORD@] before the hosts, [:PORT] behind each, and [/DB] at the end.")

C(URL, "blobs.url", blobs.url, "file:DIR/photos", "file:PATH|s3://BUCKET[/PREFIX]?endpoint=URL&region=R", SECRET,
  "Where photos are stored, under sha256/ab/cd/: a folder, which a fleet shares, or an S3-compatible store. "
  "Other users can read the photos in a folder, unless it is in DIR.")
E("blobs.fsync", blobs.fsync, "file", "file|off", 0,
  "file: a photo's bytes are on disk before its record; off: left to the system.")
P(SIZE, "blobs.min_free", blobs.min_free_bytes, "1GiB", 0, GIB(1024 * 1024), 0,
  "At this free space of the disks of photos and databases workers fetch nothing more. A value that is set holds as it "
  "is, up to 7/8 of a disk; the default is at most 5 % of it.")

P(COUNT, "ingest.high_water", ingest.high_water, "5M", 1, 1e9, LIVE,
  "Photos accepted and not yet planned; beyond it POST answers 503. A batch counts as at least its number of items, "
  "and one for every 256 bytes.")
P(SIZE, "ingest.max_bytes", ingest.max_bytes, "4GiB", MIB(1), GIB(1048576), LIVE,
  "Bytes of batches accepted and not yet planned; beyond it POST answers 503.")
P(COUNT, "ingest.max_keys", ingest.max_keys, "100k", 1, 1e9, LIVE,
  "Idempotency-Keys that one client can use in an hour; beyond it POST with a new key answers 429.")
P(COUNT, "ingest.plan_chunk", ingest.plan_chunk, "500", 1, 1e4, 0,
  "Items planned in one transaction.")
P(SIZE, "ingest.filter_bytes", ingest.filter_bytes, "16MiB", 0, MIB(512), 0,
  "Size of the filter that says which photos are new, so that the store is not asked for them: 20 bits a known photo, "
  "16MiB for 6.7M; 0: no filter. In this process or, if coordinator.url is Redis, there; twice as much during a build. "
  "All processes of a fleet need the same value.")
P(BOOL, "ingest.journal", ingest.journal, "on", 0, 0, 0,
  "Keep accepted entries on the accepting node as well until they are planned.")

P(COUNT_OR_NULL, "clients.rpm", clients.rpm, "600", 1, 1e6, LIVE,
  "Requests to a client's hosts in any 60 s, redirects and retries counted; null: no limit.")
P(COUNT, "clients.concurrency", clients.concurrency, "16", 1, 1e4, LIVE,
  "Requests in flight to a client's hosts.")

P(STRING, "worker.id", worker.id, "", 0, 64, 0,
  "Name of this worker, A-Z a-z 0-9 . _ -; empty: host name, process and a nonce.")
P(DURATIONS_OR_ALL, "worker.tiers", worker.tiers, "all", 1, DAY(1), 0,
  "Tiers that this worker serves, by their timeouts in fetch.tiers.")
P(COUNT, "worker.threads", worker.threads, "1", 1, 64, 0,
  "Fetch loops, each a thread with its own connections.")
P(COUNT, "worker.weight", worker.weight, "1", 1, 100, 0,
  "Share of clients beside other workers of the same capacity: a worker of weight 2 is preferred for twice as many.")
P(DURATION, "worker.lease", worker.lease_ms, "30s", SEC(2), MIN(10), 0,
  "Lease of claims and slots: how soon the work of a lost worker is taken over.")
P(DURATION, "worker.drain", worker.drain_ms, "30s", 0, HR(1), LIVE,
  "At shutdown: time for transfers in flight to finish before they are handed back.")

P(TIERS, "fetch.tiers", fetch.tiers,
  "[{timeout: 1s, concurrency: 256}, {timeout: 5s, concurrency: 256}, {timeout: 30s, concurrency: 256}]",
  MS(10), HR(1), 0,
  "Pools of transfers: each has a deadline for a whole transfer, and a number in flight (default 256; lowered "
  "if descriptors are few).")
P(SIZE, "fetch.max_bytes", fetch.max_bytes, "32MiB", KIB(1), GIB(1), 0,
  "Largest photo.")
P(COUNT, "fetch.max_pixels", fetch.max_pixels, "100M", 1, 1e10, 0,
  "Largest width times height, by the image's header.")
P(COUNT, "fetch.max_redirects", fetch.max_redirects, "5", 0, 20, 0,
  "Redirects followed, each checked and charged as a request.")
P(SIZE, "fetch.buffer", fetch.buffer_bytes, "48MiB", MIB(1), GIB(64), 0,
  "Memory for bodies in flight, all transfers together; transfers pause when it is used up.")
P(NETWORKS, "fetch.allow_networks", fetch.allow_networks, "[]", 0, 0, 0,
  "Networks that the address policy would deny (private, loopback, ...) and that are allowed here.")
P(PORTS, "fetch.allow_ports", fetch.allow_ports, "[80, 443]", 0, 0, 0,
  "Ports that may be connected to: numbers and ranges.")
P(RESOLVES, "fetch.resolve", fetch.resolve, "[]", 0, 0, 0,
  "Addresses of names given by hand, as curl --resolve; the address policy holds for them too.")
P(DURATION, "fetch.dns_ttl_max", fetch.dns_ttl_max_ms, "5m", 0, DAY(1), 0,
  "Longest that an answer of the name service is kept, whatever its TTL.")
P(DURATION, "fetch.dns_timeout", fetch.dns_timeout_ms, "5s", MS(100), MIN(1), 0,
  "For one look-up with all its tries.")
P(COUNT, "fetch.dns_cache", fetch.dns_cache, "10k", 1, 1e7, 0,
  "Names kept in the cache.")
P(STRING, "fetch.ca_file", fetch.ca_file, "", 0, 4095, 0,
  "Certificates to trust (PEM); empty: the system's.")
P(STRING, "fetch.user_agent", fetch.user_agent, "photopool/VERSION", 1, 256, 0,
  "User-Agent of requests. Add a page that says who you are: photopool/VERSION (+https://...).")

P(COUNT, "photos.min_width", photos.min_width, "0", 0, 1e9, 0,
  "Smallest width in pixels; a photo below it fails with too_small. 0: any width.")
P(COUNT, "photos.min_height", photos.min_height, "0", 0, 1e9, 0,
  "Smallest height in pixels. 0: any height.")

P(COUNT, "retry.attempts", retry.attempts, "4", 1, 20, LIVE,
  "Transfers of a photo in all. A promotion to the next tier is one, and does not wait.")
P(DURATIONS, "retry.delays", retry.delays, "[1s, 10s, 60s]", 0, DAY(1), LIVE,
  "Before the second, third, ... try, with jitter; the last one repeats. 429 and 503 wait for Retry-After.")

P(DURATION, "hosts.wait", hosts.wait_ms, "15m", SEC(1), DAY(1), LIVE,
  "How long a photo waits for a host whose breaker is open; then it fails with host_down.")
P(DURATION, "hosts.believe", hosts.believe_ms, "2h", SEC(1), DAY(7), LIVE,
  "How long failures of a host that answers 403, 404 or no image to nearly everything are held back.")
P(COUNT_OR_OFF, "hosts.concurrency", hosts.concurrency, "off", 1, 1e6, LIVE,
  "Requests in flight to one host, of all clients and workers together, redirects included; off: no limit.")
P(DURATION, "ladder.max", ladder.max_ms, "24h", 0, DAY(365), LIVE,
  "Time after a failure (403, 404, 410) from which an import asks the host again; 0: every import asks.")
P(DURATION_OR_OFF, "share.window", share.window_ms, "1m", 0, HR(1), 0,
  "How long a fetch is shared with other photos of its URL; 0: only while it runs; off: each photo is fetched.")
C(URLS, "share.servers", share.servers, "[]", "redis://HOST|rediss://HOST|redis+sentinel://HOST,HOST/NAME", LIVE | SECRET,
  "Redis servers that remember who fetches which URL; none: the coordinator's. A reload may add and remove servers.")

P(DURATION, "router.interval", router.interval_ms, "10s", SEC(1), HR(1), LIVE,
  "How often routes are computed.")
P(COUNT, "router.min_samples", router.min_samples, "5", 1, 1000, LIVE,
  "Transfers of a client and domain before it gets a route.")
P(DURATION, "router.half_life", router.half_life_ms, "10m", SEC(10), DAY(30), LIVE,
  "Age at which a transfer counts half.")
P(NUMBER, "router.margin", router.margin, "1.2", 1, 10, LIVE,
  "A route is the smallest tier that covers the mean times this.")

P(COUNT, "keep.threads", keep.threads, "2", 1, 64, 0,
  "Threads that hash and write photos. Each waits for the store: with S3 some 32.")

P(DURATION, "events.retention", events.retention_ms, "24h", MIN(1), DAY(365), LIVE,
  "How long events can be resumed from.")
P(SIZE, "events.max_bytes", events.max_bytes, "1GiB", MIB(1), GIB(1024), LIVE,
  "Space for events; the oldest go first.")
P(COUNT, "events.max_subscribers", events.max_subscribers, "50k", 1, 1e6, 0,
  "Open subscriptions; lowered if descriptors are few. One caller gets at most eight times as many as it leaves free.")
P(COUNT_OR_NULL, "events.max_subscribers_per_key", events.max_subscribers_per_key, "null", 1, 1e6, LIVE,
  "Open subscriptions of one key, or of one address without a key; null: as events.max_subscribers says.")

P(DURATION, "counters.flush", counters.flush_ms, "2s", MS(100), MIN(1), LIVE,
  "How often a fleet stores pending increments; one process stores each at once.")
P(BOOL, "counters.photo_views", counters.photo_views, "off", 0, 0, LIVE,
  "Count GET /v1/photos/{sha256} in the counter photo:<sha256>, except later parts of a photo. A crash loses the last second.")

P(NETWORKS, "webhooks.allow_networks", webhooks.allow_networks, "[]", 0, 0, 0,
  "Networks that an endpoint may be in although they are not public (private, loopback, ...).")
P(PORTS, "webhooks.allow_ports", webhooks.allow_ports, "[80, 443]", 0, 0, 0,
  "Ports that an endpoint may have: numbers and ranges.")

C(URL, "amqp.url", amqp.url, "none", "none|amqp://HOST|amqps://HOST", SECRET,
  "The broker that gets every result: amqp://[USER[:PASSWORD]@]HOST[:PORT][/VHOST].")
P(STRING, "amqp.exchange", amqp.exchange, "photopool", 1, 255, 0,
  "The exchange, a durable topic; it is declared.")
P(STRING, "amqp.routing_key", amqp.routing_key, "result.{client}", 1, 180, 0,
  "Routing key of a result; {client} is replaced.")
P(STRING, "amqp.ca_file", amqp.ca_file, "", 0, 4096, 0,
  "amqps: a PEM file of who may have signed the broker's certificate; empty: the system's.")

P(STRING, "kafka.brokers", kafka.brokers, "", 0, 2048, 0,
  "HOST[:PORT], by commas, of the cluster that gets every result; empty: none.")
P(STRING, "kafka.topic", kafka.topic, "photopool.results", 1, 249, 0,
  "The topic; the client is the key.")
P(PROPERTIES, "kafka.properties", kafka.properties, "{}", 0, 0, SECRET,
  "Properties of librdkafka for the producer, such as SASL and TLS. photopool refuses properties that it sets itself (acks, ...). "
  "Passwords, keys and tokens are shown as ***.")

P(DURATION, "idempotency.retention", idempotency.retention_ms, "24h", HR(24), DAY(30), 0,
  "How long the answer to an Idempotency-Key is kept.")

P(DURATION, "results.retention", results.retention_ms, "30d", MIN(1), DAY(3650), LIVE,
  "How long results and finished batches can be read.")
E("results.language", results.language, "en", "en|ru", 0,
  "Language of the messages for merchants in results. Set the same in all processes: each writes results.")

E("log.level", log.level, "info", "error|warn|info|debug", LIVE,
  "The least severe lines that are written.")
P(BOOL, "log.access", log.access, "off", 0, 0, LIVE,
  "Log a line for each HTTP request: its method, path, status, bytes, time, key, and ids of the caller.")
E("log.format", log.format, "text", "text|json", 0,
  "For people, or a JSON object a line.")
};
/* clang-format on */

const struct pp_param *pp_params(size_t *n)
{
    *n = sizeof params / sizeof params[0];
    return params;
}

const struct pp_section *pp_sections(size_t *n)
{
    *n = sizeof sections / sizeof sections[0];
    return sections;
}
