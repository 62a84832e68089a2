/* s3_blob_store.h: stores photos as objects of an S3-compatible store. Implements
 * port/blob_store.h; README.md has the configuration.
 *
 *   [PREFIX/]sha256/ab/cd/abcd....jpg    objects
 *   [PREFIX/]probe                       the object that check() writes; its content never changes
 *
 * One PUT writes an object. The PUT is signed together with the hash of the bytes: the store
 * refuses bytes that do not have this hash, and the object appears whole or not at all. Any number
 * of processes share a bucket. Operations block; any thread may call them. Errors are PP_EIO,
 * PP_ENOSPC, PP_ENOTFOUND, PP_ENOMEM and PP_ETIMEOUT; the log has the reason. */
#ifndef PP_ADAPTER_S3_BLOB_STORE_H
#define PP_ADAPTER_S3_BLOB_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "photopool/port/blob_store.h"

/* The options of a store. pp_s3_options_parse() sets the first nine; for each of the others, 0 or
 * NULL stands for the default that its comment names. */
struct pp_s3_options {
    char bucket[64];
    char prefix[256];   /* path below which objects are stored: "" or "a/b", no slash at either end */
    char endpoint[512]; /* "https://HOST[:PORT][/PATH]", no slash at the end */
    char region[64];
    bool path_style; /* true: URLs are ENDPOINT/BUCKET/KEY; false: https://BUCKET.HOST/KEY */
    char access_key[256];
    char secret_key[256];
    char session_token[8192]; /* token of temporary keys; "": the keys need none */
    char ca_file[512];        /* PEM file of certificate authorities; "": the system's file */

    /* Directory for unlinked files, each of which collects an object that is written in parts.
     * Default: $TMPDIR or /tmp. */
    const char *spool_dir;
    struct pp_log *log; /* The log, which must outlive the store. NULL: nothing is logged. */
    int64_t connect_ms; /* longest time to connect, in ms; default 60,000 */
    /* An attempt fails after this many ms without a byte in either direction. Default: 10,000. */
    int64_t stall_ms;
    int64_t probe_ms;   /* timeout of check() and pp_s3_blob_store_probe(), in ms; default 5,000 */
    int64_t timeout_ms; /* timeout of an operation with all its attempts, in ms; default 60,000 */
    /* The longest wait in ms after the first failure; it doubles with each failure, up to 2 s.
     * Default: 100. */
    int64_t backoff_ms;
    int64_t say_ms;          /* shortest time between two log lines about failures, in ms; default 60,000 */
    unsigned attempts;       /* most attempts of an operation; default 5 */
    unsigned list_pages_max; /* most pages, of 1,000 names each, that recent() reads; default 1,000 */
};

#define PP_S3_REASON_MAX 512

/* Parses "s3://BUCKET[/PREFIX][?endpoint=URL][&region=R][&path_style=0|1][&ca_file=PATH]". Calls
 * `env` (usually getenv) for AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and,
 * if the URL has no endpoint or region, for AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION and
 * AWS_DEFAULT_REGION. Sets all other members of `o` to 0. Returns PP_EINVAL with `reason`, a
 * sentence for the operator, without secrets, to follow "blobs.url: ". */
pp_must_check enum pp_err pp_s3_options_parse(const char *url, char *(*env)(const char *name),
                                              struct pp_s3_options *o, char reason[PP_S3_REASON_MAX]);

/* Makes a store, and does not connect yet. Copies `o`, but not its log. Returns PP_ENOMEM;
 * PP_EINVAL if ca_file is unreadable or an option is missing; PP_EIO if spool_dir is not writable
 * (errno is set). The caller closes *out by ops->close. */
pp_must_check enum pp_err pp_s3_blob_store_open(const struct pp_s3_options *o, struct pp_blob_store **out);

/* Writes the probe object, as check() does; on failure `reason` says why. Returns PP_EINVAL if the
 * store refuses the configuration (keys, bucket, region, clock), so that a retry can not help;
 * other errors may be transient. pp_s3_blob_store_open() must have made `b`. Blocks. */
pp_must_check enum pp_err pp_s3_blob_store_probe(struct pp_blob_store *b, char reason[PP_S3_REASON_MAX]);

#endif
