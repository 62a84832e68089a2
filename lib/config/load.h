/* load.h: the steps of loading. Internal to lib/config. */
#ifndef PP_CONFIG_LOAD_H
#define PP_CONFIG_LOAD_H

#include "config/value.h"

/* Remembers where the parameter's value came from. `name` must live as long as cfg. */
static inline void pp_config_origin_set(struct pp_config *cfg, const struct pp_param *p,
                                        enum pp_config_source source, const char *name, int line)
{
    size_t n;
    cfg->origin[p - pp_params(&n)] = (struct pp_config_origin){source, name, line};
}

/* Applies a YAML text. `name` is used in messages and origins, and must live as long as cfg.
 * Returns PP_EINVAL and fills err, or PP_ENOMEM. */
pp_must_check enum pp_err pp_config_apply_yaml(struct pp_config *cfg, const char *name, const char *text,
                                               size_t len, struct pp_config_error *err);

/* Checks the constraints between values. Returns PP_EINVAL and fills err if one is violated. */
pp_must_check enum pp_err pp_config_cross_check(const struct pp_config *cfg, struct pp_config_error *err);

/* Writes "no such parameter (did you mean ...?)" to err. Returns PP_EINVAL. */
enum pp_err pp_config_unknown(const char *file, int line, const char *name, struct pp_config_error *err);

#endif
