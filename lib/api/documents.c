/* documents.c: serves the documents that are built into the program: the API descriptions and the
 * dashboard. */
#include "api/handler.h"

/* CMakeLists.txt makes these arrays from openapi.json, asyncapi.json and dashboard.html. */
extern const unsigned char pp_openapi_json[], pp_asyncapi_json[], pp_dashboard_html[];
extern const size_t pp_openapi_json_n, pp_asyncapi_json_n, pp_dashboard_html_n;

void pp_api_openapi(struct pp_call *call)
{
    pp_buf_put(&call->out, pp_openapi_json, pp_openapi_json_n);
    pp_call_json(call, 200);
}

void pp_api_asyncapi(struct pp_call *call)
{
    pp_buf_put(&call->out, pp_asyncapi_json, pp_asyncapi_json_n);
    pp_call_json(call, 200);
}

void pp_api_dashboard(struct pp_call *call)
{
    pp_call_header(call, "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
                         "style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
                         "form-action 'none'; frame-ancestors 'none'");
    pp_call_header(call, "Referrer-Policy: no-referrer");
    pp_buf_put(&call->out, pp_dashboard_html, pp_dashboard_html_n);
    pp_call_body(call, 200, "text/html; charset=utf-8");
}
