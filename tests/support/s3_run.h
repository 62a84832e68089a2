/* s3_run.h: runs the S3 server of tests/support/s3rver as a child of a test. */
#ifndef PP_TEST_S3_RUN_H
#define PP_TEST_S3_RUN_H

#include <sys/types.h>

/* The server's access key, secret key and session token. Its buckets are "photos" and "other". */
#define PP_TEST_S3_KEY    "S3RVER"
#define PP_TEST_S3_SECRET "S3RVER/+secret"
#define PP_TEST_S3_TOKEN  "session/+token="

struct pp_test_s3 {
    pid_t pid;
    /* The server ends when this file descriptor closes, which also happens if the test crashes. */
    int leash;
    char url[64]; /* "http://127.0.0.1:PORT", or the same with https */
};

/* Starts the server from the root of the repository, and installs its packages first if they are
 * missing. If `certificate` is not NULL, the server speaks TLS and writes its certificate to
 * that file; otherwise it speaks plain HTTP. If the server does not start, exits the process
 * with the reason on standard error. */
struct pp_test_s3 pp_test_s3_start(const char *certificate);
void pp_test_s3_stop(struct pp_test_s3 *s);

#endif
