/* args.h: the options that every subcommand with a configuration shares: --config FILE, --set NAME=VALUE,
 * --data DIR. */
#ifndef PP_CONFIG_ARGS_H
#define PP_CONFIG_ARGS_H

#include "config/config.h"

struct pp_config_args {
    const char *file;     /* NULL = the default places */
    const char *data_dir; /* NULL = the default */
    const char **sets;    /* owned; the texts are argv's */
    size_t n_sets;
};

/* Takes these options out of argv (also as --config=FILE) and closes the gaps; *argc shrinks, argv[0] and
 * everything after "--" stay. PP_EINVAL: an option without its value (err filled, exit 2); PP_ENOMEM. On
 * PP_OK the caller ends with pp_config_args_fini; on errors nothing is left to free. */
pp_must_check enum pp_err pp_config_args_take(struct pp_config_args *args, int *argc, char **argv,
                                              struct pp_config_error *err);
void pp_config_args_fini(struct pp_config_args *args);

/* pp_config_load with these options and the given environment. */
pp_must_check enum pp_err pp_config_args_load(struct pp_config **out, const struct pp_config_args *args,
                                              char *const *env, struct pp_config_error *err);

#endif
