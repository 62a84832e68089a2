/* tickets.h: tickets let a browser open a subscription without knowing an API key. */
#ifndef PHOTOPOOL_API_TICKETS_H
#define PHOTOPOOL_API_TICKETS_H

#include "api/call.h"

#define PP_TICKET_MS 60000

/* Stores the event keys of a ticket, at most `cap`, in the call's arena; returns how many. Returns
 * 0 if the ticket was not made by this installation, or has expired. */
size_t pp_ticket_read(struct pp_call *call, const char *ticket, const char **keys, size_t cap);

#endif
