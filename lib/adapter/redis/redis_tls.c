/* redis_tls.c: TLS for the connections of rediss:// URLs, by OpenSSL: who is trusted, whose name is
 * checked, and the texts of errors. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

void pp_redis_tls_begin(void)
{
    ERR_clear_error(); /* SSL_get_error() reads the thread's queue of errors */
    errno = 0;
}

void pp_redis_tls_why(const struct ssl_st *ssl, char *why, size_t n)
{
    long verdict = SSL_get_verify_result(ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    if (verdict != X509_V_OK)
        snprintf(why, n, "TLS: the server's certificate is not accepted: %s",
                 X509_verify_cert_error_string(verdict));
    else
        snprintf(why, n, "TLS: %s", reason ? reason : "failed");
    ERR_clear_error();
}

/* Called for a private key that needs a passphrase: there is none, and nobody is asked. */
static int no_passphrase(char *buf, int size, int writing, void *data)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)data;
    return -1;
}

/* Says which file can't be used. Returns PP_EINVAL. */
static enum pp_err bad_file(char why[PP_REDIS_WHY_MAX], const char *what, const char *file)
{
    unsigned long error = ERR_peek_error();
    const char *reason =
        ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error)) : ERR_reason_error_string(error);
    snprintf(why, PP_REDIS_WHY_MAX, "%s=%.200s can't be used: %.100s", what, file,
             reason ? reason : "it is no PEM file");
    return PP_EINVAL;
}

/* Sets who is trusted, and the certificate of our own. */
static enum pp_err load_files(SSL_CTX *tls, const struct pp_redis_address *a, char why[PP_REDIS_WHY_MAX])
{
    pp_redis_tls_begin();
    if (a->ca[0] ? SSL_CTX_load_verify_file(tls, a->ca) != 1 : SSL_CTX_set_default_verify_paths(tls) != 1)
        return bad_file(why, "ca", a->ca);
    pp_assert((a->cert[0] != '\0') == (a->key[0] != '\0'), "a certificate without its key");
    if (!a->cert[0])
        return PP_OK;
    if (SSL_CTX_use_certificate_chain_file(tls, a->cert) != 1)
        return bad_file(why, "cert", a->cert);
    if (SSL_CTX_use_PrivateKey_file(tls, a->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(tls) != 1)
        return bad_file(why, "key", a->key);
    return PP_OK;
}

enum pp_err pp_redis_tls_open(const struct pp_redis_address *a, struct ssl_ctx_st **out,
                              char why[PP_REDIS_WHY_MAX])
{
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    *out = NULL;
    if (!tls || SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(tls);
        return PP_ENOMEM;
    }
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(tls, no_passphrase);
    enum pp_err err = load_files(tls, a, why);
    if (err == PP_OK)
        *out = tls;
    else
        SSL_CTX_free(tls);
    return err;
}

void pp_redis_tls_close(struct ssl_ctx_st *tls)
{
    SSL_CTX_free(tls);
}

/* Makes the handshake fail unless the certificate names the host. */
static bool expect_host(SSL *ssl, const char *host)
{
    struct in6_addr any;
    bool is_address = inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
    if (is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct ssl_st *pp_redis_tls_new(struct ssl_ctx_st *tls, const char *host, int fd)
{
    pp_assert(host[0], "a certificate is checked for no host");
    SSL *ssl = SSL_new(tls);
    if (ssl && expect_host(ssl, host) && SSL_set_fd(ssl, fd) == 1)
        return ssl;
    SSL_free(ssl);
    return NULL;
}
