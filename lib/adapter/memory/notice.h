/* notice.h: how a server in memory tells a process that something has changed.
 *
 * A port has an ear. The server tells the ear; a notice then travels to the process, and the port
 * hears it in a later turn of its loop:
 *
 *   server --pp_memory_ear_tell--> carry() --pp_memory_notice_arrive--> heard()
 *
 * Without carry() a timer of the ear's loop brings the notice. The simulator has a carry() of its
 * own, which delays notices and loses them. A notice may outlive its ear; then it reaches
 * nobody. */
#ifndef PP_ADAPTER_MEMORY_NOTICE_H
#define PP_ADAPTER_MEMORY_NOTICE_H

#include <stdbool.h>

#include "adapter/memory/call.h"
#include "base/list.h"
#include "runtime/loop.h"

struct pp_memory_ear {
    struct pp_memory_line *line; /* of the port: says whose ear it is */
    void (*heard)(void *port);
    void *port;
    struct pp_timer *timer;
    struct pp_list on_way; /* notices that have neither arrived nor been lost */
    bool told;             /* a notice has arrived, and heard() was not called yet */
};

struct pp_memory_notice {
    struct pp_node node; /* for the carrier */
    struct pp_memory_line *line;
    /* true: the notice stands for a new connection after the server has lost data. It may be
     * delayed, but not lost. */
    bool sure;
    struct pp_memory_ear *ear; /* NULL: the port is closed */
    struct pp_node in_ear;     /* in ear->on_way */
};

/* Takes over a notice, and later calls one of the two functions at the end of this file. NULL
 * stands for a timer of 0 ms on the port's loop. */
typedef void pp_memory_carry(void *data, struct pp_memory_notice *notice);

/* Opens an ear whose heard(port) runs on `loop`. Returns PP_ENOMEM if there is no memory for its
 * timer. */
pp_must_check enum pp_err pp_memory_ear_open(struct pp_memory_ear *ear, struct pp_loop *loop,
                                             struct pp_memory_line *line, void (*heard)(void *port),
                                             void *port);
/* Closes an ear: heard() is not called any more. */
void pp_memory_ear_close(struct pp_memory_ear *ear);
/* Returns true if the ear was told something and has not heard it. */
bool pp_memory_ear_waits(const struct pp_memory_ear *ear);
/* Sends a notice to the ear. When out of memory the notice is lost. */
void pp_memory_ear_tell(struct pp_memory_ear *ear, pp_memory_carry *carry, void *data, bool sure);
/* Lets the ear hear something in a later turn of its loop, without a notice. */
void pp_memory_ear_wake(struct pp_memory_ear *ear);

/* The carrier calls one of these for each notice: it has arrived, or is lost. Both free it. */
void pp_memory_notice_arrive(struct pp_memory_notice *notice);
void pp_memory_notice_drop(struct pp_memory_notice *notice);

#endif
