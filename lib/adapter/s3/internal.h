/* internal.h: what the files of adapter/s3 share.
 *
 *   s3_blob_store.c  the port: which requests an operation makes
 *   s3_request.c     one request: signed, sent by libcurl, again where that may help
 *   s3_outcome.c     what an answer means: error, again or not, words for the operator
 *   s3_spool.c       objects written in parts, until they are whole
 *   s3_xml.c         answers in XML
 *   s3_options.c     the URL and the environment
 *
 * A thread that makes a request takes a connection (an easy handle, which keeps its socket) from the store's
 * stack and puts it back, so there are as many as threads that were ever at work at once. Nothing else is
 * shared but what `lock` guards. */
#ifndef PP_ADAPTER_S3_INTERNAL_H
#define PP_ADAPTER_S3_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "adapter/s3/s3_blob_store.h"
#include "adapter/s3/s3_xml.h"
#include "base/buf.h"

#define PP_S3_ERROR_BODY_MAX 16384             /* of a refusal, read at most */
#define PP_S3_PAGE_MAX       (4 * 1024 * 1024) /* of a page of 1,000 names */

/* --- s3_outcome.c --- */

struct pp_s3_failure {
    enum pp_err err; /* PP_OK: none */
    bool again;      /* may be gone if asked again */
    bool lasting;    /* nothing but a change of configuration helps */
    long status;     /* 0: no answer */
    char code[64];   /* the store's word, or "" */
    char detail[256];
    char region[64];  /* where the bucket is, if it isn't where we ask */
    const char *hint; /* NULL: none */
};

/* libcurl did not get an answer; `words` are its own, maybe "". */
void pp_s3_judge_transport(struct pp_s3_failure *f, CURLcode rc, const char *words);
/* There is an answer of this status, with this body; `has_body`: the method's answers have one. */
void pp_s3_judge_status(struct pp_s3_failure *f, long status, const char *body, size_t n, bool has_body);
/* "403 SignatureDoesNotMatch (...): check ..." */
void pp_s3_reason(const struct pp_s3_failure *f, char reason[PP_S3_REASON_MAX]);

/* --- s3_request.c --- */

enum pp_s3_method { PP_S3_PUT, PP_S3_GET, PP_S3_HEAD, PP_S3_DELETE };

/* What a PUT sends: the pieces, or the file `fd` from its start where there are none. */
struct pp_s3_source {
    const struct iovec *iov;
    int n;
    int fd;
    uint64_t size;
    /* of s3_request.c */
    int i;
    uint64_t at; /* iov: within piece i; file: offset */
    bool failed;
};

struct pp_s3_call {
    const char *name; /* of the operation, for the log */
    enum pp_s3_method method;
    const char *key;   /* below the prefix; NULL: the bucket itself */
    const char *query; /* sorted by name and escaped, as signatures want it; NULL: none */
    unsigned attempts; /* 0: the store's, likewise timeout_ms */
    int64_t timeout_ms;
    /* PUT */
    struct pp_s3_source source;
    const char *sha256_hex;   /* of the body; NULL: there is none */
    const char *content_type; /* NULL: bytes */
    /* GET of a key: up to `max` bytes from `from`, max > 0; else the body goes into *answer */
    uint64_t from;
    void *buf;
    size_t max;
    struct pp_buf *answer;
    /* --- out --- */
    size_t got;    /* bytes in buf */
    uint64_t size; /* GET, HEAD: of the whole object. Not known where status is 416 */
    long status;
    struct pp_s3_failure failure;
};

struct pp_s3_conn;

struct pp_s3_store {
    struct pp_blob_store base; /* first */
    struct pp_s3_options o;    /* defaults filled in */
    char spool_dir[512];
    char *root; /* URL of the bucket, "/" at its end */
    char *token_line;
    char signing[96];
    pthread_mutex_t lock;
    struct pp_s3_conn *idle;
    int64_t said_ms; /* when a failure was last logged, monotonic */
    int64_t unsaid;  /* failures since */
};

/* Makes the request, with its retries, and logs a failure. PP_OK, also with status 416 of a GET with a range;
 * PP_ENOTFOUND (the object), PP_EIO, PP_ENOSPC, PP_ETIMEOUT, PP_ENOMEM. Blocks. */
pp_must_check enum pp_err pp_s3_call(struct pp_s3_store *s, struct pp_s3_call *call);
void pp_s3_conns_close(struct pp_s3_store *s);

/* --- s3_spool.c --- */

/* An unlinked file; -1: errno says why. */
int pp_s3_spool_open(const char *dir);
pp_must_check enum pp_err pp_s3_spool_write(int fd, const struct iovec *iov, int n);

#endif
