/* record.h: the simulator's record of what reached the origins, and the rules that hold there. It
 * knows nothing of photopool's own accounts.
 *
 * Rules (DESIGN.md section 6), checked at the start of each request, in amortised O(1):
 *   I4  the requests in flight for a client never exceed its concurrency
 *   I5  the requests for a client in any half-open window of 60 s never exceed its rate
 *   I6  no connection is opened to an address that is not public, or to a port that is not 80 or
 *       443
 *   host  the requests to a host, of all clients, that their senders wait for never exceed
 *         hosts.concurrency
 *
 * A request is in flight from `start_ms`, when it arrives at the origin, until `end_ms`, when the
 * origin has sent its answer or has seen the connection close. A request that ends at the moment
 * at which another starts does not overlap it.
 *
 * Limits change during a run. A higher limit counts at once; a lower one counts for requests that
 * start at least `grace_ms` after the change. How fast photopool applies a change (pipeline/claim):
 *   - the process that the caller asked applies it at once (pp_claimer_client_changed);
 *   - others get a notice, then read the settings from the store, again after CLAIM_TRY_AGAIN_MS
 *     (1 s) if that fails. Tasks that they have claimed before, up to CLAIM_AHEAD_LEAD_MS (250 ms)
 *     ahead of their permits, still start;
 *     While they know that they must read the settings, they claim nothing for the client;
 *   - a process that is cut off gets no notice. It stops sending when half of its lease is over.
 *     Its requests may still have ended later, but no new one starts;
 *   - if nobody sends a notice, they claim nothing under settings that they have read
 *     CLAIM_SETTINGS_MS (60 s) ago. The caller sets such a limit only then.
 * So 3 s are enough without faults, and with faults the length of a lease and 3 s.
 *
 * Times are in ms of the simulated world and never go back from call to call. The record belongs
 * to one thread. To add a rule, add a value to enum sim_rule and call report() in record.c. */
#ifndef PP_SIM_RECORD_H
#define PP_SIM_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/list.h"
#include "behave.h"

#define SIM_WINDOW_MS 60000

enum sim_rule { SIM_RULE_I4, SIM_RULE_I5, SIM_RULE_I6, SIM_RULE_HOST };

/* One request at its origin. The record owns it and its texts. */
struct sim_request {
    struct pp_node node;      /* links all requests, in the order of their arrival */
    struct pp_node in_window; /* links the client's requests of the last 60 s */
    struct pp_node in_flight; /* links the client's requests in flight */
    struct sim_client *client;
    struct sim_site *at;
    const char *host, *process;
    const char *address; /* the address that the request went to */
    char *url;
    int64_t start_ms, end_ms; /* end_ms is INT64_MAX while the request is in flight */
    int64_t began_ms;         /* when its process began to look up the host's name */
    enum sim_says says;       /* what the answer says of the photo; OTHER if it did not arrive */
    bool hidden;              /* as in struct sim_answer */
    /* The status of the answer. 0: the connection was closed without a head. */
    int status;
    uint64_t tag;          /* for `seen` */
    bool windowed, flying; /* true while the request is linked by in_window, by in_flight */
    bool awaited;          /* it is in flight, and its sender waits for it */
};

struct sim_record_options {
    /* Limits of the clients without limits of their own; 0: unlimited. The client "", to which the
     * hosts of no client belong, has no limits. */
    uint32_t rpm, concurrency;
    uint32_t host_concurrency; /* requests in flight to a host; 0: unlimited */
    int64_t grace_ms;
    /* false: the record frees a request when no check needs it any more */
    bool keep;
    /* Called for each request, before the checks of its start, and again when it has ended; data is
     * seen_data. NULL: nobody is told. */
    void (*seen)(void *seen_data, struct sim_request *q, bool ended);
    void *seen_data;
    /* Called when a client begins to break a rule, and again at each new maximum. `text` says what
     * was expected and what was seen, and lists the requests concerned. It must not call the
     * record. */
    void (*violated)(void *data, enum sim_rule rule, const char *text);
    void *data;
};

/* What a client's requests came to. The `_at_ms` are the start of the window, and of the request
 * that made the overlap. */
struct sim_worst {
    uint64_t requests;
    uint32_t window, overlap;
    int64_t window_at_ms, overlap_at_ms;
};

struct sim_record;

/* Returns NULL when out of memory. */
struct sim_record *sim_record_open(const struct sim_record_options *options);
void sim_record_close(struct sim_record *r);

/* Sets a client's limits from at_ms on; 0: unlimited. Changes of one client come in the order of
 * their times. at_ms may lie in the past or the future; limits that hold from the beginning have
 * INT64_MIN, otherwise they count as a change of the record's. Returns false when out of memory. */
bool sim_record_set_limit(struct sim_record *r, const char *client, uint32_t rpm, uint32_t concurrency,
                          int64_t at_ms);

struct sim_arrival {
    const char *client, *host, *url, *process, *address;
    /* true: the connection was closed before the request arrived, so the request counts for the
     * rate, but is never in flight */
    bool closed;
    int64_t began_ms;
    enum sim_says says;
    bool hidden;
};

/* Notes that a request arrives, and checks the rules. Copies the texts. Returns NULL when out of
 * memory. Without `keep`, the result is valid until the request has ended. */
struct sim_request *sim_record_start(struct sim_record *r, const struct sim_arrival *arrival, int64_t now_ms);
/* Notes that the sender of a request has closed its connection. */
void sim_record_left(struct sim_request *q);
/* Notes that the request ends; must be called once. */
void sim_record_end(struct sim_record *r, struct sim_request *q, int status, int64_t now_ms);

/* Notes that a process opened a connection to an address. `allowed` is the verdict of the code that
 * made up the addresses and ports. */
void sim_record_opened(struct sim_record *r, const char *process, const char *host, const struct sockaddr *sa,
                       bool allowed, int64_t now_ms);

#define SIM_ADDRESS_MAX 46
/* Writes the address as text without its port, "?" if it is neither IPv4 nor IPv6. Returns buf. */
char *sim_address_text(const struct sockaddr *sa, char buf[SIM_ADDRESS_MAX]);

/* Returns all zero for a client that is not known. */
struct sim_worst sim_record_worst(const struct sim_record *r, const char *client);
uint64_t sim_record_requests(const struct sim_record *r);
uint64_t sim_record_connections(const struct sim_record *r);
uint64_t sim_record_violations(const struct sim_record *r);
/* Calls each(data, q) for the requests that the record still has, in the order of their arrival. */
void sim_record_each(const struct sim_record *r, void (*each)(void *data, const struct sim_request *q),
                     void *data);
/* Returns the client's name, as text that lives as long as the record. */
const char *sim_request_client(const struct sim_request *q);
/* Writes a line for each request that has ended: START END CLIENT HOST PROCESS STATUS URL, with
 * times in us. `origin check` reads this file, too. */
void sim_record_write(const struct sim_record *r, FILE *out);

#endif
