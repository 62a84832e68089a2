/* config.c: GET /v1/config: shows the parameters that are in force in this process, and where each
 * value came from. */
#include <stdlib.h>

#include "api/handler.h"

void pp_api_list_config(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    char *row;

    if (!pp_page_read(call, "parameters", ""))
        return;
    pp_assert(!call->only_client, "the configuration is shown to a key that is bound to a client");
    pp_page_open(call);
    for (size_t i = 0; o->config_row && (row = o->config_row(o->config_data, i)); i++) {
        if (pp_page_has(call))
            pp_json_raw(&call->out, NULL, row, strlen(row));
        free(row);
    }
    pp_page_send(call, pp_page_more(call));
}
