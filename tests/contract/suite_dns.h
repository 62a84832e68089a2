/* suite_dns.h: a name server for the resolver's contract. It listens on UDP and TCP of
 * 127.0.0.1, and answers as a table of the test says. */
#ifndef PP_SUITE_DNS_H
#define PP_SUITE_DNS_H

#include <stddef.h>
#include <stdint.h>

enum pp_dns_how {
    PP_DNS_ANSWER, /* answers with the row's addresses; with an empty answer if it has none */
    PP_DNS_NXDOMAIN,
    PP_DNS_SERVFAIL,
    PP_DNS_SILENT,
    PP_DNS_TRUNCATED, /* sends a truncated answer on UDP and the complete one on TCP */
    PP_DNS_GARBAGE
};

struct pp_dns_row {
    const char *name;
    enum pp_dns_how how;
    const char *v4, *v6; /* IPv4 and IPv6 addresses, separated by spaces; NULL: none */
    uint32_t ttl;        /* TTL of the records in seconds */
    const char *alias;   /* target of a CNAME record, to which the addresses belong; NULL: no CNAME */
    uint32_t alias_ttl;
    enum pp_dns_how how6; /* how AAAA questions are answered if `how` is PP_DNS_ANSWER */
};

struct pp_dns;

/* Starts a name server that knows only the names in `rows`. A row with a NULL name ends the
 * table, which must stay valid until the server closes. */
struct pp_dns *pp_dns_open(const struct pp_dns_row *rows);
void pp_dns_close(struct pp_dns *d);
/* Returns the server's address, "127.0.0.1:port". */
const char *pp_dns_server(const struct pp_dns *d);
/* Returns the number of questions for the name so far, repeated ones included. A and AAAA are
 * separate questions. */
int pp_dns_asked(struct pp_dns *d, const char *name);
/* Replaces the IPv4 addresses of all rows. */
void pp_dns_change(struct pp_dns *d, const char *v4);
/* Holds all answers until a call with false. */
void pp_dns_hold(struct pp_dns *d, int held);

#endif
