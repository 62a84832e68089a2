/* server.h: a process that serves roles until it is told to stop: what up and serve have in common. */
#ifndef PHOTOPOOL_CMD_SERVER_H
#define PHOTOPOOL_CMD_SERVER_H

#include <stdbool.h>

#include "config/config.h"

struct pp_server_command {
    const char *name, *usage;
    unsigned roles; /* PP_ROLE_*; 0: --roles says */
    /* Is the configuration one for this command? If not, it has said why on standard error. */
    bool (*check)(const struct pp_config *config, unsigned roles);
};

/* Reads the command line and the configuration, opens everything, prints where it listens, runs. The exit
 * code. */
int pp_server_run(const struct pp_server_command *command, int argc, char **argv);

#endif
