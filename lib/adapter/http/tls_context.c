/* tls_context.c: reads certificate and key, and sets OpenSSL's options. */
#include "adapter/http/tls_context.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
    TICKET_S = 3600,
    TICKETS = 2, /* tickets for a client in one handshake; browsers open two connections */
};

struct pp_tls_context {
    SSL_CTX *ssl;
};

static enum pp_err fail(struct pp_tls_problem *problem, bool key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static enum pp_err fail(struct pp_tls_problem *problem, bool key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(problem->text, sizeof problem->text, fmt, ap);
    va_end(ap);
    problem->key = key;
    ERR_clear_error();
    return PP_EINVAL;
}

/* --- rules --- */

/* Chooses the protocol of the application. A client that asks for others only is refused (RFC 7301
 * 3.2); one that asks for none speaks HTTP/1.1 all the same. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in,
                           unsigned in_n, void *data)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;
    (void)ssl, (void)data;
    if (SSL_select_next_proto(&chosen, out_n, ours, sizeof ours - 1, in, in_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* Without this, OpenSSL would ask for a key's password on the terminal. */
static int no_password(char *buf, int size, int writes, void *data)
{
    (void)buf, (void)size, (void)writes, (void)data;
    return 0;
}

static bool set_rules(SSL_CTX *ssl)
{
    static const unsigned char id[] = "photopool";
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS); /* an idle connection needs no buffers */
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(ssl, TICKET_S);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
    SSL_CTX_set_default_passwd_cb(ssl, no_password);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set1_groups_list(ssl, "X25519:P-256:P-384") == 1 &&
           SSL_CTX_set_num_tickets(ssl, TICKETS) == 1 &&
           SSL_CTX_set_session_id_context(ssl, id, sizeof id - 1) == 1;
}

/* --- files --- */

/* Opens the file once, because OpenSSL's message for a file that it can't open is hard to read. */
static bool readable(const char *path)
{
    char byte;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    errno = 0;
    bool ok = fread(&byte, 1, 1, f) == 1 || errno == 0;
    int err = errno;
    fclose(f);
    errno = err;
    return ok;
}

/* Returns OpenSSL's reason for the first error. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_error());
    return text ? text : "unknown reason";
}

static bool first_error_is(int lib, int code)
{
    unsigned long err = ERR_peek_error();
    return ERR_GET_LIB(err) == lib && ERR_GET_REASON(err) == code;
}

static enum pp_err read_cert(SSL_CTX *ssl, const char *path, struct pp_tls_problem *problem)
{
    if (!readable(path))
        return fail(problem, false,
                    "can't be read: %s; name a file in PEM form that the user of photopool can read",
                    strerror(errno));
    if (SSL_CTX_use_certificate_chain_file(ssl, path) == 1)
        return PP_OK;
    if (first_error_is(ERR_LIB_PEM, PEM_R_NO_START_LINE))
        return fail(problem, false,
                    "has no certificate in PEM form; name the file with the server's certificate, then those "
                    "of its authorities");
    return fail(problem, false, "can't be used: %s; get another certificate", reason());
}

static enum pp_err read_key(SSL_CTX *ssl, const char *path, struct pp_tls_problem *problem)
{
    static const char mismatch[] =
        "does not belong to the certificate; name the key with which the certificate was requested";
    if (!readable(path))
        return fail(problem, true,
                    "can't be read: %s; name a file in PEM form that the user of photopool can read",
                    strerror(errno));
    if (SSL_CTX_use_PrivateKey_file(ssl, path, SSL_FILETYPE_PEM) == 1)
        return SSL_CTX_check_private_key(ssl) == 1 ? PP_OK : fail(problem, true, mismatch);
    if (first_error_is(ERR_LIB_X509, X509_R_KEY_VALUES_MISMATCH))
        return fail(problem, true, mismatch);
    return fail(problem, true,
                "has no private key in PEM form without a password; decrypt it with: openssl pkey");
}

/* Writes a warning if the certificate is not valid now, else "". */
static void warn(SSL_CTX *ssl, struct pp_tls_problem *problem)
{
    const X509 *cert = SSL_CTX_get0_certificate(ssl);
    pp_assert(cert, "a context has no certificate");
    *problem = (struct pp_tls_problem){0};
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        (void)fail(problem, false, "has expired, so callers will refuse it; renew it, then send SIGHUP");
    else if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        (void)fail(problem, false, "is not valid yet, so callers will refuse it; check the clock");
}

enum pp_err pp_tls_context_open(const char *cert, const char *key, struct pp_tls_context **out,
                                struct pp_tls_problem *problem)
{
    struct pp_tls_context *context = calloc(1, sizeof *context);
    *problem = (struct pp_tls_problem){0};
    *out = NULL;
    ERR_clear_error();
    if (context)
        context->ssl = SSL_CTX_new(TLS_server_method());
    enum pp_err err = context && context->ssl && set_rules(context->ssl) ? PP_OK : PP_ENOMEM;
    if (err == PP_OK)
        err = read_cert(context->ssl, cert, problem);
    if (err == PP_OK)
        err = read_key(context->ssl, key, problem);
    if (err == PP_OK) {
        warn(context->ssl, problem);
        *out = context;
        return PP_OK;
    }
    pp_tls_context_close(context);
    return err;
}

void pp_tls_context_close(struct pp_tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    free(context);
}

struct ssl_ctx_st *pp_tls_context_ssl(const struct pp_tls_context *context)
{
    return context->ssl;
}
