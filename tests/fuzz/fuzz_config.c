/* fuzz_config.c: fuzzes the configuration file. Checks that any bytes are either accepted or
 * refused with an error text, and that the printed form of an accepted configuration loads
 * again. */
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct pp_config_error *err)
{
    if (!*err->text || err->line < 0)
        abort();
    for (const char *c = err->text; *c; c++)
        if ((unsigned char)*c < ' ')
            abort();
}

/* Checks that the printed form of a valid configuration is a valid configuration. API keys and the
 * secret of tickets are left out, because the printed form hides them. */
static void print_and_reload(struct pp_config *cfg)
{
    cfg->auth.keys.n = 0;
    cfg->auth.ticket_secret = "";
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return;
    pp_config_print(f, cfg, PP_PRINT_YAML);
    fclose(f);
    struct pp_config *again;
    struct pp_config_error err;
    struct pp_config_sources src = {.file = "print", .text = text, .text_len = n};
    if (pp_config_load(&again, &src, &err) != PP_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, text);
        abort();
    }
    pp_config_free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pp_config *cfg;
    struct pp_config_error err;
    struct pp_config_sources src = {.file = "fuzz.yaml", .text = (const char *)data, .text_len = size};
    if (pp_config_load(&cfg, &src, &err) == PP_OK)
        print_and_reload(cfg);
    else
        check_error(&err);
    pp_config_free(cfg);
    return 0;
}
