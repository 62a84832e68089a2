/* load.c: reads all sources into one struct pp_config.
 *
 *   defaults -> file -> environment -> flags -> checks across parameters
 *
 * Each source overwrites the values of the sources before it. A wrong value is an error even if a
 * later source replaces it. An environment variable that names a parameter sets the parameter.
 * Another variable with the prefix PHOTOPOOL_ is an error only if it is in one of the sections or
 * close to a parameter's name, because orchestrators set variables such as
 * PHOTOPOOL_PORT_8080_TCP. */
#include "config/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES (1 << 20)
#define ENV_PREFIX     "PHOTOPOOL_"

/* Sets the parameter from a text. The strings of `from` must live as long as cfg. */
static enum pp_err set_text(struct pp_config *cfg, const struct pp_param *p, struct pp_config_origin from,
                            const char *text, struct pp_config_error *err)
{
    struct pp_value v = {.cfg = cfg, .param = p, .file = from.name, .err = err};
    *pp_config_origin(cfg, p) = from;
    return pp_value_set_text(&v, text);
}

/* Sets the parameter to its default value. In it, DIR stands for the data directory and VERSION for
 * the program's version. */
static enum pp_err apply_default(struct pp_config *cfg, const struct pp_param *p, struct pp_config_error *err)
{
    const char *mark, *text = p->def;
    if ((mark = strstr(text, "DIR")))
        text = pp_arena_printf(&cfg->arena, "%.*s%s%s", (int)(mark - text), text, cfg->data_dir, mark + 3);
    else if ((mark = strstr(text, "VERSION")))
        text = pp_arena_printf(&cfg->arena, "%.*s%s%s", (int)(mark - text), text, PP_VERSION, mark + 7);
    return text ? set_text(cfg, p, (struct pp_config_origin){PP_SOURCE_DEFAULT, "", 0}, text, err)
                : PP_ENOMEM;
}

static enum pp_err apply_defaults(struct pp_config *cfg, struct pp_config_error *err)
{
    size_t n;
    const struct pp_param *p = pp_params(&n);
    enum pp_err e = PP_OK;
    cfg->origin = pp_arena_array(&cfg->arena, n, sizeof *cfg->origin);
    if (!cfg->origin)
        return PP_ENOMEM;
    for (size_t i = 0; i < n && e == PP_OK; i++)
        e = apply_default(cfg, &p[i], err);
    return e;
}

static enum pp_err apply_stream(struct pp_config *cfg, const char *name, FILE *f, struct pp_config_error *err)
{
    char *text = malloc(FILE_MAX_BYTES + 1);
    if (!text)
        return PP_ENOMEM;
    size_t len = fread(text, 1, FILE_MAX_BYTES + 1, f);
    enum pp_err e;
    if (len > FILE_MAX_BYTES) {
        e = pp_config_fail(err, name, 0, "", "the file is over 1 MiB");
    } else if (ferror(f)) {
        pp_config_fail(err, name, 0, "", "can't be read: %s", strerror(errno));
        e = PP_EIO;
    } else {
        cfg->file = name;
        e = pp_config_apply_yaml(cfg, name, text, len, err);
    }
    free(text);
    return e;
}

/* Returns true if only this user and root can write to the file or folder. In a sticky folder, such
 * as /tmp, others can't replace a file. */
static bool is_trusted(const struct stat *st)
{
    bool open = (st->st_mode & 0022) && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX));
    return (st->st_uid == geteuid() || st->st_uid == 0) && !open;
}

/* Refuses the file of the current folder if it may be a stranger's: nobody has named it. */
static enum pp_err check_found(const char *name, FILE *f, struct pp_config_error *err)
{
    struct stat file, folder;
    if (fstat(fileno(f), &file) == 0 && stat(".", &folder) == 0 && is_trusted(&file) && is_trusted(&folder))
        return PP_OK;
    return pp_config_fail(
        err, name, 0, "",
        "other users can write to it or to its folder; if you trust it, name it: --config %s", name);
}

/* Applies src->text, or the file that src names, or the first default file that exists. Returns
 * PP_OK if no file exists. */
static enum pp_err load_file(struct pp_config *cfg, const struct pp_config_sources *src,
                             struct pp_config_error *err)
{
    static const char *const places[] = {"./photopool.yaml", "/etc/photopool/photopool.yaml"};
    const char *name = src->file;
    FILE *f = NULL;
    if (src->text || (name && !*name)) {
        cfg->file = pp_arena_strdup(&cfg->arena, name ? name : "");
        if (!cfg->file)
            return PP_ENOMEM;
        return src->text ? pp_config_apply_yaml(cfg, cfg->file, src->text, src->text_len, err) : PP_OK;
    }
    for (size_t i = 0; !f && i < (src->file ? 1 : sizeof places / sizeof places[0]); i++) {
        name = src->file ? src->file : places[i];
        f = fopen(name, "re");
        if (f || (!src->file && (errno == ENOENT || errno == ENOTDIR)))
            continue;
        pp_config_fail(err, name, 0, "", "can't be opened: %s", strerror(errno));
        return PP_EIO;
    }
    if (!f)
        return PP_OK;
    enum pp_err e = !src->file && name == places[0] ? check_found(name, f, err) : PP_OK;
    name = pp_arena_strdup(&cfg->arena, name);
    if (e == PP_OK)
        e = name ? apply_stream(cfg, name, f, err) : PP_ENOMEM;
    fclose(f);
    return e;
}

static const struct pp_param *find_env(const char *name, size_t n)
{
    char var[96];
    size_t count;
    const struct pp_param *p = pp_params(&count);
    for (size_t i = 0; i < count; i++) {
        pp_param_env(&p[i], var, sizeof var);
        if (strlen(var) == n && memcmp(var, name, n) == 0)
            return &p[i];
    }
    return NULL;
}

/* Returns true if the variable begins with PHOTOPOOL_ and the name of a section. */
static bool in_our_section(const char *name)
{
    size_t n;
    const struct pp_section *s = pp_sections(&n);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(s[i].name), prefix = strlen(ENV_PREFIX);
        if (strncasecmp(name + prefix, s[i].name, len) == 0 && name[prefix + len] == '_')
            return true;
    }
    return false;
}

static enum pp_err unknown_env(const char *name, struct pp_config_error *err)
{
    char var[96];
    const struct pp_param *near = pp_param_near(name);
    if (near) {
        pp_param_env(near, var, sizeof var);
        return pp_config_fail(err, "environment", 0, name, "no such variable (did you mean %s?)", var);
    }
    if (in_our_section(name))
        return pp_config_fail(err, "environment", 0, name,
                              "no such variable; allowed: see photopool config --help");
    return PP_OK;
}

static enum pp_err apply_env(struct pp_config *cfg, const char *entry, struct pp_config_error *err)
{
    size_t n = strcspn(entry, "=");
    if (strncmp(entry, ENV_PREFIX, strlen(ENV_PREFIX)) || !entry[n])
        return PP_OK;
    const char *name = pp_arena_copy(&cfg->arena, entry, n);
    if (!name)
        return PP_ENOMEM;
    const struct pp_param *p = find_env(name, n);
    if (!p)
        return unknown_env(name, err);
    if (!entry[n + 1])
        return PP_OK; /* an empty variable counts as not set */
    return set_text(cfg, p, (struct pp_config_origin){PP_SOURCE_ENV, name, 0}, entry + n + 1, err);
}

static enum pp_err apply_set(struct pp_config *cfg, const char *set, struct pp_config_error *err)
{
    size_t n = strcspn(set, "=");
    const char *name = pp_arena_copy(&cfg->arena, set, n);
    if (!name)
        return PP_ENOMEM;
    const struct pp_param *p = pp_param_find(name);
    if (!p && !set[n] && !pp_param_is_section(name))
        return pp_config_fail(err, "--set", 0, "", "no such parameter; allowed: --set NAME=VALUE");
    if (!p)
        return pp_config_unknown("--set", 0, name, err);
    if (!set[n])
        return pp_config_fail(err, "--set", 0, name, "there is no value; write --set %s=VALUE", name);
    return set_text(cfg, p, (struct pp_config_origin){PP_SOURCE_FLAG, "--set", 0}, set + n + 1, err);
}

static enum pp_err apply_all(struct pp_config *cfg, const struct pp_config_sources *src,
                             struct pp_config_error *err)
{
    enum pp_err e = apply_defaults(cfg, err);
    if (e == PP_OK)
        e = load_file(cfg, src, err);
    for (const char *const *env = src->env; e == PP_OK && env && *env; env++)
        e = apply_env(cfg, *env, err);
    for (size_t i = 0; e == PP_OK && i < src->n_sets; i++)
        e = apply_set(cfg, src->sets[i], err);
    return e == PP_OK ? pp_config_cross_check(cfg, err) : e;
}

enum pp_err pp_config_load(struct pp_config **out, const struct pp_config_sources *src,
                           struct pp_config_error *err)
{
    *out = NULL;
    *err = (struct pp_config_error){0};
    struct pp_config *cfg = calloc(1, sizeof *cfg);
    enum pp_err e = PP_ENOMEM;
    if (cfg) {
        pp_arena_init(&cfg->arena, 0);
        cfg->file = "";
        cfg->data_dir = pp_arena_strdup(&cfg->arena, src->data_dir ? src->data_dir : "photopool-data");
        if (cfg->data_dir)
            e = apply_all(cfg, src, err);
    }
    if (e == PP_OK) {
        *out = cfg;
        return PP_OK;
    }
    if (e == PP_ENOMEM)
        pp_config_fail(err, "", 0, "", "%s", pp_err_text(e));
    pp_config_free(cfg);
    return e;
}

void pp_config_free(struct pp_config *cfg)
{
    if (!cfg)
        return;
    pp_arena_fini(&cfg->arena);
    free(cfg);
}

/* --- the options --config, --set and --data --- */

/* Returns where to store the value of the option `arg`, or NULL if `arg` is another option. *value
 * is the text behind '=', or NULL if there is none. */
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

/* Replaces the value of a secret parameter in an option --set by stars. Other users of the machine
 * can read the arguments of a process in /proc. An option that names no parameter may be a secret
 * as a whole, such as "auth: {ticket_secret: X}". */
static void hide_secret(char *set)
{
    size_t n = strcspn(set, "=");
    char name[128];

    snprintf(name, sizeof name, "%.*s", (int)n, set);
    const struct pp_param *p = pp_param_find(name);
    if (!p)
        memset(set, '*', strlen(set));
    else if ((p->flags & PP_PARAM_SECRET) && set[n])
        memset(set + n + 1, '*', strlen(set + n + 1));
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
        if (to != &sets[src->n_sets])
            continue;
        sets[src->n_sets] = strdup(value);
        if (!sets[src->n_sets]) {
            pp_config_args_fini(src);
            pp_config_fail(err, "", 0, "", "%s", pp_err_text(PP_ENOMEM));
            return PP_ENOMEM;
        }
        src->n_sets++;
        hide_secret((char *)(uintptr_t)value);
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    argv[ *argc = kept] = NULL;
    return PP_OK;
}

void pp_config_args_fini(struct pp_config_sources *src)
{
    for (size_t i = 0; i < src->n_sets; i++)
        free((void *)(uintptr_t)src->sets[i]);
    free((void *)(uintptr_t)src->sets);
    *src = (struct pp_config_sources){0};
}
