/* cmd.h: the subcommands. Each takes its own argv (argv[0] is its name) and answers the exit code: 0 done, 1
 * failed, 2 usage, 3 partly, 4 cannot reach the server. */
#ifndef PHOTOPOOL_CMD_H
#define PHOTOPOOL_CMD_H

int pp_cmd_config(int argc, char **argv);

#endif
