/* http.h: the API of a simulated process, behind a server that carries requests in memory: no
 * sockets, and no bytes of HTTP. What lib/api decides and asks the ports goes through it. */
#ifndef PP_SIM_HTTP_H
#define PP_SIM_HTTP_H

#include "photopool/port/http_server.h"

struct sim_http;
struct sim_part;

/* One request. The caller owns it, and sets the first group of members; they stay valid until
 * done(). If the process crashes first, done() never fires, and the request must be left alone. */
struct sim_http_call {
    enum pp_method method;
    const char *path, *body, *key; /* body: JSON, "": none; key: the Idempotency-Key, NULL: none */
    void (*done)(struct sim_http_call *call);
    void *data;
    /* Valid in done(): */
    int status;
    const char *answer;
    size_t answer_n;
    /* Only http.c uses this. */
    struct pp_http_request req;
};

/* Opens the API of a process whose pipeline is open. Aborts if out of memory. */
struct sim_http *sim_http_open(struct sim_part *part);
/* Sends a request to the process. done() fires once, before this returns or later. */
void sim_http_send(struct sim_http *h, struct sim_http_call *call);
/* Returns the number of requests that are not answered. `h` may be NULL in the next three. */
size_t sim_http_in_flight(const struct sim_http *h);
/* The process drains. */
void sim_http_drain(struct sim_http *h);
/* Returns true if no request is in flight. */
bool sim_http_still(const struct sim_http *h);
/* Only if it is still. */
void sim_http_close(struct sim_http *h);

#endif
