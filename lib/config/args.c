/* args.c: see args.h. */
#include "config/args.h"

#include "config/value.h"

#include <stdlib.h>
#include <string.h>

static const char *const option_names[] = {"--config", "--set", "--data"};
#define OPTIONS (sizeof option_names / sizeof option_names[0])

/* Returns the option that arg is, and its value if it has one behind '='; OPTIONS if arg is none of
 * these options. */
static size_t match(const char *arg, const char **value)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        size_t n = strlen(option_names[i]);
        if (strncmp(arg, option_names[i], n) || (arg[n] && arg[n] != '='))
            continue;
        *value = arg[n] ? arg + n + 1 : NULL;
        return i;
    }
    return OPTIONS;
}

static void take(struct pp_config_args *args, size_t option, const char *value)
{
    if (option == 0)
        args->file = value;
    if (option == 1)
        args->sets[args->n_sets++] = value;
    if (option == 2)
        args->data_dir = value;
}

enum pp_err pp_config_args_take(struct pp_config_args *args, int *argc, char **argv,
                                struct pp_config_error *err)
{
    *err = (struct pp_config_error){0};
    *args = (struct pp_config_args){.sets = calloc((size_t)*argc + 1, sizeof *args->sets)};
    if (!args->sets) {
        pp_config_fail(err, "", 0, "", "%s", pp_err_text(PP_ENOMEM));
        return PP_ENOMEM;
    }
    int kept = 0, i = 0;
    for (; i < *argc && strcmp(argv[i], "--"); i++) {
        const char *value = NULL;
        size_t option = i ? match(argv[i], &value) : OPTIONS;
        if (option == OPTIONS) {
            argv[kept++] = argv[i];
            continue;
        }
        if (!value && i + 1 < *argc)
            value = argv[++i];
        if (!value) {
            pp_config_fail(err, "", 0, argv[i], "needs a value");
            pp_config_args_fini(args);
            return PP_EINVAL;
        }
        take(args, option, value);
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    argv[ *argc = kept] = NULL;
    return PP_OK;
}

void pp_config_args_fini(struct pp_config_args *args)
{
    free(args->sets);
    *args = (struct pp_config_args){0};
}

enum pp_err pp_config_args_load(struct pp_config **out, const struct pp_config_args *args, char *const *env,
                                struct pp_config_error *err)
{
    struct pp_config_sources src = {.file = args->file,
                                    .env = (const char *const *)env,
                                    .sets = args->sets,
                                    .n_sets = args->n_sets,
                                    .data_dir = args->data_dir};
    return pp_config_load(out, &src, err);
}
