/* wire_parts.h: two parts of the wiring: the parameters of the pipeline, and the adapters that the
 * URLs of the configuration select for the ports that hold data. To add an adapter, add its URL
 * scheme to the function of its port in wire_ports.c. */
#ifndef PHOTOPOOL_CMD_WIRE_PARTS_H
#define PHOTOPOOL_CMD_WIRE_PARTS_H

#include "core/budget.h"
#include "pipeline/pipeline.h"
#include "wire.h"

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

/* wire_budget.c: raises the soft limit of descriptors to the hard one, and divides the descriptors
 * as the configuration and the roles want them. Lowers the limits in `params` to what there is, and
 * logs what was lowered. Returns PP_EFULL, with a text in `error`, if there are too few. */
pp_must_check enum pp_err pp_wire_divide(struct pp_budget *budget, struct pp_params *params,
                                         const struct pp_config *config, unsigned roles, struct pp_log *log,
                                         struct pp_wire_error *error);

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

/* Returns `err`. If it is not PP_OK, first writes the text into `error`. */
enum pp_err pp_wire_explain(struct pp_wire_error *error, enum pp_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
