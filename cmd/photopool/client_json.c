/* client_json.c: requests whose answers are JSON objects. See client.h. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

static int call(struct pp_api_client *c, const struct pp_request *req, json_t **out)
{
    struct pp_answer ans;
    enum pp_err err = pp_client_send(c, req, &ans);
    int code = PP_EXIT_FAILED;
    *out = NULL;
    if (err != PP_OK || ans.status / 100 != 2) {
        code = pp_client_failed(c, err, &ans);
    } else {
        *out = json_loadb(ans.body.p ? ans.body.p : "", ans.body.n, JSON_ALLOW_NUL, NULL);
        if (json_is_object(*out)) {
            code = PP_EXIT_DONE;
        } else {
            pp_complain("%s answered HTTP %ld, but not with a JSON object; is a photopool server there?",
                        pp_client_base(c), ans.status);
            json_decref(*out);
            *out = NULL;
        }
    }
    pp_answer_fini(&ans);
    return code;
}

int pp_client_get(struct pp_api_client *c, const char *path, json_t **out)
{
    return call(c, &(struct pp_request){.method = "GET", .path = path}, out);
}

int pp_client_post(struct pp_api_client *c, const char *method, const char *path, const json_t *body,
                   json_t **out)
{
    char *text = json_dumps(body, JSON_COMPACT);
    *out = NULL;
    if (!text) {
        pp_complain("what was given is not valid UTF-8");
        return PP_EXIT_USAGE;
    }
    struct pp_request req = {
        .method = method, .path = path, .body = text, .n = strlen(text), .has_body = true};
    int code = call(c, &req, out);
    free(text);
    return code;
}

int pp_client_change(struct pp_api_client *c, const char *path, const char *const *fields, size_t n,
                     const json_t *changes, json_t **out)
{
    int code = pp_client_get(c, path, out);
    if (code != PP_EXIT_DONE || json_object_size(changes) == 0)
        return code;
    json_t *body = json_object(), *now = *out;
    for (size_t i = 0; i < n; i++)
        json_object_set(body, fields[i], json_object_get(now, fields[i]));
    json_object_update(body, (json_t *)(uintptr_t)changes);
    code = pp_client_post(c, "PUT", path, body, out);
    json_decref(now);
    json_decref(body);
    return code;
}
