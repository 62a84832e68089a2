/* s3_blob_store.h: photos as objects of an S3-compatible store. See port/blob_store.h and README.md.
 *
 *   [PREFIX/]sha256/ab/cd/abcd....jpg    objects
 *   [PREFIX/]probe                       what check() writes, always the same
 *
 * An object is one PUT, signed together with its hash, so the store refuses bytes that are not what their
 * name says; it appears whole or not at all. Nothing is kept elsewhere: any number of processes share a
 * bucket. Blocking, any number of threads. No other error than PP_EIO, PP_ENOSPC, PP_ENOTFOUND, PP_ENOMEM and
 * PP_ETIMEOUT; the reason is in the log. */
#ifndef PP_ADAPTER_S3_BLOB_STORE_H
#define PP_ADAPTER_S3_BLOB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "photopool/port/blob_store.h"

/* All texts end with a NUL. What is left 0 has its default, but bucket, endpoint, region, access_key and
 * secret_key, which pp_s3_options_parse() fills. */
struct pp_s3_options {
    char bucket[64];
    char prefix[256];   /* "" or "a/b", without a slash at its ends */
    char endpoint[512]; /* "https://HOST[:PORT][/PATH]", without a slash at its end */
    char region[64];
    bool path_style; /* the bucket in the path: ENDPOINT/BUCKET/KEY. Else in the name: https://BUCKET.HOST/KEY
                      */
    char access_key[256];
    char secret_key[256];
    char session_token[8192]; /* "": none */
    char ca_file[512];        /* PEM; "": the system's */

    const char *spool_dir; /* for objects written in parts: unlinked files. NULL: $TMPDIR or /tmp */
    struct pp_log *log;    /* borrowed, NULL: silent */
    int64_t connect_ms;    /* 5 s */
    int64_t stall_ms;      /* no byte either way for that long: the attempt failed. 10 s */
    int64_t probe_ms;      /* of check() and pp_s3_blob_store_probe(). 5 s */
    int64_t timeout_ms;    /* of an operation with all its attempts. 60 s */
    int64_t backoff_ms; /* the wait after the first failure is at most this, then doubles up to 2 s. 100 ms */
    int64_t say_ms;     /* failures are logged at most that often. 5 s */
    unsigned attempts;  /* 5 */
    unsigned list_pages_max; /* pages of 1,000 names that recent() reads at most. 1,000 */
};

#define PP_S3_REASON_MAX 512

/* Reads "s3://BUCKET[/PREFIX][?endpoint=URL][&region=R][&path_style=0|1][&ca_file=PATH]" and, through `env`
 * (getenv), AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, and where the URL is silent
 * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION. Fills all of `o`, 0 for what it does
 * not read. PP_EINVAL: `reason` is a sentence for the operator, without secrets, to stand behind "blobs.url:
 * ". */
pp_must_check enum pp_err pp_s3_options_parse(const char *url, char *(*env)(const char *name),
                                              struct pp_s3_options *o, char reason[PP_S3_REASON_MAX]);

/* Does not connect. `o` is copied. PP_ENOMEM; PP_EINVAL: ca_file can't be read, or an option has not the form
 * that pp_s3_options_parse() sees to; PP_EIO: spool_dir can't be written to (errno is set). */
pp_must_check enum pp_err pp_s3_blob_store_open(const struct pp_s3_options *o, struct pp_blob_store **out);

/* Writes the probe as check() does, but says in `reason` why not. PP_OK: writing
 * works. PP_EINVAL: the store refuses us (keys, bucket, region, clock) and will until somebody changes that.
 * Others: not now. `b` is one of pp_s3_blob_store_open(). Blocks. */
pp_must_check enum pp_err pp_s3_blob_store_probe(struct pp_blob_store *b, char reason[PP_S3_REASON_MAX]);

#endif
