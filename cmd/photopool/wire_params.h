/* wire_params.h: converts the configuration to the parameters of the pipeline. */
#ifndef PHOTOPOOL_CMD_WIRE_PARAMS_H
#define PHOTOPOOL_CMD_WIRE_PARAMS_H

#include "config/config.h"
#include "pipeline/common/params.h"

/* The parameters, with the arrays that they point to. The delays of retries stay in the
 * configuration, which outlives its use here. */
struct pp_wire_params {
    struct pp_params params;
    struct pp_cidr *networks;
    struct pp_port_range *ports;
    struct pp_api_key *keys;
};

/* Fills `w` from the configuration. Returns PP_ENOMEM or PP_EINVAL on failure. */
pp_must_check enum pp_err pp_wire_params_init(struct pp_wire_params *w, const struct pp_config *config);
/* Takes over the reloadable parameters of a newer configuration. */
void pp_wire_params_reload(struct pp_wire_params *w, const struct pp_config *config);
void pp_wire_params_fini(struct pp_wire_params *w);

#endif
