/* photo_known.c: GET /v1/photos?client=&url=: says what is known of a photo: its bytes, its
 * failures, what is to be fetched, and its last attempts. Any spelling of its URL finds the
 * photo. */
#include "api/handler.h"
#include "core/url.h"
#include "format/ids.h"
#include "photopool/code.h"

struct known_state {
    const char *client, *url;
    struct pp_store_photo photo;
};

static void put_attempt(struct pp_call *call, const struct pp_attempt *a)
{
    char code[PP_CODE_NAME_MAX];

    PP_JSON_OBJECT(&call->out, NULL, PP_TIME("at", a->at), pp_shown_tier(call, a->tier),
                   PP_STR("code", a->code ? pp_code_name(a->code, code) : NULL), PP_UINT("ms", a->ms),
                   PP_STR("address", a->address),
                   PP_UINT_IF("http_status", a->http_status != 0, a->http_status));
}

static void on_photo_read(struct pp_call *call)
{
    const struct known_state *s = call->state;
    struct pp_buf *b = &call->out;

    if (!s->photo.named) {
        call->remedy = "Name the photo in an item of this client. If an item has named it, GET /v1/explain "
                       "says why it cannot be fetched.";
        pp_call_not_found(call);
        return;
    }
    pp_json_begin(b, NULL, '{');
    PP_JSON_MEMBERS(b, PP_STR("client", s->client), PP_STR("url", s->url));
    pp_put_known(call, &s->photo.photo);
    pp_put_ladder(call, &s->photo.photo);
    pp_put_task(call, &s->photo);
    pp_json_begin(b, "attempts", '[');
    for (uint32_t i = 0; i < s->photo.n_ended; i++)
        put_attempt(call, &s->photo.ended[i]);
    pp_json_end(b, ']');
    pp_json_end(b, '}');
    pp_call_json(call, 200);
}

void pp_api_find_photo(struct pp_call *call)
{
    struct known_state *s = pp_call_state(call, sizeof(*s));
    char text[PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];
    struct pp_url url;

    if (!pp_call_client(call, &s->client))
        return;
    s->url = pp_call_param(call, "url");
    if (!s->client || !s->url) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, s->client ? "url" : "client",
                        "a photo is found by client and url");
        return;
    }
    size_t n = strlen(s->url);
    uint16_t code = pp_url_read(&url, NULL, s->url, n, text, why);
    if (code == PP_CODE_INTERNAL) {
        pp_call_no_memory(call);
        return;
    }
    if (code) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "url", "%s", why);
        return;
    }
    call->missing = "photopool has fetched no photo with this URL for this client, and has none to fetch";
    s->photo.client = s->client;
    s->photo.key = pp_photo_key(s->client, &url, s->url, n);
    PP_CALL_ASK(call, call->o->store, photo, &s->photo, "reading a photo", on_photo_read);
}
