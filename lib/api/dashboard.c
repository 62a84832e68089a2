/* dashboard.c: serves the dashboard: GET / is its page, GET /ui/... are the files that the page
 * loads. Everything else the page asks of the API, like any other caller.
 *
 * Browsers keep a copy of each file, and ask before each use whether it is still the same (ETag):
 * so a new version of the program is seen at once, and an unchanged file costs a 304. */
#include <strings.h>

#include "api/assets.h"
#include "api/handler.h"

/* The page runs only the scripts of this server, and no text can become markup or script in it,
 * even by a mistake in these scripts. `blob:` is for photos, which the page loads with its API
 * key. */
#define POLICY                                                                           \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; " \
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "    \
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

/* Returns true if the Accept-Encoding header (NULL: there is none) lists gzip, and not with the
 * weight 0 (RFC 9110 section 12.5.3). */
static bool accepts_gzip(const char *p)
{
    while (p && *p) {
        p += strspn(p, ", \t");
        size_t n = strcspn(p, ",");
        if (strncasecmp(p, "gzip", 4) == 0 && strcspn(p, ",; \t") == 4) {
            const char *weight = memmem(p, n, "q=", 2);
            return !weight || strtod(weight + 2, NULL) > 0;
        }
        p += n;
    }
    return false;
}

/* The bytes of a file are constant, so nothing is to be released. */
static void keep(void *data)
{
    (void)data;
}

static void send_asset(struct pp_call *call, const struct pp_asset *asset)
{
    const struct pp_http_request *req = call->req;
    bool packed = accepts_gzip(req->accept_encoding);
    struct pp_http_response res = {.status = 200,
                                   .content_type = asset->type,
                                   .body = (const char *)(packed ? asset->packed : asset->plain),
                                   .body_n = packed ? asset->packed_n : asset->plain_n,
                                   .release = keep};
    char tag[80];

    pp_assert(asset->plain_n > 0 && asset->packed_n > 0, "a file of the dashboard is empty");
    pp_assert(strlen(asset->sha256) <= sizeof(tag) - sizeof("\"-gzip\""), "a hash is longer than its buffer");
    /* The two forms of a file have different bytes, so they have different tags. */
    snprintf(tag, sizeof(tag), "\"%s%s\"", asset->sha256, packed ? "-gzip" : "");
    pp_call_header(call, "ETag: %s", tag);
    pp_call_header(call, "Cache-Control: no-cache");
    pp_call_header(call, "Vary: Accept-Encoding");
    pp_call_header(call, POLICY);
    pp_call_header(call, "Referrer-Policy: no-referrer");
    if (pp_etag_matches(req->if_none_match, tag))
        res = (struct pp_http_response){.status = 304};
    else if (packed)
        pp_call_header(call, "Content-Encoding: gzip");
    pp_call_reply(call, &res);
}

/* Sends the file DIR/NAME, or NAME if `dir` is NULL. */
static void send_file(struct pp_call *call, const char *dir, const char *name)
{
    const char *path = dir ? pp_call_printf(call, "%s/%s", dir, name) : name;

    if (!path)
        return;
    for (size_t i = 0; i < pp_assets_n; i++) {
        if (strcmp(pp_assets[i].path, path) == 0) {
            send_asset(call, &pp_assets[i]);
            return;
        }
    }
    call->missing = "the dashboard has no such file";
    pp_call_not_found(call);
}

void pp_api_dashboard(struct pp_call *call)
{
    send_file(call, NULL, "index.html");
}

void pp_api_dashboard_file(struct pp_call *call)
{
    send_file(call, NULL, call->args[0]);
}

void pp_api_dashboard_folder(struct pp_call *call)
{
    send_file(call, call->args[0], call->args[1]);
}
