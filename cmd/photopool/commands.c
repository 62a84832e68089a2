/* commands.c: the table of subcommands, and `photopool completion`, which prints a script that
 * completes them and their options in a shell. The script reads the options of a subcommand from
 * its --help, so that a new option needs no change here.
 *
 * To add a subcommand: write cmd_<name>.c, declare its function in cmd.h, and add a row here. Rows
 * of one group stand together. */
#include "cli.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A row without a function begins a group in the help text. */
const struct pp_command pp_commands[] = {
    {"Run a server", NULL, NULL, NULL},
    {"up", "[--data DIR]", "everything in one process, no servers needed", pp_cmd_up},
    {"serve", "--roles LIST", "some roles of a fleet, over MongoDB and Redis", pp_cmd_serve},
    {"config", "[--server]", "the configuration here or of a server, and every parameter", pp_cmd_config},

    {"Batches", NULL, NULL, NULL},
    {"submit", "FILE|- --client ID [--follow]", "send a file of items: NDJSON, JSON or CSV", pp_cmd_submit},
    {"status", "[BATCH] [--follow]", "how far a batch is, or the latest batches", pp_cmd_status},
    {"results", "BATCH", "what became of its items", pp_cmd_results},
    {"item", "CLIENT ITEM", "what became of one item, or what it waits for", pp_cmd_item},
    {"items", "CLIENT [--status S] [--prefix TEXT]", "a client's items, and what became of them",
     pp_cmd_items},
    {"refresh", "CLIENT ITEM", "fetch all photos of an item again", pp_cmd_refresh},
    {"forget", "CLIENT ITEM [--force]", "delete all revisions of an item", pp_cmd_forget},
    {"cancel", "BATCH", "start no more requests for a batch", pp_cmd_cancel},
    {"replay", "BATCH [--code C] [--domain D]", "fetch again what failed", pp_cmd_replay},

    {"Consumers", NULL, NULL, NULL},
    {"events", "[--key K]... [--after N]", "follow results, batches and operations as they happen",
     pp_cmd_events},
    {"webhooks", "list|add|test|replay|...", "endpoints that get each result by POST", pp_cmd_webhooks},

    {"Operation", NULL, NULL, NULL},
    {"photo", "--client ID URL", "what is known of a photo, and its last attempts", pp_cmd_photo},
    {"explain", "--client ID URL", "what would happen to a photo now, and why", pp_cmd_explain},
    {"clients", "[--paused]", "the clients, and their settings", pp_cmd_clients},
    {"limits", "CLIENT [--rpm N]", "show or change a client's limits", pp_cmd_limits},
    {"pause", "CLIENT", "start no requests for a client", pp_cmd_pause},
    {"resume", "CLIENT", "start them again", pp_cmd_resume},
    {"queue", "[set-aside|retry|fail]", "what waits, and what could not be planned", pp_cmd_queue},
    {"workers", "", "who fetches, and how busy they are", pp_cmd_workers},
    {"routes", "[--client ID] [--domain D]", "what was learned about hosts", pp_cmd_routes},
    {"hosts", "[--state S]", "how photo hosts answer, and their breakers", pp_cmd_hosts},
    {"breaker", "HOST open|close|auto", "hold back a host's photos, or let them through", pp_cmd_breaker},
    {"stats", "[CLIENT] [--from DAY]", "photos per day, of a client, a host or all", pp_cmd_stats},
    {"errors", "", "the codes of failures, and what they mean", pp_cmd_errors},
    {"drain", "[WORKER]", "let workers finish, claim no more and end", pp_cmd_drain},

    {"This program", NULL, NULL, NULL},
    {"doctor", "[--data DIR]", "checks what a server needs here, and says what to do", pp_cmd_doctor},
    {"bench", "[--seconds N]", "how fast this machine is, with a made-up photo host", pp_cmd_bench},
    {"completion", "bash|zsh|fish", "a script that completes commands and options", pp_cmd_completion},
    {"version", "", "its version", pp_cmd_version},
};
const size_t pp_n_commands = sizeof pp_commands / sizeof *pp_commands;

/* --- `photopool completion` --- */

static const char completion_help[] =
    "Usage: photopool completion bash|zsh|fish\n\n"
    "Prints a script for your shell that completes photopool's commands and options.\n\n"
    "Examples:\n"
    "  photopool completion bash > /etc/bash_completion.d/photopool\n"
    "  photopool completion zsh > \"${fpath[1]}/_photopool\"\n"
    "  photopool completion fish > ~/.config/fish/completions/photopool.fish\n";

/* Lists the options that the help of subcommand $1 names. */
static const char options[] =
    "    photopool \"$1\" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u\n";

static void print_names(const char *separator)
{
    for (size_t i = 0, n = 0; i < pp_n_commands; i++)
        if (pp_commands[i].run)
            printf("%s%s", n++ > 0 ? separator : "", pp_commands[i].name);
}

static void print_bash(void)
{
    printf("# bash completion for photopool\n_photopool_options() {\n%s}\n", options);
    fputs("_photopool() {\n"
          "    local word=\"${COMP_WORDS[COMP_CWORD]}\"\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          stdout);
    print_names(" ");
    fputs("\" -- \"$word\"))\n"
          "    elif [ \"${word#-}\" != \"$word\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$(_photopool_options \"${COMP_WORDS[1]}\")\" -- \"$word\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _photopool photopool\n",
          stdout);
}

static void print_zsh(void)
{
    printf("#compdef photopool\n_photopool_options() {\n%s}\n", options);
    fputs("_photopool() {\n"
          "    if (( CURRENT == 2 )); then\n"
          "        compadd -- ",
          stdout);
    print_names(" ");
    fputs("\n"
          "    elif [[ \"${words[CURRENT]}\" == -* ]]; then\n"
          "        compadd -- ${(f)\"$(_photopool_options \"${words[2]}\")\"}\n"
          "    else\n"
          "        _files\n"
          "    fi\n"
          "}\n"
          "if [ \"$funcstack[1]\" = _photopool ]; then _photopool; else compdef _photopool photopool; fi\n",
          stdout);
}

static void print_fish(void)
{
    puts("# fish completion for photopool\n"
         "function __photopool_options\n"
         "    set -l words (commandline -opc)\n"
         "    test (count $words) -ge 2; or return\n"
         "    photopool $words[2] --help 2>/dev/null | string match -ra -- '--[a-z][a-z-]*' | sort -u\n"
         "end");
    for (size_t i = 0; i < pp_n_commands; i++)
        if (pp_commands[i].run)
            printf("complete -c photopool -n __fish_use_subcommand -f -a %s\n", pp_commands[i].name);
    puts("complete -c photopool -n 'not __fish_use_subcommand' -a '(__photopool_options)'");
}

int pp_cmd_completion(int argc, char **argv)
{
    struct pp_cli cli;
    int code = pp_cli_parse(&cli, argc, argv,
                            &(struct pp_cli_spec){completion_help, NULL, 0, 1, 1, "bash|zsh|fish"});
    if (code != PP_CLI_GO)
        return code;
    if (strcmp(cli.args[0], "bash") == 0)
        print_bash();
    else if (strcmp(cli.args[0], "zsh") == 0)
        print_zsh();
    else if (strcmp(cli.args[0], "fish") == 0)
        print_fish();
    else
        return pp_cli_usage(&cli, "there is a script for bash, zsh and fish, not for \"%s\"", cli.args[0]);
    return pp_cli_end(PP_EXIT_DONE);
}
