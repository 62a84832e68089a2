/* webhook_tables.h: shows webhooks and their deliveries: as tables on a terminal, elsewhere as
 * lines of JSON. */
#ifndef PHOTOPOOL_WEBHOOK_TABLES_H
#define PHOTOPOOL_WEBHOOK_TABLES_H

#include "client.h"

/* Shows all webhooks. Returns PP_EXIT_DONE, or an exit code after a message. */
int pp_list_webhooks(const struct pp_cli *cli, struct pp_api_client *c);
/* Shows at most `limit` deliveries. `path` is the path of the list, with its parameters. */
int pp_list_deliveries(const struct pp_cli *cli, struct pp_api_client *c, const char *path, int64_t limit);

#endif
