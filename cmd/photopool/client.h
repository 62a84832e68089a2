/* client.h: the HTTP client of the subcommands, on libcurl's easy interface.
 *
 * The client sends one request at a time and blocks until the answer is there, but no longer than
 * 10 s to connect and 60 s without a byte in either direction. It keeps connections between
 * requests. It does not follow redirects, because another server would receive the key. An answer
 * has a maximum size. Ctrl-C ends a request with PP_ECANCELED if the caller has blocked SIGINT
 * (interrupt.h).
 *
 * A command that expects JSON calls:
 *   pp_path..., pp_client_call (both any number of times), then pp_client_finish
 * Another command calls:
 *   pp_client_open, then for each request pp_path..., pp_client_send, pp_client_failed if it
 *   failed, and pp_answer_fini; then pp_client_finish */
#ifndef PHOTOPOOL_CLIENT_H
#define PHOTOPOOL_CLIENT_H

#include "cli.h"

#include "base/buf.h"
#include "photopool/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct pp_api_client;

struct pp_request {
    const char *method; /* the HTTP method, such as "GET" */
    /* path with its query parameters, built by pp_path() and its companions */
    const struct pp_buf *path;
    const char *content_type;    /* content type of the body; NULL: application/json */
    bool gzip;                   /* the body is compressed */
    const char *idempotency_key; /* the Idempotency-Key header; NULL: none */
    const void *body;            /* NULL: the request has no body */
    size_t n;                    /* size of the body in bytes */
};

struct pp_answer {
    long status;           /* HTTP status; 0: there was no answer */
    struct pp_buf body;    /* body of the answer, decoded */
    int64_t retry_after_s; /* Retry-After in seconds; -1: not given */
    bool replayed;         /* the answer has Idempotency-Replayed: true */
    char why[256];         /* if there was no answer: the reason as text */
};

/* Opens cli->client, unless it is open. The key comes from cli->key_file or PHOTOPOOL_KEY, the
 * authorities for https from cli->ca_file, PHOTOPOOL_CA_FILE or the system. Returns PP_EXIT_DONE,
 * or an exit code after a message. */
int pp_client_open(struct pp_cli *cli);
/* Closes the client if it is open, flushes standard output, and returns the exit code: `code`, or
 * PP_EXIT_FAILED if the output could not be written. */
int pp_client_finish(struct pp_cli *cli, int code);
/* Returns the URL of the server, or unix:PATH, for use in messages. */
const char *pp_client_base(const struct pp_api_client *c);

/* Sends one request. Returns PP_OK for an answer of any status; PP_EIO or PP_ETIMEOUT if there was
 * no answer (the server may have acted all the same); PP_EFULL if the answer is larger than the
 * ceiling; PP_ECANCELED after Ctrl-C; PP_ENOMEM. The caller always calls pp_answer_fini. */
pp_must_check enum pp_err pp_client_send(struct pp_api_client *c, const struct pp_request *req,
                                         struct pp_answer *ans);
void pp_answer_fini(struct pp_answer *ans);

/* Returns the body as JSON, read with these flags of jansson, or NULL if it is not JSON. The caller
 * releases it with json_decref. */
json_t *pp_answer_json(const struct pp_answer *ans, size_t flags);
/* Returns true if the answer is a problem document with this code. */
bool pp_answer_has_code(const struct pp_answer *ans, const char *code);

/* Prints in one sentence why the request failed and what to do, and returns the exit code. `err` is
 * the result of pp_client_send; if it is PP_OK, the status is not 2xx. */
int pp_client_failed(const struct pp_api_client *c, enum pp_err err, const struct pp_answer *ans);

/* Sends a request, opens the client before if necessary, and expects a status of 2xx and a JSON
 * object. Every method but GET and DELETE has `body`, which is released; path is freed. Returns
 * PP_EXIT_DONE and sets *out, which the caller releases with json_decref, or prints a message, sets
 * *out to NULL and returns an exit code. */
int pp_client_call(struct pp_cli *cli, const char *method, struct pp_buf *path, json_t *body, json_t **out);
/* Reads the object at `path`, replaces the members in `changes`, and writes its n `fields` back.
 * Without changes it only reads the object. Otherwise like pp_client_call. */
int pp_client_change(struct pp_cli *cli, struct pp_buf *path, const char *const *fields, size_t n,
                     json_t *changes, json_t **out);

/* Returns the string that is a member of an object, or NULL. */
const char *pp_member(const json_t *o, const char *name);

/* These build a path such as "/v1/batches", then parts and parameters, percent-encoded. A parameter
 * whose value is NULL is left out. pp_path returns b. */
struct pp_buf *pp_path(struct pp_buf *b, const char *start);
void pp_path_part(struct pp_buf *b, const char *part);
void pp_path_query(struct pp_buf *b, const char *name, const char *value);

#endif
