/* cmd.h: the subcommands. Each gets its own argv, where argv[0] is its name, and returns the exit
 * code: 0 done, 1 failed, 2 usage, 3 partly done, 4 the server can't be reached. To add one: write
 * cmd_<name>.c, and add a line here and a row in the table of commands.c. */
#ifndef PHOTOPOOL_CMD_H
#define PHOTOPOOL_CMD_H

#include <stddef.h>

enum pp_exit {
    PP_EXIT_DONE = 0,
    PP_EXIT_FAILED = 1,
    PP_EXIT_USAGE = 2,
    PP_EXIT_PARTLY = 3,
    PP_EXIT_UNREACHABLE = 4,
};

/* A row of the table of subcommands. A row without a function begins a group of the help text. */
struct pp_command {
    const char *name, *arguments, *summary;
    int (*run)(int argc, char **argv);
};
extern const struct pp_command pp_commands[];
extern const size_t pp_n_commands;

int pp_cmd_up(int argc, char **argv);
int pp_cmd_serve(int argc, char **argv);

int pp_cmd_config(int argc, char **argv);

int pp_cmd_submit(int argc, char **argv);
int pp_cmd_status(int argc, char **argv);
int pp_cmd_results(int argc, char **argv);
int pp_cmd_replay(int argc, char **argv);
int pp_cmd_item(int argc, char **argv);
int pp_cmd_items(int argc, char **argv);
int pp_cmd_forget(int argc, char **argv);
int pp_cmd_refresh(int argc, char **argv);
int pp_cmd_cancel(int argc, char **argv);

int pp_cmd_events(int argc, char **argv);
int pp_cmd_webhooks(int argc, char **argv);

int pp_cmd_photo(int argc, char **argv);
int pp_cmd_explain(int argc, char **argv);
int pp_cmd_clients(int argc, char **argv);
int pp_cmd_limits(int argc, char **argv);
int pp_cmd_pause(int argc, char **argv);
int pp_cmd_resume(int argc, char **argv);
int pp_cmd_drain(int argc, char **argv);
int pp_cmd_queue(int argc, char **argv);
int pp_cmd_workers(int argc, char **argv);
int pp_cmd_routes(int argc, char **argv);
int pp_cmd_hosts(int argc, char **argv);
int pp_cmd_breaker(int argc, char **argv);
int pp_cmd_stats(int argc, char **argv);
int pp_cmd_errors(int argc, char **argv);

int pp_cmd_doctor(int argc, char **argv);
int pp_cmd_bench(int argc, char **argv);
int pp_cmd_completion(int argc, char **argv);
int pp_cmd_version(int argc, char **argv);

/* Returns the element of `names` that the user probably meant by `name`: one that begins with
 * `name`, or the one that the fewest edits turn into `name`; the first of several equally good
 * ones. Returns NULL if each element needs more edits than a third of its letters plus one. `names`
 * ends with NULL. */
const char *pp_suggest(const char *name, const char *const *names);

#endif
