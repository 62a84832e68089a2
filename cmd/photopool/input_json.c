/* input_json.c: reads a JSON array of items, or a whole batch as POST /v1/batches takes it. */
#include "input.h"

#include "json_split.h"

#include <stdio.h>
#include <stdlib.h>

struct json {
    struct pp_json_split split;
    struct pp_json_split_ops ops;
    char *error;
};

static void *json_open(const struct pp_input_sink *sink, char *error)
{
    struct json *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->ops = (struct pp_json_split_ops){.element = sink->item, .member = sink->member};
    s->error = error;
    pp_json_split_init(&s->split, "items", PP_INPUT_ITEM_MAX, &s->ops, sink->arg);
    return s;
}

static enum pp_err explain(struct json *s, enum pp_err err)
{
    if (err == PP_EINVAL && *s->split.error)
        snprintf(s->error, PP_INPUT_ERROR, "%s", s->split.error);
    return err;
}

static enum pp_err json_feed(void *state, const char *p, size_t n)
{
    struct json *s = state;
    return explain(s, pp_json_split_feed(&s->split, p, n));
}

static enum pp_err json_end(void *state)
{
    struct json *s = state;
    enum pp_err err = explain(s, pp_json_split_end(&s->split));
    if (err == PP_OK && !s->split.found) {
        snprintf(s->error, PP_INPUT_ERROR, "there is no list \"items\"");
        err = PP_EINVAL;
    }
    return err;
}

static void json_close(void *state)
{
    struct json *s = state;
    pp_json_split_fini(&s->split);
    free(s);
}

const struct pp_input_format pp_input_json = {"json", json_open, json_feed, json_end, json_close};
