/* suite_origin.h: a web server that misbehaves on demand, for the fetcher's contract.
 *
 * Each connection has a thread that reads requests and calls the test's handler, which writes what it likes,
 * byte by byte if it likes. Everything blocks; closing the origin shuts the sockets down, so that nobody
 * waits for ever. */
#ifndef PP_SUITE_ORIGIN_H
#define PP_SUITE_ORIGIN_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pp_origin;
struct pp_origin_conn;

enum pp_origin_next {
    PP_ORIGIN_KEEP,  /* read the next request */
    PP_ORIGIN_CLOSE, /* in good order */
    PP_ORIGIN_RESET, /* RST */
    PP_ORIGIN_HANG   /* silence until the client or the origin closes */
};

/* `request` is the head, NUL-terminated. On the connection's thread. */
typedef enum pp_origin_next (*pp_origin_handler)(struct pp_origin_conn *c, const char *request, void *data);

/* Listens on 127.0.0.1; with `tls` (not owned) it speaks TLS. */
struct pp_origin *pp_origin_open(pp_origin_handler handler, void *data, SSL_CTX *tls);
void pp_origin_close(struct pp_origin *o);

uint16_t pp_origin_port(const struct pp_origin *o);
int pp_origin_connections(struct pp_origin *o); /* accepted so far */
int pp_origin_open_connections(struct pp_origin *o);
int pp_origin_requests(struct pp_origin *o); /* heads read so far */
/* The newest head. */
void pp_origin_last(struct pp_origin *o, char *buf, size_t cap);

/* False once the client has gone. */
bool pp_origin_write(struct pp_origin_conn *c, const void *p, size_t n);
bool pp_origin_puts(struct pp_origin_conn *c, const char *s);
/* Requests read on this connection, this one included. */
int pp_origin_nth(const struct pp_origin_conn *c);

/* Certificates for tests, made on the spot. The authority's PEM is at pp_test_ca_file(). */
enum pp_test_cert { PP_CERT_GOOD, PP_CERT_OTHER_NAME, PP_CERT_EXPIRED, PP_CERT_SELF_SIGNED };
SSL_CTX *pp_test_tls(const char *host, enum pp_test_cert kind);
const char *pp_test_ca_file(void);

#endif
