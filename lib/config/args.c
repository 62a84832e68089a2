/* args.c: the options that every subcommand with a configuration shares. */
#include "config/value.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns where the value of the option `arg` belongs, or NULL if `arg` is none of these options.
 * *value is the text behind '=', or NULL if there is none. */
static const char **match(struct pp_config_sources *src, const char **set, const char *arg,
                          const char **value)
{
    const struct {
        const char *name;
        const char **to;
    } options[] = {{"--config", &src->file}, {"--set", set}, {"--data", &src->data_dir}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        size_t n = strlen(options[i].name);
        if (strncmp(arg, options[i].name, n) || (arg[n] && arg[n] != '='))
            continue;
        *value = arg[n] ? arg + n + 1 : NULL;
        return options[i].to;
    }
    return NULL;
}

enum pp_err pp_config_args_take(struct pp_config_sources *src, int *argc, char **argv,
                                struct pp_config_error *err)
{
    *err = (struct pp_config_error){0};
    const char **sets = calloc((size_t)*argc + 1, sizeof *sets);
    *src = (struct pp_config_sources){.env = (const char *const *)environ, .sets = sets};
    if (!sets) {
        pp_config_fail(err, "", 0, "", "%s", pp_err_text(PP_ENOMEM));
        return PP_ENOMEM;
    }
    int kept = 0, i = 0;
    for (; i < *argc && strcmp(argv[i], "--"); i++) {
        const char *value = NULL, **to = i ? match(src, &sets[src->n_sets], argv[i], &value) : NULL;
        if (!to) {
            argv[kept++] = argv[i];
            continue;
        }
        if (!value && i + 1 < *argc)
            value = argv[++i];
        if (!value) {
            pp_config_args_fini(src);
            return pp_config_fail(err, "", 0, argv[i], "needs a value");
        }
        *to = value;
        src->n_sets += to == &sets[src->n_sets];
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    argv[ *argc = kept] = NULL;
    return PP_OK;
}

void pp_config_args_fini(struct pp_config_sources *src)
{
    free((void *)(uintptr_t)src->sets);
    *src = (struct pp_config_sources){0};
}
