/* wire_params.h: the configuration in the pipeline's own terms. */
#ifndef PHOTOPOOL_CMD_WIRE_PARAMS_H
#define PHOTOPOOL_CMD_WIRE_PARAMS_H

#include "config/config.h"
#include "pipeline/params.h"

/* params with the arrays that it points to. */
struct pp_wire_params {
    struct pp_params params;
    struct pp_cidr *networks;
    struct pp_port_range *ports;
    int64_t *delays;
    struct pp_api_key *keys;
};

/* PP_ENOMEM, PP_EINVAL. */
pp_must_check enum pp_err pp_wire_params_init(struct pp_wire_params *w, const struct pp_config *config);
/* Takes over what may change while running. */
void pp_wire_params_reload(struct pp_wire_params *w, const struct pp_config *config);
void pp_wire_params_fini(struct pp_wire_params *w);

#endif
