/* print.c: prints the effective configuration with the source of each value, and finds the
 * differences between two configurations. */
#include "config/value.h"

#include <stdlib.h>
#include <string.h>

static const char *const source_names[] = {"default", "file", "env", "flag"};

static void print_json(FILE *f, const struct pp_config *cfg, const struct pp_param *p,
                       const struct pp_config_origin *o)
{
    struct pp_put put = {.f = f, .json = true};
    fprintf(f, "{\"name\": \"%s\", \"value\": ", p->name);
    pp_value_put(&put, cfg, p);
    fprintf(f, ", \"source\": \"%s\", \"origin\": ", source_names[o->source]);
    pp_put_text(&put, o->name);
    if (o->line)
        fprintf(f, ", \"line\": %d", o->line);
    else
        fputs(", \"line\": null", f);
    fprintf(f, ", \"reloadable\": %s}", p->flags & PP_PARAM_RELOADABLE ? "true" : "false");
}

/* Returns the value as text, or NULL when out of memory. The caller frees it. */
static char *value_text(const struct pp_config *cfg, const struct pp_param *p, struct pp_put put)
{
    char *text = NULL;
    size_t n = 0;
    put.f = open_memstream(&text, &n);
    if (!put.f)
        return NULL;
    pp_value_put(&put, cfg, p);
    fclose(put.f);
    return text;
}

/* Prints a parameter as YAML. Before the first parameter of a section, prints the section's
 * head. */
static void print_yaml(FILE *f, const struct pp_config *cfg, const struct pp_param *p,
                       const struct pp_config_origin *o, bool first_of_section)
{
    const char *key = strchr(p->name, '.') + 1;
    if (first_of_section)
        fprintf(f, "%.*s:\n", (int)(key - 1 - p->name), p->name);
    char *text = value_text(cfg, p, (struct pp_put){0});
    int n = fprintf(f, "  %s: %s", key, text ? text : "");
    fprintf(f, "%*s  # %s", n < 44 ? 44 - n : 0, "", o->source == PP_SOURCE_DEFAULT ? "default" : o->name);
    if (o->line)
        fprintf(f, ":%d", o->line);
    fputc('\n', f);
    free(text);
}

void pp_config_print(FILE *f, const struct pp_config *cfg, enum pp_config_format format)
{
    size_t n;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++) {
        if (format == PP_PRINT_JSON) {
            print_json(f, cfg, &p[i], &cfg->origin[i]);
            fputc('\n', f);
            continue;
        }
        size_t section = strcspn(p[i].name, ".") + 1;
        print_yaml(f, cfg, &p[i], &cfg->origin[i], i == 0 || strncmp(p[i].name, p[i - 1].name, section) != 0);
    }
}

char *pp_config_row(const struct pp_config *started, const struct pp_config *later, size_t i)
{
    char *text = NULL;
    size_t n, bytes = 0;
    const struct pp_param *p = pp_params(&n);
    FILE *f = i < n ? open_memstream(&text, &bytes) : NULL;
    if (!f)
        return NULL;
    const struct pp_config *cfg = p[i].flags & PP_PARAM_RELOADABLE ? later : started;
    print_json(f, cfg, &p[i], &cfg->origin[i]);
    fclose(f);
    return text;
}

/* Calls cb for a parameter that has changed, with its values without secrets. */
static void tell_change(const struct pp_config *a, const struct pp_config *b, const struct pp_param *p,
                        void (*cb)(void *arg, const struct pp_config_change *change), void *arg)
{
    char *from = value_text(a, p, (struct pp_put){.json = true});
    char *to = value_text(b, p, (struct pp_put){.json = true});
    cb(arg, &(struct pp_config_change){p, from, to});
    free(from);
    free(to);
}

void pp_config_diff(const struct pp_config *a, const struct pp_config *b,
                    void (*cb)(void *arg, const struct pp_config_change *change), void *arg)
{
    size_t n;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++) {
        const struct pp_put put = {.json = true, .secrets = true};
        char *old = value_text(a, &p[i], put), *new = value_text(b, &p[i], put);
        if (!old || !new || strcmp(old, new))
            tell_change(a, b, &p[i], cb, arg);
        free(old);
        free(new);
    }
}
