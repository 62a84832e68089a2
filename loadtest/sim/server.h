/* server.h: the made-up servers, and the lines of processes to them. A server charges each
 * operation what it costs on a real one (costs.c): each core of a shard does one call at a time.
 *
 *   send --way--> a core is free --cost--> the operation runs --cost of its answer--way--> the
 *                                                                        caller has its answer
 *
 * Nothing is lost or reordered on a line. */
#ifndef PP_LOADTEST_SIM_SERVER_H
#define PP_LOADTEST_SIM_SERVER_H

#include "adapter/memory/call.h"
#include "adapter/memory/message.h"
#include "adapter/memory/notice.h"
#include "runtime/sim/sim.h"

/* The servers, and the ports whose calls go there. */
enum scale_server_kind { SCALE_MONGO, SCALE_REDIS, SCALE_SERVERS };
enum scale_port { SCALE_STORE, SCALE_DELIVERY, SCALE_COORDINATOR, SCALE_INGEST, SCALE_EVENTS, SCALE_PORTS };
enum { SCALE_CALLS_MAX = 64, SCALE_SHARDS_MAX = 512, SCALE_CORES_MAX = 4 };

extern const char *const scale_port_names[SCALE_PORTS];

/* The calls of one operation. */
struct scale_calls {
    const struct pp_memory_op *op; /* valid in the process that ran the fleet */
    enum scale_port port;
    char name[24];
    uint64_t n, rows, got; /* calls so far; the rows that they were about; the rows of answers */
};

struct scale_van;
struct scale_line;

struct scale_server {
    struct pp_sim_world *world;
    int64_t way_us;         /* one way between a process and the server */
    unsigned shards, cores; /* cores of each shard, at most SCALE_CORES_MAX */
    double speed;           /* how many times as fast as the server that was measured */
    int64_t free_us[SCALE_SHARDS_MAX][SCALE_CORES_MAX]; /* the core has work until this time */
    int64_t work_ns[SCALE_SHARDS_MAX]; /* how long all cores of the shard have worked so far */
    struct scale_calls calls[SCALE_CALLS_MAX];
    size_t n_calls;
    uint64_t messages;           /* to processes */
    uint64_t bytes[SCALE_PORTS]; /* of calls and their answers */
    /* A call of the coordinator has run; NULL: nobody wants to know. */
    void (*ran)(void *data, const struct scale_line *line, const struct pp_memory_call *call);
    void *ran_data;
    struct scale_van *van; /* takes the messages of this moment */
};

struct scale_line {
    struct pp_memory_line line; /* must be the first member */
    struct scale_server *server;
    struct pp_sim_process *process;
    enum scale_port port;
    unsigned number; /* of the process: chooses the shard of calls that concern no client */
};

/* Opens a line of the current process. */
void scale_line_open(struct scale_line *l, struct pp_loop *loop, struct scale_server *server,
                     enum scale_port port, unsigned number);
/* Carry messages and notices of a server to processes; `server` is a struct scale_server. */
struct pp_memory_post scale_post(struct scale_server *s);
void scale_carry(void *server, struct pp_memory_notice *notice);

/* --- costs.c --- */

struct scale_cost { /* of a call, of each row that it is about, of each row of its answer */
    int64_t call, row, got;
};
struct scale_costs {
    struct scale_cost ns, bytes; /* the time of a shard; the bytes that it receives and sends */
};
const struct scale_costs *scale_costs_of(enum scale_port port, const char *op);
/* What a message to one process costs the server. */
int64_t scale_message_ns(void);
int64_t scale_message_bytes(void);
/* Returns the number of rows that a call is about, and sets *client to one of its clients; to NULL
 * if it concerns none. */
uint64_t scale_rows_of(enum scale_port port, const struct pp_memory_call *call, const char **client);
/* Returns the number of rows in the answer of a call that has run. */
uint64_t scale_got_of(enum scale_port port, const struct pp_memory_call *call);

#endif
