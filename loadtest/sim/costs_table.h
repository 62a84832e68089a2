/* costs_table.h: written by measure/run. X(port, operation, ns of a call, of each row of the
 * request, of each row of the answer, and bytes of the same three). */
#ifndef PP_LOADTEST_SIM_COSTS_TABLE_H
#define PP_LOADTEST_SIM_COSTS_TABLE_H

#define MESSAGE_NS    10954
#define MESSAGE_BYTES 116
/* clang-format off */
#define COSTS(X) \
    X(STORE, lookup, 295482, 8040, 0, 353, 24, 0) \
    X(STORE, plan, 7764114, 41667, 0, 3673, 356, 0) \
    X(STORE, claim, 926119, 361605, 171614, 825, 1077, 196) \
    X(STORE, settle, 8779738, 870174, 0, 4918, 932, 0) \
    X(STORE, outbox, 1286249, 0, 35509, 1224, 0, 1324) \
    X(STORE, clients, 752360, 0, 0, 480, 13, 0) \
    X(STORE, renew, 4055017, 0, 0, 557, 0, 0) \
    X(STORE, reap, 6642881, 0, 0, 1104, 0, 0) \
    X(STORE, retier, 877479, 0, 0, 513, 0, 0) \
    X(STORE, queue, 4293208, 0, 0, 965, 0, 0) \
    X(STORE, batch, 395116, 0, 0, 770, 0, 0) \
    X(STORE, outbox_counts, 553708, 0, 0, 622, 0, 0) \
    X(DELIVERY, save, 1904823, 0, 0, 561, 0, 0) \
    X(DELIVERY, due, 1382412, 0, 0, 1109, 0, 0) \
    X(DELIVERY, sinks, 2097370, 0, 0, 1198, 0, 0) \
    X(DELIVERY, webhooks, 346372, 0, 0, 536, 0, 0) \
    X(COORDINATOR, acquire, 105375, 7617, 6807, 258, 74, 19) \
    X(COORDINATOR, renew, 118110, 18485, 0, 321, 106, 0) \
    X(COORDINATOR, release, 100467, 20372, 0, 317, 106, 0) \
    X(COORDINATOR, elect, 53157, 0, 0, 243, 0, 0) \
    X(COORDINATOR, announce, 42550, 14330, 0, 226, 17, 0) \
    X(COORDINATOR, notify, 53157, 0, 0, 201, 42, 0) \
    X(COORDINATOR, backlog, 0, 0, 1560, 0, 0, 39) \
    X(COORDINATOR, heartbeat, 166726, 0, 0, 1946, 0, 0) \
    X(INGEST, append, 143281, 30, 0, 962, 4, 0) \
    X(INGEST, take, 134399, 0, 22, 713, 0, 4) \
    X(INGEST, ack, 57853, 54038, 0, 387, 133, 0) \
    X(INGEST, stats, 47383, 0, 0, 420, 0, 0) \
    X(EVENTS, append, 108175, 12579, 0, 193, 1262, 0) \
    X(EVENTS, read, 50889, 0, 6310, 184, 0, 1268)
/* clang-format on */

#endif
