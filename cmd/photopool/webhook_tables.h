/* webhook_tables.h: lists of webhooks and of their deliveries: tables on a terminal, otherwise JSON lines. */
#ifndef PHOTOPOOL_WEBHOOK_TABLES_H
#define PHOTOPOOL_WEBHOOK_TABLES_H

#include "client.h"

/* PP_EXIT_DONE, or an exit code after a message. */
int pp_list_webhooks(const struct pp_cli *cli, struct pp_client *c);
/* path: of the list, with its parameters. At most `limit`. */
int pp_list_deliveries(const struct pp_cli *cli, struct pp_client *c, const char *path, int64_t limit);

#endif
