/* client.h: the HTTP client of the subcommands, on libcurl's easy interface.
 *
 * One request at a time; it blocks, with a bound: 10 s to connect, and 60 s without a byte moving.
 * Connections are kept between requests. Redirects are not followed: the key would go with them. Answers have
 * a ceiling. Ctrl-C is seen only by a caller that has blocked SIGINT (interrupt.h): the request then ends
 * with PP_ECANCELED.
 *
 *   pp_client_open -> { pp_path...; pp_client_send -> pp_client_json | pp_client_failed; pp_answer_fini } ->
 * close */
#ifndef PHOTOPOOL_CLIENT_H
#define PHOTOPOOL_CLIENT_H

#include "cli.h"

#include "base/buf.h"
#include "photopool/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct pp_client;

struct pp_request {
    const char *method;          /* "GET", "POST" ... */
    const char *path;            /* begins with a slash; parameters included (pp_path_...) */
    const char *content_type;    /* of the body; NULL: application/json */
    bool gzip;                   /* the body is compressed */
    const char *idempotency_key; /* NULL: none */
    const void *body;
    size_t n;
    bool has_body;
};

struct pp_answer {
    long status;           /* 0: there was no answer */
    struct pp_buf body;    /* of the answer, decoded */
    int64_t retry_after_s; /* -1: not said */
    bool replayed;         /* Idempotency-Replayed: true */
    char why[256];         /* without an answer: the reason, for people */
};

/* The key comes from cli->key_file or PHOTOPOOL_KEY. PP_EXIT_DONE and *out (pp_client_close), or an exit code
 * after a message. */
int pp_client_open(struct pp_client **out, const struct pp_cli *cli);
void pp_client_close(struct pp_client *c); /* NULL is fine */
/* The server's URL, for messages. */
const char *pp_client_base(const struct pp_client *c);

/* PP_OK: there is an answer, whatever its status. PP_EIO, PP_ETIMEOUT: none came (it may have been acted upon
 * all the same); PP_EFULL: it is larger than we take; PP_ECANCELED: Ctrl-C; PP_ENOMEM. Always end with
 * pp_answer_fini. */
pp_must_check enum pp_err pp_client_send(struct pp_client *c, const struct pp_request *req,
                                         struct pp_answer *ans);
void pp_answer_fini(struct pp_answer *ans);

/* Says in one sentence why the request failed and what to do, and answers the exit code. err as
 * pp_client_send gave it; with PP_OK the answer's status is not 2xx. */
int pp_client_failed(const struct pp_client *c, enum pp_err err, const struct pp_answer *ans);

/* Sends; wants 2xx and a JSON object. PP_EXIT_DONE and *out (json_decref), or the exit code after a message.
 */
int pp_client_call(struct pp_client *c, const struct pp_request *req, json_t **out);
int pp_client_get(struct pp_client *c, const char *path, json_t **out);
/* body is borrowed. */
int pp_client_post(struct pp_client *c, const char *method, const char *path, const json_t *body,
                   json_t **out);

/* "/v1/batches", then parts and parameters, percent-encoded. A parameter whose value is NULL is left out. */
void pp_path(struct pp_buf *b, const char *start);
void pp_path_part(struct pp_buf *b, const char *part);
void pp_path_query(struct pp_buf *b, const char *name, const char *value);

#endif
