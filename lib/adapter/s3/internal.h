/* internal.h: declarations that the files of adapter/s3 share. Each file uses those above it:
 * s3_xml.c, s3_outcome.c, s3_request.c, s3_blob_store.c.
 *
 * A thread that makes a request takes a connection (an easy handle, which keeps its socket) from
 * the store's stack and puts it back, so the store never has more connections than threads that
 * worked at the same time. Threads share only what `lock` guards. */
#ifndef PP_ADAPTER_S3_INTERNAL_H
#define PP_ADAPTER_S3_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "adapter/s3/s3_blob_store.h"
#include "adapter/s3/s3_xml.h"
#include "base/buf.h"

/* most bytes that are read of the body of a refusal */
#define PP_S3_ERROR_BODY_MAX 16384
#define PP_S3_PAGE_MAX       (4 * 1024 * 1024) /* most bytes of a page of 1,000 names */

/* --- s3_outcome.c --- */

struct pp_s3_failure {
    enum pp_err err;         /* PP_OK: the request succeeded */
    bool retry;              /* whether the failure may pass, so that a retry makes sense */
    bool lasting;            /* whether only a change of the configuration can help */
    long status;             /* HTTP status; 0: no answer */
    struct pp_s3_error said; /* what the store said; without an answer, the message is libcurl's */
    const char *hint;        /* what the operator may do about it; NULL: nothing is known */
};

/* Fills in the failure of a request without an answer; `words` is libcurl's text, or "". */
void pp_s3_judge_transport(struct pp_s3_failure *f, CURLcode rc, const char *words);
/* Fills in what an answer means, by its status and body. `has_body` is false if answers to this
 * method have no body. */
void pp_s3_judge_status(struct pp_s3_failure *f, long status, const char *body, size_t n, bool has_body);
/* Writes a text for the operator: "403 SignatureDoesNotMatch (...): check ...". */
void pp_s3_reason(const struct pp_s3_failure *f, char reason[PP_S3_REASON_MAX]);

/* --- s3_request.c --- */

enum pp_s3_method { PP_S3_PUT, PP_S3_GET, PP_S3_HEAD, PP_S3_DELETE };

/* The body of a PUT: the file `fd` from its start, or, if `fd` is -1, the pieces of `iov`. */
struct pp_s3_source {
    const struct iovec *iov;
    int n; /* number of pieces */
    int fd;
    uint64_t size; /* bytes of the body */
    /* s3_request.c sets these members while it sends. */
    int i;       /* the piece that is being sent */
    uint64_t at; /* bytes sent: of piece i, or of the file */
    bool failed; /* the file can not be read */
};

struct pp_s3_call {
    const char *name; /* name of the operation, for the log */
    enum pp_s3_method method;
    /* Name of the object below the prefix. NULL: the request is for the bucket itself. */
    const char *key;
    const char *query; /* query, sorted by name and escaped, as signatures require; NULL: none */
    /* Most attempts, and the time in ms for all of them. 0: those of the store's options. */
    unsigned attempts;
    int64_t timeout_ms;
    /* The next three members are for PUT. */
    struct pp_s3_source source;
    const char *sha256_hex; /* hash of the body */
    const char *content_type;
    /* A GET of an object reads up to `max` bytes from `from` into buf; buf NULL: *answer gets the
     * whole body. */
    uint64_t from;
    void *buf;
    size_t max;
    struct pp_buf *answer;
    /* --- results --- */
    size_t got;    /* number of bytes in buf */
    uint64_t size; /* for GET and HEAD: size of the whole object; unknown if status is 416 */
    long status;
    struct pp_s3_failure failure;
};

struct pp_s3_conn;

struct pp_s3_store {
    struct pp_blob_store base; /* must be first */
    struct pp_s3_options o;    /* options, with defaults filled in */
    char spool_dir[512];
    char *root;              /* the bucket's URL, which ends with "/" */
    char *token_line;        /* header line with the session token; NULL: there is none */
    char signing[96];        /* value of CURLOPT_AWS_SIGV4 */
    pthread_mutex_t lock;    /* guards the members below */
    struct pp_s3_conn *idle; /* stack of connections that no thread uses */
    int64_t said_ms;         /* time when a failure was last logged (pp_lane_clock_ms()) */
    int64_t unsaid;          /* number of failures since then */
};

/* Makes the request, retries it if that may help, and logs a failure. Blocks. Returns PP_OK, also
 * if a GET with a range got status 416; PP_ENOTFOUND (there is no such object), PP_EIO, PP_ENOSPC,
 * PP_ETIMEOUT, PP_ENOMEM. */
pp_must_check enum pp_err pp_s3_call(struct pp_s3_store *s, struct pp_s3_call *call);
/* Closes the idle connections; no request may be in flight. */
void pp_s3_conns_close(struct pp_s3_store *s);

#endif
