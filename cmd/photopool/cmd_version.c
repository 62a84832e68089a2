/* cmd_version.c: `photopool version` prints the version of the program and of its libraries. */
#include "cmd.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] = "Usage: photopool version [--json]\n\n"
                           "Prints the version of photopool and of the libraries it runs with.\n\n"
                           "Examples:\n"
                           "  photopool version\n"
                           "  photopool version --json\n";

int pp_cmd_version(int argc, char **argv)
{
    bool json = !isatty(STDOUT_FILENO);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return PP_EXIT_DONE;
        }
        if (strcmp(argv[i], "--json") != 0) {
            fprintf(stderr, "photopool: version takes no \"%s\"; see photopool version --help\n", argv[i]);
            return PP_EXIT_USAGE;
        }
        json = true;
    }
    const char *curl = curl_version_info(CURLVERSION_NOW)->version;
    if (json)
        printf("{\"version\":\"%s\",\"libcurl\":\"%s\",\"jansson\":\"%s\"}\n", PP_VERSION, curl,
               jansson_version_str());
    else
        printf("photopool %s\nlibcurl %s\njansson %s\n", PP_VERSION, curl, jansson_version_str());
    return fflush(stdout) == 0 ? PP_EXIT_DONE : PP_EXIT_FAILED;
}
