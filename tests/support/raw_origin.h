/* raw_origin.h: a web server that misbehaves on demand. fake_http.h uses it to play a script.
 *
 * Each connection has a thread that reads requests and calls the test's handler. The handler
 * writes any bytes, even one by one. All calls block. When the origin closes, it shuts the
 * sockets down, so that every thread ends. */
#ifndef PP_TEST_RAW_ORIGIN_H
#define PP_TEST_RAW_ORIGIN_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pp_origin;
struct pp_origin_conn;

enum pp_origin_next {
    PP_ORIGIN_KEEP,  /* the origin reads the next request on the connection */
    PP_ORIGIN_CLOSE, /* the origin closes the connection with FIN */
    PP_ORIGIN_RESET, /* the origin closes the connection with RST */
    /* the origin sends nothing more until the client or pp_origin_close() closes the connection */
    PP_ORIGIN_HANG
};

/* Answers one request, on the thread of its connection. `request` is the head and ends with NUL. */
typedef enum pp_origin_next (*pp_origin_handler)(struct pp_origin_conn *c, const char *request, void *data);

/* Opens an origin on a free port of 127.0.0.1. If `tls` is not NULL, the origin speaks TLS; `tls`
 * belongs to the caller. */
struct pp_origin *pp_origin_open(pp_origin_handler handler, void *data, SSL_CTX *tls);
void pp_origin_close(struct pp_origin *o);

uint16_t pp_origin_port(const struct pp_origin *o);
int pp_origin_connections(struct pp_origin *o); /* number of connections accepted so far */
int pp_origin_open_connections(struct pp_origin *o);
int pp_origin_requests(struct pp_origin *o); /* number of heads read so far */
/* Copies the request head that was read last. */
void pp_origin_last(struct pp_origin *o, char *buf, size_t cap);

/* Reads `n` bytes of the request's body. Returns false if the client closed the connection
 * before. */
bool pp_origin_read(struct pp_origin_conn *c, void *p, size_t n);
/* Send bytes to the client. Return false if the client has closed the connection. */
bool pp_origin_write(struct pp_origin_conn *c, const void *p, size_t n);
bool pp_origin_puts(struct pp_origin_conn *c, const char *s);
/* Returns the number of requests read on this connection, including the present one. */
int pp_origin_nth(const struct pp_origin_conn *c);

/* raw_tls.c makes certificates for tests at run time. pp_test_ca_file() returns the PEM file of the
 * authority that signs them. */
enum pp_test_cert { PP_CERT_GOOD, PP_CERT_OTHER_NAME, PP_CERT_EXPIRED, PP_CERT_SELF_SIGNED };
SSL_CTX *pp_test_tls(const char *host, enum pp_test_cert kind);
/* Writes such a certificate and its key as PEM files, for a server in another process. `host` may
 * be an IPv4 address. */
void pp_test_tls_files(const char *host, enum pp_test_cert kind, const char *cert_file, const char *key_file);
const char *pp_test_ca_file(void);
/* Writes the certificate and the key of `tls` to these files, in PEM form. */
void pp_test_tls_write(const SSL_CTX *tls, const char *cert, const char *key);

#endif
