/* raw_tls.c: makes a certificate authority and certificates for tests. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "raw_origin.h"
#include "test_loop.h"

/* The only certificate authority of the process; the first call that needs it makes it. */
static struct {
    EVP_PKEY *key;
    X509 *cert;
    char file[512];
} ca;

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *ext;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(ext);
    assert_int_equal(X509_add_ext(cert, ext, -1), 1);
    X509_EXTENSION_free(ext);
}

/* Makes a certificate. If `issuer` is NULL, the certificate signs itself. */
static X509 *make(EVP_PKEY *key, const char *name, bool is_ca, X509 *issuer, EVP_PKEY *issuer_key, long from,
                  long until)
{
    static long serial = 1;
    X509 *cert = X509_new();
    X509_NAME *subject = X509_get_subject_name(cert);
    char san[300];

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(cert), from);
    X509_gmtime_adj(X509_getm_notAfter(cert), until);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : subject);
    extend(cert, issuer ? issuer : cert, NID_basic_constraints,
           is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    (void)snprintf(san, sizeof(san), "%s:%s", strspn(name, "0123456789.") == strlen(name) ? "IP" : "DNS",
                   name);
    if (!is_ca)
        extend(cert, issuer ? issuer : cert, NID_subject_alt_name, san);
    assert_true(X509_sign(cert, issuer_key ? issuer_key : key, EVP_sha256()) > 0);
    return cert;
}

static void open_ca(void)
{
    FILE *f;

    if (ca.key)
        return;
    ca.key = EVP_EC_gen("P-256");
    ca.cert = make(ca.key, "Test Authority", true, NULL, NULL, -3600, 86400);
    (void)snprintf(ca.file, sizeof(ca.file), "%s/ca.pem", pp_test_tmpdir());
    f = fopen(ca.file, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, ca.cert), 1);
    (void)fclose(f);
}

const char *pp_test_ca_file(void)
{
    open_ca();
    return ca.file;
}

static X509 *make_kind(EVP_PKEY *key, const char *host, enum pp_test_cert kind)
{
    open_ca();
    switch (kind) {
    case PP_CERT_OTHER_NAME: return make(key, "other.test", false, ca.cert, ca.key, -3600, 86400);
    case PP_CERT_EXPIRED: return make(key, host, false, ca.cert, ca.key, -7200, -3600);
    case PP_CERT_SELF_SIGNED: return make(key, host, false, NULL, NULL, -3600, 86400);
    default: return make(key, host, false, ca.cert, ca.key, -3600, 86400);
    }
}

SSL_CTX *pp_test_tls(const char *host, enum pp_test_cert kind)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = make_kind(key, host, kind);

    assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    return ctx;
}

void pp_test_tls_write(const SSL_CTX *tls, const char *cert, const char *key)
{
    FILE *f = fopen(cert, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, SSL_CTX_get0_certificate(tls)), 1);
    (void)fclose(f);
    f = fopen(key, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, SSL_CTX_get0_privatekey(tls), NULL, NULL, 0, NULL, NULL), 1);
    (void)fclose(f);
}

void pp_test_tls_files(const char *host, enum pp_test_cert kind, const char *cert_file, const char *key_file)
{
    SSL_CTX *tls = pp_test_tls(host, kind);

    pp_test_tls_write(tls, cert_file, key_file);
    SSL_CTX_free(tls);
}
