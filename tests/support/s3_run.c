/* s3_run.c: runs the S3 server of tests/support/s3rver as a child of a test. */
#include "s3_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char program[] = "tests/support/s3rver";

static void give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", program, what);
    exit(1);
}

struct pp_test_s3 pp_test_s3_start(const char *certificate)
{
    struct pp_test_s3 s = {.pid = -1};
    int in[2], out[2];
    char line[256] = "";
    static const char says[] = "listening on ";

    if (pipe(in) != 0 || pipe(out) != 0)
        give_up(strerror(errno));
    fflush(NULL);
    s.pid = fork();
    if (s.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        execl(program, program, certificate ? "--tls" : (char *)NULL, certificate, (char *)NULL);
        fprintf(stderr, "%s: %s\n", program, strerror(errno));
        _exit(127);
    }
    if (s.pid < 0)
        give_up(strerror(errno));
    close(in[0]);
    close(out[1]);
    s.leash = in[1];
    FILE *f = fdopen(out[0], "r");
    if (!f || !fgets(line, sizeof(line), f) || strncmp(line, says, sizeof(says) - 1) != 0)
        give_up("did not come up");
    fclose(f);
    snprintf(s.url, sizeof(s.url), "%.*s", (int)strcspn(line + sizeof(says) - 1, "\n"),
             line + sizeof(says) - 1);
    return s;
}

void pp_test_s3_stop(struct pp_test_s3 *s)
{
    close(s->leash);
    waitpid(s->pid, NULL, 0);
}
