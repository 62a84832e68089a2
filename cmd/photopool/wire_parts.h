/* wire_parts.h: two parts of the wiring: the parameters of the pipeline, and the adapters that the
 * URLs of the configuration select for the ports that hold data. To add an adapter, add its URL
 * scheme to the function of its port in wire_ports.c. */
#ifndef PHOTOPOOL_CMD_WIRE_PARTS_H
#define PHOTOPOOL_CMD_WIRE_PARTS_H

#include "core/budget.h"
#include "pipeline/pipeline.h"
#include "wire.h"

struct pp_http_handler;
struct pp_http_options;
struct pp_http_server;
struct pp_tls_context;

/* The roles of a process that does everything. */
#define PP_ROLES_ALL (PP_ROLE_API | PP_ROLE_INGEST | PP_ROLE_WORKER | PP_ROLE_DELIVER | PP_ROLE_CRON)

/* The roles that use the event log and the delivery store. */
#define PP_ROLES_RELAYING (PP_ROLE_API | PP_ROLE_DELIVER | PP_ROLE_CRON)

/* The parameters of the pipeline, with the arrays that they point to. The delays of retries, the
 * names of the server and the secret of tickets belong to the configuration, which outlives this
 * struct. */
struct pp_wire_params {
    struct pp_params params;
    /* what params.policy and params.webhook_policy refer to */
    struct pp_cidr *networks, *webhook_networks;
    struct pp_port_range *ports, *webhook_ports;
    struct pp_api_key *keys;
    uint64_t last_number; /* the highest number that a key has got */
};

/* Fills `w` from the configuration. Returns PP_ENOMEM or PP_EINVAL on failure. */
pp_must_check enum pp_err pp_wire_params_init(struct pp_wire_params *w, const struct pp_config *config);
/* Copies the reloadable parameters of a newer configuration, and points to its delays. Returns
 * PP_ENOMEM, and changes nothing, when out of memory. */
pp_must_check enum pp_err pp_wire_params_reload(struct pp_wire_params *w, const struct pp_config *config);
void pp_wire_params_fini(struct pp_wire_params *w);

/* wire_budget.c: most descriptors that a process asks for, even if the system permits more: tables
 * that are indexed by descriptors stay small. */
#define PP_DESCRIPTORS_MAX (1u << 20)
/* Returns what a process with these roles wants to do with `descriptors`. */
struct pp_budget_want pp_wire_want(const struct pp_params *params, const struct pp_config *config,
                                   unsigned roles, uint32_t descriptors);
/* Raises the soft limit of descriptors to the hard one, and divides the descriptors
 * as the configuration and the roles want them. Lowers the limits in `params` to what there is, and
 * logs what was lowered. Returns PP_EFULL, with a text in `error`, if there are too few. */
pp_must_check enum pp_err pp_wire_divide(struct pp_budget *budget, struct pp_params *params,
                                         const struct pp_config *config, unsigned roles, struct pp_log *log,
                                         struct pp_wire_error *error);

/* Checks a file of certificates, "" for none: if it contained none, every https photo would fail,
 * and the failure would look like the merchant's fault. `name` is the parameter. PP_EIO,
 * PP_EINVAL. */
pp_must_check enum pp_err pp_wire_check_ca_file(const char *name, const char *path,
                                                struct pp_wire_error *error);
/* Returns fetch.resolve in the resolver's form: all addresses of one host and port on one line, and
 * NULL at the end. The caller frees the lines with pp_wire_free_pins(). NULL: out of memory. */
char **pp_wire_make_pins(const struct pp_config *config);
void pp_wire_free_pins(char **pins);
/* Returns kafka.properties in the sink's form: name, value, name, value, ..., NULL. The texts
 * belong to the configuration; the caller frees the array. NULL: out of memory. */
const char **pp_wire_kafka_properties(const struct pp_config *config);
/* Returns true if this process uses the data directory. In a fleet, only processes with the role
 * api use it, for their journal. */
bool pp_wire_needs_data(const struct pp_config *config, unsigned roles);

/* Returns true if other processes use the same store. */
bool pp_wire_is_fleet(const struct pp_config *config);

/* Opens the task store, the ingest queue, the coordinator and, if the roles need it, the blob
 * store, and puts them into `p`, whose loop, log, params and roles the caller has set. On failure
 * `error` says what to do, and ports that were opened stay open. Either way the caller ends with
 * pp_wire_close_ports. */
pp_must_check enum pp_err pp_wire_open_ports(struct pp_pipeline *p, const struct pp_config *config,
                                             struct pp_wire_error *error);
void pp_wire_close_ports(struct pp_pipeline *p);

/* Gives the dedupe port its servers, of the configuration; at a reload, too. Returns PP_EINVAL if a
 * URL is not valid, or one is there twice. */
pp_must_check enum pp_err pp_wire_share_servers(struct pp_pipeline *p, const struct pp_config *config);

/* wire_owner.c: claims the blob store for this installation. Returns PP_EMISMATCH if it belongs to
 * another, PP_EIO or PP_ENOMEM. If the owner is not certain, no orphans are looked for. */
pp_must_check enum pp_err pp_wire_own_blobs(struct pp_pipeline *p, const struct pp_config *config,
                                            struct pp_wire_error *error);

/* --- wire_listen.c --- */

/* Opens the HTTP server where the configuration says, with TLS if it names a certificate; takes all
 * else from `options`. On failure `error` says what to do. */
pp_must_check enum pp_err pp_wire_listen(struct pp_loop *loop, const struct pp_config *config,
                                         const struct pp_http_options *options,
                                         const struct pp_http_handler *handler, struct pp_http_server **out,
                                         struct pp_wire_error *error);
/* Reads the certificate and the key that the configuration names. Sets *out to what the caller must
 * close or give to the server; NULL: the configuration names none. Logs a warning of a certificate
 * that is not valid now. Returns PP_EINVAL or PP_ENOMEM, and `error` says what to do. Blocks while
 * it reads. */
pp_must_check enum pp_err pp_wire_open_tls(const struct pp_config *config, struct pp_log *log,
                                           struct pp_tls_context **out, struct pp_wire_error *error);
/* Checks the files as pp_wire_open_tls() does. `text` gets the error; or the warning, or "". */
pp_must_check enum pp_err pp_wire_check_tls(const struct pp_config *config, struct pp_wire_error *text);
/* Writes where a server with this configuration listens: "https://[::1]:8080" or "unix:PATH". */
#define PP_WIRE_URL_BYTES 300
void pp_wire_url(const struct pp_config *config, uint16_t port, char out[PP_WIRE_URL_BYTES]);

/* Returns `err`. If it is not PP_OK, first writes the text into `error`. */
enum pp_err pp_wire_explain(struct pp_wire_error *error, enum pp_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
