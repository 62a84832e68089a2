/* tls_context.h: the certificate, the key and the rules with which the server speaks TLS: 1.2 and
 * up, suites with forward secrecy only, ALPN http/1.1; no renegotiation, no compression, no early
 * data. The server keeps no sessions: a client that returns brings a ticket, which is valid for
 * TICKET_S at most and only while the certificate is in force. */
#ifndef PP_ADAPTER_HTTP_TLS_CONTEXT_H
#define PP_ADAPTER_HTTP_TLS_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/err.h"

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */
struct pp_tls_context;

/* What is wrong with a certificate or a key, and what to do: "can't be read: Permission denied".
 * The name of the file comes before it. */
struct pp_tls_problem {
    bool key; /* the file of the key is wrong, else that of the certificate */
    char text[300];
};

/* Reads the files: PEM; the certificate, then those between it and its authority; the key without a
 * password. Blocks while it reads. Returns PP_OK and sets *out, which the caller closes; then
 * problem->text warns of a certificate that is not valid now, or is "". Returns PP_EINVAL and fills
 * `problem`, or PP_ENOMEM. */
pp_must_check enum pp_err pp_tls_context_open(const char *cert, const char *key, struct pp_tls_context **out,
                                              struct pp_tls_problem *problem);
/* Frees the context, which may be NULL. Open connections keep what they need of it. */
void pp_tls_context_close(struct pp_tls_context *context);
/* Returns OpenSSL's context, which belongs to `context`. */
struct ssl_ctx_st *pp_tls_context_ssl(const struct pp_tls_context *context);

#endif
