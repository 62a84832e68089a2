/* documents.c: serves the API descriptions, which are built into the program. */
#include "api/handler.h"

/* CMakeLists.txt makes these arrays from openapi.json and asyncapi.json. */
extern const unsigned char pp_openapi_json[], pp_asyncapi_json[];
extern const size_t pp_openapi_json_n, pp_asyncapi_json_n;

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
