/* internal.h: declarations that the files of adapter/s3 share. Each file may use those above it in
 * this list: s3_xml.c, s3_outcome.c, s3_request.c, s3_blob_store.c.
 *
 * A thread that makes a request takes a connection (an easy handle, which keeps its socket) from
 * the store's stack and puts it back afterwards. So the store never has more connections than
 * threads that worked at the same time. Threads share only the members that `lock` guards. */
#ifndef PP_ADAPTER_S3_INTERNAL_H
#define PP_ADAPTER_S3_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "adapter/s3/s3_blob_store.h"
#include "adapter/s3/s3_xml.h"
#include "base/buf.h"

/* The store's client reads at most this many bytes of an error answer. */
#define PP_S3_ERROR_BODY_MAX 16384
#define PP_S3_PAGE_MAX       (4 * 1024 * 1024) /* most bytes of a page of 1,000 names */

/* --- s3_outcome.c --- */

struct pp_s3_failure {
    enum pp_err err; /* the result of the operation; PP_OK: the request succeeded */
    bool retry;      /* the failure may be transient, so the request is tried again */
    bool lasting;    /* the failure is permanent until somebody changes the configuration */
    long status;     /* the HTTP status; 0: no answer came */
    struct pp_s3_error
        said;         /* the store's error document. Without an answer, its message is libcurl's text. */
    const char *hint; /* what the operator can do about the failure; NULL: no hint */
};

/* Fills in the failure of a request that got no answer. `words` is libcurl's error text, or "". */
void pp_s3_judge_transport(struct pp_s3_failure *f, CURLcode rc, const char *words);
/* Fills in the failure that an answer means, by its status and body. `has_body` is false if answers
 * to this method have no body (HEAD). */
void pp_s3_judge_status(struct pp_s3_failure *f, long status, const char *body, size_t n, bool has_body);
/* Writes the failure for the operator, such as "403 SignatureDoesNotMatch (...): check ...". */
void pp_s3_reason(const struct pp_s3_failure *f, char reason[PP_S3_REASON_MAX]);

/* --- s3_request.c --- */

enum pp_s3_method { PP_S3_PUT, PP_S3_GET, PP_S3_HEAD, PP_S3_DELETE };

/* The body of a PUT. If `fd` is -1, the body is the pieces of `iov`; otherwise it is the file `fd`
 * from its start. */
struct pp_s3_source {
    const struct iovec *iov;
    int n; /* number of pieces */
    int fd;
    uint64_t size; /* bytes of the whole body */
    /* s3_request.c sets the members below while it sends the body. */
    int i;       /* index of the piece that is being sent */
    uint64_t at; /* bytes sent of piece i, or of the file */
    bool failed; /* the file could not be read */
};

struct pp_s3_call {
    const char *name; /* the operation's name in the log */
    enum pp_s3_method method;
    /* The object's name below the prefix. NULL: the request is for the bucket itself. */
    const char *key;
    const char *query; /* the URL's query, sorted by name and escaped, as signatures require; NULL: none */
    /* Most attempts, and the time for all attempts together in ms. 0 stands for the store's
     * option. */
    unsigned attempts;
    int64_t timeout_ms;
    /* The three members below are for PUT only. */
    struct pp_s3_source source;
    const char *sha256_hex; /* SHA-256 of the body */
    const char *content_type;
    /* A GET of an object stores up to `max` bytes, from position `from`, in buf. If buf is NULL,
     * the whole body of the answer goes to *answer. */
    uint64_t from;
    void *buf;
    size_t max;
    struct pp_buf *answer;
    /* --- results --- */
    size_t got;    /* number of bytes stored in buf */
    uint64_t size; /* for GET and HEAD: the size of the whole object; not set if the status is 416 */
    long status;
    struct pp_s3_failure failure;
};

struct pp_s3_conn;

struct pp_s3_store {
    struct pp_blob_store base; /* the port; must be the first member */
    struct pp_s3_options o;    /* the options, with defaults filled in */
    char spool_dir[512];
    char *root;                    /* the URL of the bucket, with "/" at its end */
    char *token_line;              /* the header line with the session token; NULL: no token is configured */
    char signing[96];              /* the value for CURLOPT_AWS_SIGV4 */
    pthread_mutex_t lock;          /* guards the members below */
    struct pp_s3_conn *idle;       /* stack of connections that no thread uses */
    int64_t said_ms;               /* when a failure was last logged, in ms of pp_lane_clock_ms() */
    int64_t unsaid;                /* number of failures that were not logged since then */
    char reason[PP_S3_REASON_MAX]; /* why the last failed call failed; "": none has failed */
};

/* Makes the request, repeats it if the failure may be transient, and logs a failure. Blocks.
 * Returns PP_OK (also if a GET of a range got status 416), PP_ENOTFOUND if there is no such object,
 * PP_EIO, PP_ENOSPC, PP_ETIMEOUT or PP_ENOMEM. */
pp_must_check enum pp_err pp_s3_call(struct pp_s3_store *s, struct pp_s3_call *call);
/* Keeps the reason of a failed call for ops->reason(). */
void pp_s3_remember(struct pp_s3_store *s, const char *reason);
/* Closes all idle connections. No request may be in flight. */
void pp_s3_conns_close(struct pp_s3_store *s);

#endif
