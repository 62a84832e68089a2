/* args.h: the options that every subcommand with a configuration shares: --config FILE, --set
 * NAME=VALUE, --data DIR. */
#ifndef PP_CONFIG_ARGS_H
#define PP_CONFIG_ARGS_H

#include "config/config.h"

struct pp_config_args {
    const char *file;     /* file of --config; NULL: the default places */
    const char *data_dir; /* directory of --data; NULL: the default */
    /* array of the --set texts; the array is owned, the texts belong to argv */
    const char **sets;
    size_t n_sets;
};

/* Removes these options from argv (--config=FILE is allowed as well) and closes the gaps. *argc
 * becomes smaller; argv[0] and everything after "--" stay. Returns PP_EINVAL and fills err if an
 * option has no value (exit code 2), or PP_ENOMEM. After PP_OK the caller calls
 * pp_config_args_fini; after an error there is nothing to free. */
pp_must_check enum pp_err pp_config_args_take(struct pp_config_args *args, int *argc, char **argv,
                                              struct pp_config_error *err);
void pp_config_args_fini(struct pp_config_args *args);

/* Calls pp_config_load with these options and the given environment. */
pp_must_check enum pp_err pp_config_args_load(struct pp_config **out, const struct pp_config_args *args,
                                              char *const *env, struct pp_config_error *err);

#endif
