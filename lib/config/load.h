/* load.h: the steps of loading. Internal to lib/config. */
#ifndef PP_CONFIG_LOAD_H
#define PP_CONFIG_LOAD_H

#include "config/value.h"

/* Remembers where the parameter's value came from; name lives as long as cfg. */
void pp_config_origin_set(struct pp_config *cfg, const struct pp_param *p, enum pp_config_source source,
                          const char *name, int line);

/* Applies a YAML text. name is for messages and origins and lives as long as cfg. PP_EINVAL fills err;
 * PP_ENOMEM. */
pp_must_check enum pp_err pp_config_apply_yaml(struct pp_config *cfg, const char *name, const char *text,
                                               size_t len, struct pp_config_error *err);

/* What values must fulfil together. PP_EINVAL fills err. */
pp_must_check enum pp_err pp_config_cross_check(const struct pp_config *cfg, struct pp_config_error *err);

/* "no such parameter (did you mean ...?)". Answers PP_EINVAL. */
enum pp_err pp_config_unknown(const char *file, int line, const char *name, struct pp_config_error *err);

#endif
