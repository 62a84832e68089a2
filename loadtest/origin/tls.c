/* tls.c: TLS of one connection, with OpenSSL and memory BIOs instead of a socket. */
#include "tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct og_tls {
    SSL *ssl;
    BIO *in, *out; /* memory BIOs, which the SSL object owns */
    char wire[32768];
    char plain[16384];
};

void *og_tls_context(const char *cert, const char *key, char *why, size_t why_n)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx != NULL && SSL_CTX_use_certificate_chain_file(ctx, cert) == 1 &&
        SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1) {
        SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        return ctx;
    }
    char text[160];
    ERR_error_string_n(ERR_get_error(), text, sizeof text);
    snprintf(why, why_n, "%s, %s: %s", cert, key, text);
    SSL_CTX_free(ctx);
    return NULL;
}

void og_tls_context_free(void *ctx)
{
    SSL_CTX_free(ctx);
}

struct og_tls *og_tls_new(void *ctx)
{
    struct og_tls *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->ssl = SSL_new(ctx);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (t->ssl == NULL || t->in == NULL || t->out == NULL) {
        BIO_free(t->in);
        BIO_free(t->out);
        SSL_free(t->ssl);
        free(t);
        return NULL;
    }
    SSL_set_bio(t->ssl, t->in, t->out);
    SSL_set_accept_state(t->ssl);
    return t;
}

void og_tls_free(struct og_tls *t)
{
    if (t == NULL)
        return;
    SSL_free(t->ssl);
    free(t);
}

bool og_tls_feed(struct og_tls *t, const char *p, size_t n)
{
    return BIO_write(t->in, p, (int)n) == (int)n;
}

static int verdict(struct og_tls *t, int rc)
{
    if (rc > 0)
        return rc;
    int e = SSL_get_error(t->ssl, rc);
    ERR_clear_error();
    return e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

int og_tls_read(struct og_tls *t, char *out, size_t cap)
{
    return verdict(t, SSL_read(t->ssl, out, (int)cap));
}

int og_tls_write(struct og_tls *t, const uv_buf_t *bufs, unsigned n)
{
    size_t k = 0;
    for (unsigned i = 0; i < n && k < sizeof t->plain; i++) {
        size_t part = bufs[i].len < sizeof t->plain - k ? bufs[i].len : sizeof t->plain - k;
        memcpy(t->plain + k, bufs[i].base, part);
        k += part;
    }
    return verdict(t, SSL_write(t->ssl, t->plain, (int)k));
}

void og_tls_end(struct og_tls *t)
{
    if (SSL_is_init_finished(t->ssl))
        SSL_shutdown(t->ssl);
}

size_t og_tls_out(struct og_tls *t, char **p)
{
    int n = BIO_read(t->out, t->wire, sizeof t->wire);
    *p = t->wire;
    return n > 0 ? (size_t)n : 0;
}
