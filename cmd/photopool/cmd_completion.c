/* cmd_completion.c: `photopool completion`: prints a script that completes subcommands and their
 * options in a shell. The script reads a subcommand's options from its --help, so that a new option
 * needs no change here. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
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
    const char *name;
    for (size_t i = 0; (name = pp_command_name(i)); i++)
        printf("%s%s", i > 0 ? separator : "", name);
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
    const char *name;
    puts("# fish completion for photopool\n"
         "function __photopool_options\n"
         "    set -l words (commandline -opc)\n"
         "    test (count $words) -ge 2; or return\n"
         "    photopool $words[2] --help 2>/dev/null | string match -ra -- '--[a-z][a-z-]*' | sort -u\n"
         "end");
    for (size_t i = 0; (name = pp_command_name(i)); i++)
        printf("complete -c photopool -n __fish_use_subcommand -f -a %s\n", name);
    puts("complete -c photopool -n 'not __fish_use_subcommand' -a '(__photopool_options)'");
}

int pp_cmd_completion(int argc, char **argv)
{
    struct pp_cli cli;
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){help, NULL, 0, 1, 1, "bash|zsh|fish"});
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
