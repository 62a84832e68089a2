/* config.h: the effective configuration, read once and then constant.
 *
 * Every parameter is one row of the table in params.c and one field here. Sources in order of precedence:
 * flag (--set), environment (PHOTOPOOL_HTTP_LISTEN), file (YAML), default. What is loaded has been checked
 * value by value and as a whole, so that readers need no checks of their own.
 *
 * Invariants: a struct pp_config never changes after pp_config_load; its texts and lists live until
 * pp_config_free. It may be read from any thread. A reload makes a second one and swaps pointers.
 *
 * Units are in the names: _ms milliseconds, _bytes bytes; what has neither is a count. "" stands for a text
 * that is not given. To add a parameter: a field here, a row in params.c, and `photopool config --markdown >
 * configs/README.md`. */
#ifndef PP_CONFIG_CONFIG_H
#define PP_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/log.h"
#include "photopool/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PP_CONFIG_NONE      INT64_C(-1) /* a nullable count that is null: no limit */
#define PP_CONFIG_MAX_TIERS 8

struct pp_param;

/* An address to listen on. host is an IPv4 or IPv6 address without brackets; port 0 takes a free port. */
struct pp_config_listen {
    const char *host;
    uint16_t port;
};

/* One pool of transfers. */
struct pp_config_tier {
    int64_t timeout_ms;  /* of a whole transfer, first byte of the request to last byte of the body */
    int64_t concurrency; /* transfers in flight */
};

struct pp_config_tiers {
    const struct pp_config_tier *item; /* timeouts strictly growing */
    size_t n;                          /* 1..PP_CONFIG_MAX_TIERS */
};

struct pp_config_strings {
    const char *const *item;
    size_t n;
};

struct pp_config_durations {
    const int64_t *item; /* milliseconds */
    size_t n;
};

/* Both ends included. */
struct pp_config_port_range {
    uint16_t first, last;
};

struct pp_config_ports {
    const struct pp_config_port_range *item;
    size_t n;
};

/* An answer of the name service that is given by hand, as curl --resolve. */
struct pp_config_resolve {
    const char *host;    /* lower case */
    const char *address; /* IPv4 or IPv6, without brackets */
    uint16_t port;
};

struct pp_config_resolves {
    const struct pp_config_resolve *item;
    size_t n;
};

enum pp_config_scope { PP_SCOPE_SUBMIT = 1, PP_SCOPE_READ = 2, PP_SCOPE_ADMIN = 4 };

/* An API key, known by its hash only. */
struct pp_config_key {
    const char *name;   /* unique; for logs */
    const char *client; /* the key acts for this client only; "" = for all */
    unsigned scopes;    /* a set of enum pp_config_scope, never empty */
    uint8_t sha256[32]; /* of the key's text; unique */
};

struct pp_config_keys {
    const struct pp_config_key *item;
    size_t n;
};

enum pp_config_fsync { PP_FSYNC_FILE, PP_FSYNC_OFF };
enum pp_config_log_format { PP_CONFIG_LOG_TEXT, PP_CONFIG_LOG_JSON };

/* Where a value came from. */
enum pp_config_source { PP_SOURCE_DEFAULT, PP_SOURCE_FILE, PP_SOURCE_ENV, PP_SOURCE_FLAG };

struct pp_config_origin {
    enum pp_config_source source;
    const char *name; /* file name, variable name, "--set"; "" for a default */
    int line;         /* in a file, from 1; else 0 */
};

/* Defaults and ranges are in params.c and configs/README.md; a field that is not explained here is explained
 * there. */
struct pp_config {
    struct {
        struct pp_config_listen listen;
        int64_t max_connections;
        int64_t max_connections_per_address; /* open subscriptions not counted */
        int64_t header_timeout_ms;
        int64_t body_timeout_ms;
        int64_t max_body_bytes; /* of a request, after decompression too */
        int64_t max_items;      /* in one batch */
        bool metrics_public;    /* /metrics needs no key */
    } http;
    struct {
        const char *url; /* "sqlite:PATH" or "mongodb://..."; may hold a password: never log it */
    } store;
    struct {
        const char *url; /* "local:" or "redis://..."; may hold a password */
    } coordinator;
    struct {
        const char *url; /* "file:PATH" or "s3://bucket?..."; may hold a password */
        enum pp_config_fsync fsync;
    } blobs;
    struct {
        int64_t max_photos_per_item;
    } batches;
    struct {
        struct pp_config_tiers tiers;
        int64_t max_bytes;                       /* of one body, after decompression */
        int64_t max_pixels;                      /* width x height, from the image's header */
        int64_t max_redirects;                   /* 0: none is followed */
        int64_t buffer_bytes;                    /* bodies under way, all transfers together */
        struct pp_config_strings allow_networks; /* CIDR with prefix, canonical: "10.0.0.0/8", "fd00::/8" */
        struct pp_config_ports allow_ports;
        struct pp_config_resolves resolve;
        int64_t dns_ttl_max_ms;
        int64_t dns_timeout_ms;
        int64_t dns_cache;   /* names kept */
        const char *ca_file; /* PEM; "" = the system's */
        const char *user_agent;
    } fetch;
    struct {
        int64_t rpm; /* requests in any 60 s; PP_CONFIG_NONE = no limit */
        int64_t concurrency;
    } clients; /* for clients that have no settings of their own */
    struct {
        const char *id; /* "" = made of host, pid and nonce */
        struct pp_config_durations
            tiers;        /* timeouts of the tiers served, each one of fetch.tiers; n = 0: all */
        int64_t threads;  /* fetch loops */
        int64_t lease_ms; /* of claims and slots */
        int64_t drain_ms; /* at shutdown, for what is in flight */
    } worker;
    struct {
        int64_t threads; /* lanes that hash and write */
    } keep;
    struct {
        int64_t high_water; /* photos accepted and not yet planned; beyond it 503 */
        int64_t plan_chunk; /* photos planned in one transaction */
        bool journal;
    } ingest;
    struct {
        int64_t attempts;                  /* transfers in all, tier promotions included */
        struct pp_config_durations delays; /* before the 2nd, 3rd ... try; the last repeats; n >= 1 */
    } retry;
    struct {
        int64_t interval_ms;
        int64_t min_samples;
        int64_t half_life_ms;
        double margin; /* factor on the mean, >= 1 */
    } router;
    struct {
        int64_t retention_ms;
        int64_t max_bytes;
        int64_t max_subscribers;
    } events;
    struct {
        const char *url; /* "none" or "amqp[s]://..."; may hold a password */
        const char *exchange;
        const char *routing_key;
        const char *ca_file; /* PEM; "" = the system's */
    } amqp;
    struct {
        const char *brokers; /* "" = no cluster */
        const char *topic;
    } kafka;
    struct {
        int64_t retention_ms;
    } idempotency;
    struct {
        int64_t retention_ms;
    } results;
    struct {
        struct pp_config_keys keys;
    } auth;
    struct {
        enum pp_log_level level;
        enum pp_config_log_format format;
    } log;

    const char *data_dir; /* directory of the embedded adapters, as given in the sources; not a parameter */
    const char *file;     /* the file that was read; "" = none */

    struct pp_config_origin *origin; /* by the parameter's index in pp_params() */
    struct pp_arena arena;           /* private: what the fields point to */
};

/* What is wrong, for the operator. */
struct pp_config_error {
    char file[256]; /* file, "environment" or "flag"; "" if it has no place */
    int line;       /* from 1; 0 = none */
    char key[128];  /* parameter as written; "" = none */
    char text[512]; /* the whole message, one line without control characters, with file, line, key and what
                       is allowed */
};

struct pp_config_sources {
    const char *file; /* NULL: ./photopool.yaml, else /etc/photopool/photopool.yaml, else none; "": no file */
    const char *text; /* if not NULL, the file's content (file is then only its name) ... */
    size_t text_len;  /* ... and its length in bytes */
    const char *const *env;  /* environ, "NAME=value", NULL at the end; NULL = none */
    const char *const *sets; /* "http.listen=127.0.0.1:0", later ones win */
    size_t n_sets;
    const char *data_dir; /* NULL: "photopool-data"; stands for DIR in the defaults */
};

/* Read, merge and check. PP_OK: *out is owned by the caller (pp_config_free). PP_EINVAL: a source is wrong
 * (exit 2), PP_EIO: the file can't be read, PP_ENOMEM; then *out is NULL and err is filled, its text never
 * empty. Blocks on file reads. */
pp_must_check enum pp_err pp_config_load(struct pp_config **out, const struct pp_config_sources *src,
                                         struct pp_config_error *err);

/* NULL is allowed. */
void pp_config_free(struct pp_config *cfg);

/* What a server needs beyond valid values: without auth.keys it listens on loopback only. For up and serve.
 * PP_EINVAL fills err, with the remedy. */
pp_must_check enum pp_err pp_config_check(const struct pp_config *cfg, struct pp_config_error *err);

/* Calls cb for each parameter whose value differs; the caller asks the parameter whether it is reloadable
 * (params.h). */
void pp_config_diff(const struct pp_config *a, const struct pp_config *b,
                    void (*cb)(void *arg, const struct pp_param *param), void *arg);

/* PP_PRINT_YAML: a configuration file, each value with where it came from in a comment. PP_PRINT_JSON: a line
 * per parameter
 * {"name", "value", "source": default|file|env|flag, "origin", "line", "reloadable"}. Passwords are shown as
 * ***. */
enum pp_config_format { PP_PRINT_YAML, PP_PRINT_JSON };
void pp_config_print(FILE *f, const struct pp_config *cfg, enum pp_config_format format);

/* The reference, made from the table: as text for a terminal, as the page configs/README.md. */
void pp_config_help(FILE *f);
void pp_config_markdown(FILE *f);

#endif
