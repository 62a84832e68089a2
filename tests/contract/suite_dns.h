/* suite_dns.h: a name server with scripted answers, on UDP and TCP of 127.0.0.1, for the resolver's contract.
 */
#ifndef PP_SUITE_DNS_H
#define PP_SUITE_DNS_H

#include <stddef.h>
#include <stdint.h>

enum pp_dns_how {
    PP_DNS_ANSWER, /* the addresses of the row; none: an empty answer */
    PP_DNS_NXDOMAIN,
    PP_DNS_SERVFAIL,
    PP_DNS_SILENT,
    PP_DNS_TRUNCATED, /* on UDP; the whole on TCP */
    PP_DNS_GARBAGE
};

struct pp_dns_row {
    const char *name;
    enum pp_dns_how how;
    const char *v4, *v6; /* separated by blanks; NULL: none */
    uint32_t ttl;        /* seconds */
    const char *alias;   /* the addresses are this name's: a CNAME is sent first; NULL: no */
    uint32_t alias_ttl;
    enum pp_dns_how how6; /* of AAAA, where `how` is PP_DNS_ANSWER */
};

struct pp_dns;

/* `rows` end with a NULL name and must live until close; other names do not exist. */
struct pp_dns *pp_dns_open(const struct pp_dns_row *rows);
void pp_dns_close(struct pp_dns *d);
/* "127.0.0.1:port" */
const char *pp_dns_server(const struct pp_dns *d);
/* Questions for the name so far, A and AAAA counted each, repeated ones too. */
int pp_dns_asked(struct pp_dns *d, const char *name);
/* From now on the row's addresses are these. */
void pp_dns_change(struct pp_dns *d, const char *v4);
/* While held, answers wait. */
void pp_dns_hold(struct pp_dns *d, int held);

#endif
