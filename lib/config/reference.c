/* reference.c: writes `photopool config --help` and the page configs/README.md, both from the table
 * of parameters. */
#include "config/value.h"

#include <stdlib.h>
#include <string.h>

/* Calls row() for each parameter of the section. */
static void each_param(FILE *f, const struct pp_section *s, void (*row)(FILE *f, const struct pp_param *p))
{
    size_t n, len = strlen(s->name);
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++)
        if (strncmp(p[i].name, s->name, len) == 0 && p[i].name[len] == '.')
            row(f, &p[i]);
}

/* Returns the default as a user writes it in a file: in quotes if it is empty or ends in ':'. */
static const char *shown_default(const struct pp_param *p, char *buf, size_t n)
{
    size_t len = strlen(p->def);
    bool quote = !len || p->def[len - 1] == ':';
    snprintf(buf, n, quote ? "\"%s\"" : "%s", p->def);
    return buf;
}

static void help_row(FILE *f, const struct pp_param *p)
{
    char env[96], def[256];
    pp_param_env(p, env, sizeof env);
    fprintf(f, "  %s: %s%s\n      %s\n      Allowed: ", p->name, shown_default(p, def, sizeof def),
            p->flags & PP_PARAM_RELOADABLE ? "   (reloadable)" : "", p->help);
    pp_type_allowed(pp_type(p->type), p, f);
    fprintf(f, "\n      %s\n", env);
}

void pp_config_help(FILE *f)
{
    size_t n;
    const struct pp_section *s = pp_sections(&n);
    fputs("Parameters, with their defaults. Precedence: --set NAME=VALUE, environment, file, default. DIR is "
          "the data\n"
          "directory. Reloadable ones change with SIGHUP, others with a restart.\n",
          f);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "\n%s: %s\n", s[i].name, s[i].help);
        each_param(f, &s[i], help_row);
    }
}

/* Writes a table cell; a bar is escaped, because it would end the cell. */
static void put_cell(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', f);
        fputc(*text, f);
    }
}

static void markdown_row(FILE *f, const struct pp_param *p)
{
    char env[96], def[256], *allowed = NULL;
    size_t n = 0;
    FILE *mem = open_memstream(&allowed, &n);
    if (!mem)
        return;
    pp_type_allowed(pp_type(p->type), p, mem);
    fclose(mem);
    pp_param_env(p, env, sizeof env);
    fprintf(f, "| `%s` | `", p->name);
    put_cell(f, shown_default(p, def, sizeof def));
    fputs("` | ", f);
    put_cell(f, allowed ? allowed : "");
    fprintf(f, " | %s | ", p->flags & PP_PARAM_RELOADABLE ? "yes" : "");
    put_cell(f, p->help);
    fprintf(f, " <br>`%s` |\n", env);
    free(allowed);
}

void pp_config_markdown(FILE *f)
{
    size_t n;
    const struct pp_section *s = pp_sections(&n);
    fputs(
        "# Configuration\n\n"
        "<!-- Made by `photopool config --markdown > configs/README.md`.\n"
        "The source is lib/config/params.c. -->\n\n"
        "There are four ways to set a parameter; the first in this order wins:\n\n"
        "1. flag: `--set http.listen=127.0.0.1:9000`\n"
        "2. environment: `PHOTOPOOL_HTTP_LISTEN=127.0.0.1:9000` (an empty variable counts as not set)\n"
        "3. file: `--config FILE`, else `./photopool.yaml` (only if no other user can write to it or to\n"
        "   its folder), else `/etc/photopool/photopool.yaml`;\n"
        "   `http: {listen: ...}` or `http.listen: ...`\n"
        "4. the default below, for a small machine; `DIR` is the data directory of `photopool up --data "
        "DIR`\n\n"
        "Durations are `250ms 5s 2m 2h 30d`, sizes `64KiB 32MiB 1GiB` (or `KB MB GB`, or plain bytes), "
        "counts\n"
        "`250 10k 5M`. Lists in flags and variables are YAML in one line, `[80, 443]`; you can leave out "
        "the\n"
        "outer brackets. An unknown key, a bad unit or a value out of range ends the program with exit code "
        "2\n"
        "and a message with file, line, key and the allowed values. `photopool config` shows the values in\n"
        "force and their origin; `photopool config --check` only checks. SIGHUP reloads the parameters "
        "marked\n"
        "*live*. A reload that finds an error, no file, an empty file or no keys any more changes nothing,\n"
        "and the log says why.\n",
        f);
    for (size_t i = 0; i < n; i++) {
        fprintf(
            f,
            "\n## %s\n\n%s\n\n| parameter | default | allowed | live | |\n| --- | --- | --- | --- | --- |\n",
            s[i].name, s[i].help);
        each_param(f, &s[i], markdown_row);
    }
}
