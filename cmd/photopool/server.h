/* server.h: runs a process with some roles until a signal stops it; shared by up and serve. */
#ifndef PHOTOPOOL_CMD_SERVER_H
#define PHOTOPOOL_CMD_SERVER_H

#include <stdbool.h>

#include "config/config.h"

struct pp_server_command {
    const char *name, *usage;
    unsigned roles; /* roles of the process (PP_ROLE_*); 0: the option --roles gives them */
    /* Returns false, after a message on standard error, if this command cannot run with the
     * configuration. */
    bool (*check)(const struct pp_config *config, unsigned roles);
};

/* Reads the command line and the configuration, opens everything, prints where the server listens,
 * and runs. Returns the exit code. */
int pp_server_run(const struct pp_server_command *command, int argc, char **argv);

#endif
