/* s3_run.h: tests/support/s3rver as a child of a test. */
#ifndef PP_TEST_S3_RUN_H
#define PP_TEST_S3_RUN_H

#include <sys/types.h>

/* What it knows; see s3server/server.js. Buckets are "photos" and "other". */
#define PP_TEST_S3_KEY    "S3RVER"
#define PP_TEST_S3_SECRET "S3RVER/+secret"
#define PP_TEST_S3_TOKEN  "session/+token="

struct pp_test_s3 {
    pid_t pid;
    int leash;    /* it ends when this is closed, also by the test's death */
    char url[64]; /* "http://127.0.0.1:PORT", or https */
};

/* Starts it, from the repository's root; installs its packages first where they are not there. Exits the
 * process, with the reason on standard error, where it does not come up. `certificate` is the file that it
 * writes its own to, and then it speaks TLS; NULL: it does not. */
struct pp_test_s3 pp_test_s3_start(const char *certificate);
void pp_test_s3_stop(struct pp_test_s3 *s);

#endif
