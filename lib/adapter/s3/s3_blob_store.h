/* s3_blob_store.h: photos as objects of an S3-compatible store. See port/blob_store.h and
 * README.md.
 *
 *   [PREFIX/]sha256/ab/cd/abcd....jpg    objects
 *   [PREFIX/]probe                       the object that check() writes; its content never changes
 *
 * An object is written by one PUT, which is signed together with the hash of its bytes: the
 * store refuses bytes that do not have this hash, and the object appears whole or not at all.
 * Any number of processes share a bucket. Operations block; any thread may call them. Errors:
 * PP_EIO, PP_ENOSPC, PP_ENOTFOUND, PP_ENOMEM, PP_ETIMEOUT; the log has the reason. */
#ifndef PP_ADAPTER_S3_BLOB_STORE_H
#define PP_ADAPTER_S3_BLOB_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "photopool/port/blob_store.h"

/* Options. 0 and "" choose the default, which is the value in the comment; pp_s3_options_parse()
 * sets the others. */
struct pp_s3_options {
    char bucket[64];
    char prefix[256];   /* "" or "a/b"; no slash at either end */
    char endpoint[512]; /* "https://HOST[:PORT][/PATH]", without a slash at the end */
    char region[64];
    bool path_style; /* true: URLs are ENDPOINT/BUCKET/KEY; false: https://BUCKET.HOST/KEY */
    char access_key[256];
    char secret_key[256];
    char session_token[8192]; /* "": there is none */
    char ca_file[512];        /* PEM file of certificate authorities; "": the system's */

    /* directory for the unlinked files that collect objects written in parts; NULL: $TMPDIR or
     * /tmp */
    const char *spool_dir;
    struct pp_log *log; /* borrowed, NULL: silent */
    int64_t connect_ms; /* 5,000: time to connect */
    /* 10,000: an attempt fails after this time without a byte in either direction */
    int64_t stall_ms;
    int64_t probe_ms;   /* 5,000: timeout of check() and pp_s3_blob_store_probe() */
    int64_t timeout_ms; /* 60,000: timeout of an operation with all its attempts */
    /* 100: the longest wait after the first failure; doubles with each failure, up to 2 s */
    int64_t backoff_ms;
    int64_t say_ms;          /* 5,000: time between two log lines about failures */
    unsigned attempts;       /* 5: attempts of an operation, at most */
    unsigned list_pages_max; /* 1,000: pages of 1,000 names that recent() reads, at most */
};

#define PP_S3_REASON_MAX 512

/* Reads "s3://BUCKET[/PREFIX][?endpoint=URL][&region=R][&path_style=0|1][&ca_file=PATH]". Calls
 * `env` (usually getenv) for AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN;
 * and, if the URL has no endpoint or region, for AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
 * AWS_REGION and AWS_DEFAULT_REGION. Sets the other members of `o` to 0. PP_EINVAL: `reason` is
 * a sentence for the operator, without secrets, to follow "blobs.url: ". */
pp_must_check enum pp_err pp_s3_options_parse(const char *url, char *(*env)(const char *name),
                                              struct pp_s3_options *o, char reason[PP_S3_REASON_MAX]);

/* Makes a store; does not connect. Copies `o`, but borrows its log. PP_ENOMEM: out of memory.
 * PP_EINVAL: ca_file is unreadable, or an option is missing. PP_EIO: spool_dir is not writable
 * (errno is set). The caller closes *out by ops->close. */
pp_must_check enum pp_err pp_s3_blob_store_open(const struct pp_s3_options *o, struct pp_blob_store **out);

/* Writes the probe object as check() does; on failure `reason` says why. PP_EINVAL: the store
 * refuses us (keys, bucket, region, clock) until somebody corrects that; other errors may pass. `b`
 * must come from pp_s3_blob_store_open(). Blocks. */
pp_must_check enum pp_err pp_s3_blob_store_probe(struct pp_blob_store *b, char reason[PP_S3_REASON_MAX]);

#endif
