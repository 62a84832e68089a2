/* code.h: the reasons why a photo could not be fetched, in one table. Results, /v1/errors, retries
 * and statistics use it.
 *
 * A code is a uint16_t: 0 is no failure, 1..PP_CODE_COUNT-1 a row of PP_CODE_TABLE, 400..599 the
 * HTTP status of the host's answer (http_404, http_503). To add a failure, add a row.
 *
 * Columns: identifier, name in the API, retry class, whose fault, sentence for the merchant.
 * Retry classes:
 *   FINAL    the same request would fail again: no retry in this import
 *   RETRY    photopool retries in the same tier, after a random growing delay (full jitter)
 *   PROMOTE  a timeout: photopool retries in the next tier at once; in the last tier it is final
 *   WAIT     the host limits requests (429, 503): photopool retries no sooner than Retry-After */
#ifndef PHOTOPOOL_CODE_H
#define PHOTOPOOL_CODE_H

#include <stddef.h>
#include <stdint.h>

enum pp_retry_class { PP_FINAL, PP_RETRY, PP_PROMOTE, PP_WAIT };
enum pp_fault { PP_FAULT_CLIENT, PP_FAULT_HOST, PP_FAULT_NETWORK, PP_FAULT_US };

#define PP_CODE_TABLE(X)                                                                                     \
    X(NONE, "", FINAL, US, "")                                                                               \
    X(DNS_NOT_FOUND, "dns_not_found", FINAL, CLIENT, "The host name does not exist. Check its spelling.")    \
    X(DNS_TEMPORARY, "dns_temporary", RETRY, NETWORK,                                                        \
      "The host name could not be looked up. We tried again.")                                               \
    X(CONNECT_REFUSED, "connect_refused", RETRY, HOST,                                                       \
      "The host refused the connection. Is its web server running?")                                         \
    X(CONNECT_TIMEOUT, "connect_timeout", PROMOTE, HOST, "The host did not accept a connection in time.")    \
    X(TLS_FAILED, "tls_failed", FINAL, HOST, "The host's certificate is not valid. Renew or correct it.")    \
    X(FIRST_BYTE_TIMEOUT, "first_byte_timeout", PROMOTE, HOST,                                               \
      "The host accepted the request and then sent nothing.")                                                \
    X(BODY_TIMEOUT, "body_timeout", PROMOTE, HOST, "The host did not send the whole photo in time.")         \
    X(TOO_SLOW, "too_slow", PROMOTE, HOST, "The host sent the photo too slowly.")                            \
    X(CONNECTION_LOST, "connection_lost", RETRY, NETWORK,                                                    \
      "The connection broke before the photo was complete.")                                                 \
    X(TRUNCATED, "truncated", RETRY, HOST, "The photo ended before the length that the host had announced.") \
    X(BAD_RESPONSE, "bad_response", FINAL, HOST,                                                             \
      "The host's answer is not a correct HTTP answer with a photo.")                                        \
    X(HEADER_TOO_LARGE, "header_too_large", FINAL, HOST,                                                     \
      "The host's answer has more header than we accept.")                                                   \
    X(TOO_LARGE, "too_large", FINAL, CLIENT, "The photo is larger than the limit. Make it smaller.")         \
    X(NOT_IMAGE, "not_image", FINAL, CLIENT, "What the host sent is not a photo of an accepted type.")       \
    X(IMAGE_CORRUPT, "image_corrupt", FINAL, CLIENT, "The photo's file is damaged. Save it again.")          \
    X(TOO_MANY_PIXELS, "too_many_pixels", FINAL, CLIENT,                                                     \
      "The photo has more pixels than the limit. Scale it down.")                                            \
    X(DENIED_ADDRESS, "denied_address", FINAL, CLIENT, "The host's address is not a public one.")            \
    X(DENIED_SCHEME, "denied_scheme", FINAL, CLIENT, "Only http and https addresses are fetched.")           \
    X(DENIED_PORT, "denied_port", FINAL, CLIENT, "The URL names a port that we do not connect to.")          \
    X(BAD_URL, "bad_url", FINAL, CLIENT, "The URL is not written correctly.")                                \
    X(REDIRECT_LIMIT, "redirect_limit", FINAL, HOST,                                                         \
      "The URL leads from one redirect to the next without an end.")                                         \
    X(REDIRECT_DENIED, "redirect_denied", FINAL, HOST,                                                       \
      "The URL redirects to a place that we do not fetch from.")                                             \
    X(HOST_DOWN, "host_down", RETRY, HOST, "The host has failed so often that we pause requests to it.")     \
    X(QUARANTINED, "quarantined", FINAL, US,                                                                 \
      "This photo was set aside because fetching it failed in our software.")                                \
    X(INTERNAL, "internal", RETRY, US, "Something went wrong on our side.")

enum {
#define X(id, name, retry, fault, sentence) PP_CODE_##id,
    PP_CODE_TABLE(X)
#undef X
        PP_CODE_COUNT
};

struct pp_code_info {
    const char *name;
    enum pp_retry_class retry;
    enum pp_fault fault;
    const char *sentence;
};

/* Returns the row of a code: never NULL, static. The HTTP statuses share the rows "http_4xx" and
 * "http_5xx": 408, 425 and 5xx have the class RETRY; 429 and 503 have WAIT; other 4xx have FINAL.
 * An unknown number has the row of `internal`. */
const struct pp_code_info *pp_code_info(uint16_t code);

/* Size of the longest name with its NUL, in bytes. */
#define PP_CODE_NAME_MAX 24

/* Writes the API name of `code` into buf and returns buf: "http_404", "body_timeout", or "" for
 * 0. */
const char *pp_code_name(uint16_t code, char buf[PP_CODE_NAME_MAX]);

/* Returns the code that has this API name of n bytes (404 for "http_404"), or 0 if there is
 * none. */
uint16_t pp_code_parse(const char *name, size_t n);

/* Returns whose fault a failure is, as text: "client", "host", "network" or "us". Static. */
const char *pp_fault_name(enum pp_fault fault);

#endif
