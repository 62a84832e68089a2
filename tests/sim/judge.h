/* judge.h: checks the rules of DESIGN.md section 6 on a simulated fleet, from what its callers were
 * promised, what reached the broker and the origins, and what the stores have. It uses none of
 * photopool's own accounts.
 *
 *   I1, I10  each accepted item revision has its result, within the time that sim_judge_bound_ms()
 *            computes after the last fault
 *            (those of cancelled and replayed batches: due.h)
 *   I2       one id, one payload; one result for each item of an accepted batch; no result of a
 *            batch that no caller knows, unless its post was sent to several processes; while
 *            nothing fails, no result is sent twice
 *   I3, I9   by the changes of the task store (legal.h)
 *   I4 to I6 by the internet's record (record.h)
 *   I7       each stored photo's object is there, and its bytes have the hash
 *   I8       what is in use does not exceed its bound (bounds.h)
 *   filter   a complete filter of known photos has every photo of the store
 *
 * A violation is reported once, with what was expected and what was seen. */
#ifndef PP_SIM_JUDGE_H
#define PP_SIM_JUDGE_H

#include "fleet.h"

enum { SIM_PROMISE_ITEMS = 8 };

/* What one accepted batch promises. */
struct sim_promise {
    char client[16];
    struct {
        char id[16];
        unsigned photos;
    } items[SIM_PROMISE_ITEMS];
    unsigned n;
};

struct sim_judge *sim_judge_open(struct sim_fleet *f);
/* The batch of this promise was answered with 202 and this body. */
void sim_judge_accepted(struct sim_judge *j, const struct sim_promise *promise, const char *answer, size_t n);
/* The post of this promise was sent to one more process, or again after its process was stopped,
 * or after Redis has forgotten its key. While the ingest queue is away, each of these processes
 * accepts the post as a batch of its own; and only Redis has the key of a post whose process was
 * stopped (journal_queue.h). So one more batch that looks like this one may have results. */
void sim_judge_sent_again(struct sim_judge *j, const struct sim_promise *promise);
/* All faults have ended, and the last upgrade: from some time on, each result is sent once. */
void sim_judge_calm(struct sim_judge *j);
/* Returns true if sim_judge_calm() was called long ago. A fault that has ended can still make
 * requests fail for a while; that time is over then. */
bool sim_judge_is_calm(const struct sim_judge *j);
/* Notes a violation of a rule, a constant such as "I5". `about` may be NULL. */
void sim_judge_report(struct sim_judge *j, const char *rule, const struct sim_about *about, const char *text);
/* Reads what has reached the broker since the last call, and checks it. */
void sim_judge_look(struct sim_judge *j);
/* Returns the number of promised results that are missing. */
size_t sim_judge_missing(const struct sim_judge *j);
/* Checks what must hold when all has ended. */
void sim_judge_end(struct sim_judge *j);
/* Returns how long the fleet may take after the last fault, in ms. */
int64_t sim_judge_bound_ms(const struct sim_judge *j);
/* Returns the text of all violations; "" if there are none. */
const char *sim_judge_verdict(const struct sim_judge *j);
/* The first violation. Its texts are "" if they are not known, or if no rule is broken. */
struct sim_first {
    char rule[8], client[16], batch[64], item[16], process[16];
    int64_t at_us;
};
const struct sim_first *sim_judge_first(const struct sim_judge *j);
/* Returns the last notes about those whom the first violation concerns, a line each. */
const char *sim_judge_events(const struct sim_judge *j);
/* How many of these lines there are at most; 30 if this is not called. */
void sim_judge_set_events(struct sim_judge *j, unsigned most);
size_t sim_judge_results(const struct sim_judge *j);

#endif
