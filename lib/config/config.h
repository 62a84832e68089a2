/* config.h: the effective configuration; the program reads it once, and then it is constant.
 *
 * Every parameter is one row of the table in params.c and one field here. A value comes from the
 * first of these sources that has it: flag (--set), environment (PHOTOPOOL_HTTP_LISTEN), file
 * (YAML), default. pp_config_load checks each value and all values together, so the readers of a
 * field need no checks.
 *
 * Invariants: a struct pp_config never changes after pp_config_load; its texts and lists live until
 * pp_config_free. Any thread may read it. A reload makes a second struct and swaps the pointers.
 *
 * The end of a name is the unit: _ms for milliseconds, _bytes for bytes; other numbers are counts.
 * A text that is not given is "". To add a parameter: add a field here and a row in params.c, and
 * run `photopool config --markdown > configs/README.md`. */
#ifndef PP_CONFIG_CONFIG_H
#define PP_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/log.h"
#include "photopool/code.h"
#include "photopool/err.h"
#include "photopool/scope.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* value of a count that is null in the configuration: there is no limit */
#define PP_CONFIG_NONE      INT64_C(-1)
#define PP_CONFIG_MAX_TIERS 8

struct pp_param;

/* An address to listen on. host is an IPv4 or IPv6 address without brackets; with port 0 the system
 * chooses a free port. If unix_path is not "", it is the path of a unix socket, and host is "". */
struct pp_config_listen {
    const char *host;
    uint16_t port;
    const char *unix_path;
};

/* A tier: a pool of transfers with one timeout. */
struct pp_config_tier {
    /* time for a whole transfer, from the first byte of the request to the last byte of the body */
    int64_t timeout_ms;
    int64_t concurrency; /* maximum number of transfers in flight */
};

struct pp_config_tiers {
    const struct pp_config_tier *item; /* the tiers, in the order of strictly growing timeouts */
    size_t n;                          /* number of tiers, 1..PP_CONFIG_MAX_TIERS */
};

struct pp_config_strings {
    const char *const *item;
    size_t n;
};

struct pp_config_durations {
    const int64_t *item; /* the durations in milliseconds */
    size_t n;
};

/* A range of ports; both ends are included. */
struct pp_config_port_range {
    uint16_t first, last;
};

struct pp_config_ports {
    const struct pp_config_port_range *item;
    size_t n;
};

/* A host name with a fixed address, as curl's --resolve has it. */
struct pp_config_resolve {
    const char *host;    /* host name in lower case */
    const char *address; /* IPv4 or IPv6 address, without brackets */
    uint16_t port;
};

struct pp_config_resolves {
    const struct pp_config_resolve *item;
    size_t n;
};

/* A property of a library that photopool does not read: its name and its value. */
struct pp_config_property {
    const char *name, *value;
};

struct pp_config_properties {
    const struct pp_config_property *item; /* no two have the same name */
    size_t n;
};

/* An API key. The configuration has only its hash. */
struct pp_config_key {
    const char *name;   /* name of the key for logs; no two keys have the same name */
    const char *client; /* the key acts for this client only; "": for all clients */
    unsigned scopes;    /* what the key may do: a mask of PP_SCOPE_*, never empty */
    uint8_t sha256[32]; /* hash of the key's text; no two keys have the same hash */
};

struct pp_config_keys {
    const struct pp_config_key *item;
    size_t n;
};

enum pp_config_fsync { PP_FSYNC_FILE, PP_FSYNC_OFF };
enum pp_config_log_format { PP_CONFIG_LOG_TEXT, PP_CONFIG_LOG_JSON };

/* The place where a value came from. */
enum pp_config_source { PP_SOURCE_DEFAULT, PP_SOURCE_FILE, PP_SOURCE_ENV, PP_SOURCE_FLAG };

struct pp_config_origin {
    enum pp_config_source source;
    const char *name; /* name of the file or variable, or "--set"; "" for a default */
    int line;         /* line in the file, from 1; 0 if the source is not a file */
};

/* The values of all parameters. params.c and configs/README.md have the defaults, the ranges, and
 * the explanations of the fields without a comment here. */
struct pp_config {
    struct {
        struct pp_config_listen listen;
        struct {
            const char *cert, *key; /* names of PEM files; both or none are given */
        } tls;
        int64_t max_connections;
        /* the most connections from one address; event streams do not count */
        int64_t max_connections_per_address;
        int64_t header_timeout_ms;
        int64_t body_timeout_ms;
        /* a request's body has at most this many bytes, both before and after decompression */
        int64_t max_body_bytes;
        int64_t max_items;   /* maximum number of items in one batch */
        bool metrics_public; /* callers may read /metrics without a key */
        /* Without keys, requests may have these names in Host, besides loopback ones: in lower
         * case, without a port. */
        struct pp_config_strings hosts;
    } http;
    struct {
        /* Each caller, a key or an address, may send this many requests a second;
         * PP_CONFIG_NONE: no limit. */
        int64_t requests_per_second;
        /* An address may send this many requests a second without a valid key; PP_CONFIG_NONE: no
         * limit. */
        int64_t failures_per_second;
        /* Memory of one caller: for its bodies, and for the answers that it has not read; at
         * least two bodies of http.max_body_bytes. */
        int64_t max_bytes;
    } callers;
    struct {
        /* "sqlite:PATH" or "mongodb://..."; may contain a password, so it must never be logged */
        const char *url;
    } store;
    struct {
        const char *url; /* "local:" or a URL of Redis; may contain a password */
    } coordinator;
    struct {
        const char *url; /* "file:PATH" or "s3://bucket?..."; may contain a password */
        enum pp_config_fsync fsync;
        int64_t min_free_bytes; /* 0: off */
    } blobs;
    struct {
        /* as fetch.allow_networks and fetch.allow_ports, for the endpoints of webhooks */
        struct pp_config_strings allow_networks;
        struct pp_config_ports allow_ports;
    } webhooks;
    struct {
        int64_t min_width, min_height; /* a photo has at least this many pixels; 0: any number */
    } photos;
    struct {
        int64_t max_photos_per_item;
    } batches;
    struct {
        struct pp_config_tiers tiers;
        int64_t max_bytes; /* one body has at most this many bytes after decompression */
        /* an image has at most this many pixels (width x height in its header) */
        int64_t max_pixels;
        int64_t max_redirects; /* one fetch follows at most this many redirects; 0: none */
        /* maximum bytes of bodies in memory, over all transfers */
        int64_t buffer_bytes;
        /* networks that photos may be fetched from although they are special, with their prefix:
         * "10.0.0.0/8", "fd00::/8" */
        struct pp_config_strings allow_networks;
        struct pp_config_ports allow_ports;
        struct pp_config_resolves resolve;
        int64_t dns_ttl_max_ms;
        int64_t dns_timeout_ms;
        int64_t dns_cache;   /* the cache has at most this many names */
        const char *ca_file; /* file of certificates in PEM; "": the system's certificates */
        const char *user_agent;
    } fetch;
    struct {
        int64_t rpm; /* at most this many requests in any 60 s; PP_CONFIG_NONE: no limit */
        int64_t concurrency;
    } clients; /* the settings that apply to clients without settings */
    struct {
        const char *id; /* id of the worker; "": the worker makes one from host, pid and a nonce */
        /* The worker serves the tiers with these timeouts, which are in fetch.tiers; n = 0: all
         * tiers. */
        struct pp_config_durations tiers;
        int64_t threads;  /* number of fetch loops */
        int64_t weight;   /* its share of clients beside other workers of the same capacity */
        int64_t lease_ms; /* duration of the leases of claims and slots */
        int64_t drain_ms; /* a shutdown waits at most this long for transfers in flight */
    } worker;
    struct {
        int64_t threads; /* number of threads that hash and write */
    } keep;
    struct {
        /* If this many photos (or items, or 256 bytes, if there are more of these), or this many
         * bytes, are accepted but not yet planned, new batches are answered with 503. */
        int64_t high_water, max_bytes;
        int64_t max_keys;     /* one client may use this many Idempotency-Keys in an hour */
        int64_t plan_chunk;   /* the planner plans at most this many items in one step */
        int64_t filter_bytes; /* size of the filter of known photos; 0: there is none */
        bool journal;
    } ingest;
    struct {
        /* One photo gets at most this many transfers. A transfer after a move to the next tier
         * counts, too. */
        int64_t attempts;
        /* delays before the 2nd, 3rd, ... try; the last one repeats; n >= 1 */
        struct pp_config_durations delays;
    } retry;
    struct {
        int64_t wait_ms;    /* a photo waits this long for a host that is down, then it fails */
        int64_t believe_ms; /* for this long, a host that answers only "absent" is not believed */
        /* requests in flight to one host, of all clients and workers; PP_CONFIG_NONE: no limit */
        int64_t concurrency;
    } hosts;
    struct {
        int64_t max_ms; /* 0: there is no ladder */
    } ladder;
    struct {
        int64_t window_ms; /* PP_CONFIG_NONE: off */
        struct pp_config_strings servers;
    } share;
    struct {
        int64_t interval_ms;
        int64_t min_samples;
        int64_t half_life_ms;
        /* factor, >= 1: a tier's timeout must be at least the mean transfer time times this */
        double margin;
    } router;
    struct {
        int64_t flush_ms;
        bool photo_views;
    } counters;
    struct {
        int64_t retention_ms;
        int64_t max_bytes;
        int64_t max_subscribers;
        /* of one key, or of one address without a key; PP_CONFIG_NONE: no limit of its own */
        int64_t max_subscribers_per_key;
    } events;
    struct {
        const char *url; /* "none" or "amqp[s]://..."; may contain a password */
        const char *exchange;
        const char *routing_key;
        const char *ca_file; /* file of certificates in PEM; "": the system's certificates */
    } amqp;
    struct {
        const char *brokers; /* addresses of the Kafka brokers; "": there is no cluster */
        const char *topic;
        struct pp_config_properties properties; /* for librdkafka; may contain passwords */
    } kafka;
    struct {
        int64_t retention_ms;
    } idempotency;
    struct {
        int64_t retention_ms;
        enum pp_language language;
    } results;
    struct {
        struct pp_config_keys keys;
        const char *ticket_secret; /* signs tickets; "": the processes share a random one */
    } auth;
    struct {
        enum pp_log_level level;
        enum pp_config_log_format format;
        bool access; /* a line for each HTTP request */
    } log;

    /* The data directory of the embedded adapters, from --data; it is not a parameter. */
    const char *data_dir;
    const char *file; /* name of the configuration file that was read; "": none */

    struct pp_config_origin *origin; /* array, indexed by the parameter's index in pp_params() */
    struct pp_arena arena;           /* memory of the texts and lists that the fields point to */
};

/* An error message for the operator. */
struct pp_config_error {
    char file[256]; /* name of the file, "environment" or "flag"; "" if the error has no place */
    int line;       /* line in the file, from 1; 0: none */
    char key[128];  /* name of the parameter as written; "": none */
    /* The whole message in one line without control characters: file, line, key and what is
     * allowed. */
    char text[512];
};

struct pp_config_sources {
    /* The name of the configuration file. NULL: ./photopool.yaml, else
     * /etc/photopool/photopool.yaml, else no file. "": no file. ./photopool.yaml is refused if
     * users other than this one and root can write to it or to its folder. */
    const char *file;
    /* The content of the file; `file` is then only its name for messages. NULL: the file is
     * read. */
    const char *text;
    size_t text_len;        /* length of `text` in bytes */
    const char *const *env; /* environment: "NAME=value", NULL-terminated; NULL: none */
    /* texts of the options --set, such as "http.listen=127.0.0.1:0"; a later one replaces an
     * earlier one */
    const char *const *sets;
    size_t n_sets;
    const char *data_dir; /* replaces DIR in the defaults; NULL: "photopool-data" */
};

/* Reads and merges the sources, and checks the result. Returns PP_OK and sets *out, which the
 * caller frees with pp_config_free. Returns PP_EINVAL if a source is wrong (exit code 2), PP_EIO if
 * the file can't be read, or PP_ENOMEM; then *out is NULL and err has a text. Blocks while it reads
 * the file. */
pp_must_check enum pp_err pp_config_load(struct pp_config **out, const struct pp_config_sources *src,
                                         struct pp_config_error *err);

/* Frees the configuration, which may be NULL. */
void pp_config_free(struct pp_config *cfg);

/* Fills src from the environment of the process and from --config FILE, --set NAME=VALUE and
 * --data DIR. Removes these options from argv (--config=FILE is allowed as well) and closes the
 * gaps. *argc becomes smaller; argv[0] and everything after "--" stay. Returns PP_EINVAL and fills
 * err if an option has no value (exit code 2), or PP_ENOMEM. Replaces values of secret
 * parameters in argv by stars, so that /proc/PID/cmdline does not show them. After PP_OK the caller
 * calls pp_config_args_fini; after an error there is nothing to free. src points into argv. */
pp_must_check enum pp_err pp_config_args_take(struct pp_config_sources *src, int *argc, char **argv,
                                              struct pp_config_error *err);
void pp_config_args_fini(struct pp_config_sources *src);

/* Checks that a server may run with these values: without auth.keys it may listen only on loopback
 * addresses. `up` and `serve` call this. Returns PP_EINVAL and fills err, which says what to do. */
pp_must_check enum pp_err pp_config_check(const struct pp_config *cfg, struct pp_config_error *err);

/* Checks that `newer` may replace the configuration in force when the files are read again. An
 * editor, a deployment or a full disk may have left only a part of the file: it may not have
 * vanished, lost all parameters, or removed all keys. A restart permits all of that. Returns
 * PP_EINVAL and fills err. */
pp_must_check enum pp_err pp_config_check_reload(const struct pp_config *in_force,
                                                 const struct pp_config *newer, struct pp_config_error *err);

/* Returns true if a flag, the environment or the file has set the parameter, even if to its
 * default. `name` must be a parameter's. */
bool pp_config_is_set(const struct pp_config *cfg, const char *name);

/* A parameter whose value differs between two configurations. */
struct pp_config_change {
    const struct pp_param *param; /* its flags say whether it is reloadable (params.h) */
    /* the two values as JSON, with passwords as ***; NULL: no memory for the text */
    const char *from, *to;
};

/* Calls cb for each parameter whose value differs between the configurations `a` and `b`. */
void pp_config_diff(const struct pp_config *a, const struct pp_config *b,
                    void (*cb)(void *arg, const struct pp_config_change *change), void *arg);

/* Returns the i-th parameter as the JSON object that PP_PRINT_JSON prints. `later` is the
 * configuration of the last reload: reloadable parameters are taken from it, all others from
 * `started`. Returns NULL past the last parameter, or when out of memory; the caller frees the
 * text. */
char *pp_config_row(const struct pp_config *started, const struct pp_config *later, size_t i);

/* Writes the configuration. PP_PRINT_YAML: as a configuration file, with a comment after each value
 * that names its source. PP_PRINT_JSON: as a line per parameter: {"name", "value", "source":
 * default|file|env|flag, "origin", "line", "reloadable"}. Passwords are shown as ***. */
enum pp_config_format { PP_PRINT_YAML, PP_PRINT_JSON };
void pp_config_print(FILE *f, const struct pp_config *cfg, enum pp_config_format format);

/* These write the reference of all parameters, which is made from the table: as text for a
 * terminal, or as the page configs/README.md. */
void pp_config_help(FILE *f);
void pp_config_markdown(FILE *f);

#endif
