/* coordinator_data.h: the data of the coordinator in memory, its operations, and its messages.
 *
 * Times are by the server's clock, unless a comment says otherwise. The holder of a slot sends its
 * times with its own `now`; the operation adds the difference between the clocks, the skew.
 *
 * To add an operation: add a row in PP_MC_OPS, and write pp_mc_run_<name>() and
 * pp_mc_copy_<name>(), whose rules call.h has. */
#ifndef PP_ADAPTER_MEMORY_COORDINATOR_DATA_H
#define PP_ADAPTER_MEMORY_COORDINATOR_DATA_H

#include "adapter/memory/memory_coordinator.h"
#include "adapter/memory/sorted.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/text.h"
#include "photopool/shared_constants.h"

#define PP_MC_NEVER INT64_MAX /* a due time that never comes */

enum {
    PP_MC_ID_MAX = 48,    /* bytes of a data set's name */
    PP_MC_AHEAD_MS = 3000 /* a renewal reserves the requests of this many ms */
};

/* --- requests --- */

/* What a port and the server tell each other with each request. It lies in the request's scratch
 * memory, behind what the port keeps there. */
struct pp_mc_call {
    uint64_t number; /* the number of this request among those of its process */
    uint32_t process;
    bool led; /* elect: the worker was the leader until now */
    int64_t lease_ms;
    /* in: the data set that the port knows; out: the data set that answers */
    uint64_t set;
    /* in: the number of the latest announcement that the port has received, 0 if it may have missed
     * some; out: the number of the latest announcement */
    uint64_t seq;
    int64_t now_ms; /* out: the time of the server */
    void *answer;   /* out: what the operation says */
};

struct pp_mc_port; /* coordinator_port.h */
struct pp_mc_share;

/* The scratch memory of a request in flight. */
struct pp_mc_scratch {
    /* The following members are the port's. The server must not touch them: the port may be
     * gone. */
    struct pp_mc_port *port;
    uint64_t op; /* enum pp_mc_op */
    void (*done)(struct pp_req *req);
    int64_t asked_ms; /* when the port sent the request, by its loop's clock */
    uint64_t losses;  /* the value of port->losses at that moment */
    struct pp_mc_call call;
};
_Static_assert(sizeof(struct pp_mc_scratch) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

static inline struct pp_mc_call *pp_mc_call_of(struct pp_req *req)
{
    return &((struct pp_mc_scratch *)req->scratch)->call;
}

struct pp_mc_slot { /* the answer for one wanted slot */
    bool granted, empty;
    uint32_t share, shares, spent, taken;
    int64_t until_ms; /* granted: taken until then; else when to ask again */
    /* The marks' times are by the clock of an earlier holder; plus the skew they are the
     * server's. */
    int64_t skew_ms;
    struct pp_slot_mark *marks;
    size_t n_marks;
};

struct pp_mc_host {
    const char *name;
    int64_t until_ms;
};

/* The requests that ports make on their own. Times in them are ms from now. Their callers are the
 * ports, so they have their memory in `own`. */

struct pp_mc_own {
    struct pp_req req;
    struct pp_arena arena;
};

struct pp_mc_announce {
    struct pp_mc_own own;
    bool forgot; /* the port has dropped other announcements, so the index is not complete */
    struct pp_backlog_row *rows;
    size_t n;
    int64_t wall_ms; /* the port's clock when it sent the rows, for the port */
};

struct pp_mc_slow {
    struct pp_mc_own own;
    struct pp_mc_host *hosts;
    size_t n;
};

struct pp_mc_neighbour {
    const char *id, *tiers;
    uint32_t capacity, weight;
    int64_t started_ms; /* by the server's clock */
};

struct pp_mc_heartbeat {
    struct pp_mc_own own;
    struct pp_worker_info info; /* started_at: how long ago */
    /* in: the ring that the port knows, by its data set (0: none) and version; out: the server's
     * version */
    uint64_t ring_set, version;
    uint32_t size;                      /* out: the number of workers on the ring */
    uint64_t arc;                       /* out: the worker's arc, see pp_mc_arc() */
    bool joined;                        /* out: the heartbeat has put the worker on the ring of its kind */
    struct pp_mc_neighbour *neighbours; /* out; NULL: the port keeps the ring that it knows */
    size_t n;
    /* out: whether the worker must drain, and whether all workers were asked to */
    bool drain, drain_all;
};

struct pp_mc_notify {
    struct pp_mc_own own;
    struct pp_notice *notices;
    size_t n;
};

/* Reads the index for the port's watcher: the rows of the clients that this worker is near to, or
 * has slots of. */
struct pp_mc_read {
    struct pp_mc_own own;
    const char *worker; /* NULL: the process is no worker, and reads all rows */
};

struct pp_mc_workers { /* the answer of `workers` */
    struct pp_worker_info *workers;
    size_t n;
};

struct pp_mc_index { /* the answer of `read` and `backlog`; the due times are the server's */
    struct pp_backlog_row *rows;
    size_t n;
    bool complete;
};

/* Reads what a process needs when it connects. */
struct pp_mc_hello {
    struct pp_mc_own own;
    char first[PP_MC_ID_MAX]; /* the installation's first data set; "": not known */
    bool only_first;          /* only tells the server about `first`, and reads nothing */
    struct pp_mc_host *hosts; /* out */
    size_t n_hosts;
};

/* X(name, type of the request) */
#define PP_MC_OPS(X)              \
    PP_COORD_OPS(X)               \
    X(announce, pp_mc_announce)   \
    X(read, pp_mc_read)           \
    X(slow, pp_mc_slow)           \
    X(heartbeat, pp_mc_heartbeat) \
    X(notify, pp_mc_notify)       \
    X(hello, pp_mc_hello)

#define X(name, type) PP_MC_##name,
enum pp_mc_op { PP_MC_OPS(X) PP_MC_OP_COUNT };
#undef X

#define X(name, type)                                                                    \
    enum pp_err pp_mc_run_##name(struct pp_memory_coordinator_server *s, struct type *r, \
                                 struct pp_mc_call *call);                               \
    bool pp_mc_copy_##name(struct type *r, struct pp_arena *arena);
PP_MC_OPS(X)
#undef X

/* The operations, by enum pp_mc_op. */
extern const struct pp_memory_op pp_mc_ops[PP_MC_OP_COUNT];

/* Copies the strings that rows and a worker's description point to. Return false when out of
 * memory. */
pp_must_check bool pp_mc_copy_rows(struct pp_backlog_row **rows, size_t n, struct pp_arena *arena);
pp_must_check bool pp_mc_copy_info(struct pp_worker_info *info, struct pp_arena *arena);
pp_must_check bool pp_mc_copy_hosts(struct pp_mc_host **hosts, size_t n, struct pp_arena *arena);
pp_must_check bool pp_mc_copy_notices(struct pp_notice **notices, size_t n, struct pp_arena *arena);

/* --- messages --- */

enum pp_mc_kind {
    PP_MC_TELLS_ROWS,  /* announcements */
    PP_MC_TELLS_STAMP, /* the number of the latest announcement */
    PP_MC_TELLS_HOSTS, /* slow hosts */
    PP_MC_TELLS_DRAIN, /* the process's worker must drain: it sends a heartbeat to learn so */
    PP_MC_TELLS_FIRST, /* the data set is the first: workers ask again for refused slots */
    PP_MC_TELLS_NOTICES
};

/* The content of a message. Times in rows and hosts are relative to at_ms. */
struct pp_mc_news {
    enum pp_mc_kind kind;
    uint32_t process; /* the sender; 0: every process handles the message */
    int64_t at_ms;    /* when it was sent */
    uint64_t set;     /* number of the data set */
    uint64_t seq;     /* the number of the latest announcement */
    struct pp_backlog_row *rows;
    struct pp_mc_host *hosts;
    struct pp_notice *notices;
    uint32_t kinds; /* the kinds of the notices; bit k: kind k */
    size_t n;       /* number of rows, hosts or notices */
};

/* Begins a message; NULL when out of memory. Then the message is lost. */
struct pp_memory_content *pp_mc_news_new(enum pp_mc_kind kind, uint32_t process);
/* Sends the message to all connected ports. The sender gets its own announcements, too; a port gets
 * only notices of kinds that it watches. If `ok` is false, or `content` is NULL, the message is
 * lost. Ends the caller's hold of it. */
void pp_mc_publish(struct pp_memory_coordinator_server *s, struct pp_memory_content *content, bool ok);
/* Sends a message without further content to one process. */
void pp_mc_tell_process(struct pp_memory_coordinator_server *s, uint32_t process, enum pp_mc_kind kind);

/* A message with rows that grows. */
struct pp_mc_letter {
    struct pp_memory_content *content;
    size_t cap; /* number of rows for which there is room */
    bool open, failed;
};

/* What the server knows of a port. */
struct pp_mc_client_port {
    struct pp_node node; /* links it into the server's list of ports that were cut */
    struct pp_memory_inbox inbox;
    uint32_t process;
    uint32_t kinds; /* of the notices that the process watches; bit k: kind k */
    bool listens;   /* it is connected, so it gets messages */
    void (*free)(struct pp_mc_client_port *port);
    /* An announcement that an operation makes. */
    struct pp_mc_letter letter;
    struct pp_node letter_node; /* links it into pp_mc_telling.ports, if the letter is open */
    uint64_t told;              /* the latest value of server->tellings with which it was told rows */
};

/* An announcement that an operation makes. All members but `s` and `process` begin as zero. If at
 * most PP_NEAR workers are on the ring, all processes get one message; else the workers near each
 * client and the holders of its slots get messages with the rows that are for them. */
struct pp_mc_telling {
    struct pp_memory_coordinator_server *s;
    uint32_t process; /* the sender; 0: every process handles the messages */
    uint64_t seq;     /* the announcement's number; 0: it has not begun */
    struct pp_mc_letter all;
    struct pp_list ports;
};

/* Announces the client's due times, and writes them into the index. If `holder` is not NULL, only
 * this holder of a slot hears it, and nobody while few workers are on the ring. */
void pp_mc_tell_due(struct pp_mc_telling *t, const char *client, const int64_t due_ms[PP_QUEUES],
                    const struct pp_mc_share *holder);
/* Sends the messages, if the announcement has begun. */
void pp_mc_telling_end(struct pp_mc_telling *t);

/* Returns false when out of memory. */
pp_must_check bool pp_mc_attach(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port);
void pp_mc_detach(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port);
/* Changes the kinds of notices that an attached port watches. */
void pp_mc_set_kinds(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port, uint32_t kinds);
/* Detaches a port whose memory then belongs to the server. */
void pp_mc_keep_cut(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port);

/* --- data --- */

struct pp_mc_cut {
    uint32_t rpm, concurrency, n;
};

/* A share of a client, and its latest holder. It stays as it is when its lease ends; the next
 * acquire interprets it. */
struct pp_mc_share {
    bool there; /* false: nobody has held the share in this data set */
    /* Numbers of the requests that granted, renewed and marked the share. A request that arrives
     * late does not undo a later one. */
    uint64_t hold, renewed, marked;
    int64_t till_ms;           /* the end of the lease */
    uint32_t reserved, flying; /* requests that are reserved, and that are in flight until busy_ms */
    int64_t busy_ms;
    uint32_t taken; /* requests of earlier holders that may be in flight until taken_till_ms */
    int64_t taken_till_ms;
    int64_t skew_ms;  /* the marks' times plus this are by the server's clock */
    bool holds;       /* the worker has not given the share up; its lease may have ended */
    bool told;        /* its holder has said which queues are due */
    uint32_t process; /* of the worker */
    char *worker;     /* NULL: none */
    struct pp_slot_mark *marks;
    size_t n_marks;
};

struct pp_mc_client {
    UT_hash_handle hh;
    struct pp_mc_cut cut;
    struct pp_mc_share *shares; /* cut.n of them */
    int64_t expires_ms;         /* after this time nothing in the shares counts; 0: not known yet */
    char name[];
};

struct pp_mc_due { /* a client in the backlog index, which has at least one due queue */
    UT_hash_handle hh;
    uint64_t seq; /* number of the client's latest announcement */
    int64_t due_ms[PP_QUEUES];
    char name[];
};

struct pp_mc_named { /* a request to drain, or a leader, by name */
    UT_hash_handle hh;
    int64_t at_ms; /* the end of a leader's lease */
    bool all;      /* a request to drain was for all workers */
    char *leader;  /* or NULL */
    char name[];
};

struct pp_mc_circle { /* the workers of one kind on the ring, in the order of (position, id) */
    struct pp_memory_sorted workers;
    char tiers[];
};

struct pp_mc_worker {
    UT_hash_handle hh;
    struct pp_node node; /* links it into server->awake, or server->silent */
    bool silent;
    int64_t at_ms; /* the latest heartbeat */
    uint32_t process, position;
    struct pp_mc_circle *circle; /* NULL: the worker is not on the ring */
    struct pp_worker_info info;  /* started_at: how long before at_ms; its texts are in `texts` */
    char *texts;
    char id[];
};

struct pp_mc_slow_host {
    UT_hash_handle hh;
    int64_t until_ms;
    size_t place; /* in the heap */
    char name[];
};

/* What a worker holds and wants of a host's places. */
struct pp_mc_place {
    struct pp_node node; /* links it into the host's list */
    uint32_t n, want;
    int64_t since_ms; /* n > 0: it began to hold; n = 0: it began to wait */
    int64_t asked_ms, until_ms;
    uint32_t process; /* the latest request: its process, and its number there */
    uint64_t number;
    char worker[];
};

struct pp_mc_place_host {
    UT_hash_handle hh;
    struct pp_list places; /* not empty */
    char name[];
};

struct pp_memory_coordinator_server {
    struct pp_memory_coordinator_options o;
    struct pp_memory_sorted ports; /* by the number of the process */
    /* by kind of notice: the ports that watch it, in the same order */
    struct pp_memory_sorted watching[PP_NOTICE_KINDS];
    struct pp_list cut;
    uint32_t processes; /* number of ports opened so far */
    uint64_t tellings;  /* number of clients that were announced so far */
    uint64_t sets;      /* number of data sets begun so far */
    uint64_t set;       /* number of the data set; 0: it begins with the next request */
    /* The following members are the data set. */
    int64_t began_ms;
    bool first;    /* no request was sent before this data set */
    bool complete; /* the index is complete */
    uint64_t seq;  /* number of the latest announcement */
    char secret[PP_COORD_SECRET_MAX];
    struct pp_mc_client *clients;
    struct pp_mc_due *due;
    struct pp_mc_worker *workers;
    /* all workers, by their latest heartbeats: the others are in `silent` after PP_WORKER_GONE_MS,
     * and not on the ring */
    struct pp_list awake, silent;
    struct pp_memory_sorted circles; /* by the text of the kind */
    uint64_t ring_version;           /* counts changes of the ring, from 1 on */
    uint32_t ring_size;
    struct pp_mc_named *drains, *leaders;
    struct pp_mc_place_host *place_hosts;
    int64_t drains_until_ms;              /* requests to drain count until then */
    struct pp_mc_slow_host *slow, **heap; /* the heap's first host has the earliest end */
    size_t heap_cap;
};

int64_t pp_mc_now(const struct pp_memory_coordinator_server *s);
/* Writes the name of data set number `set`; "" for 0. */
void pp_mc_set_name(const struct pp_memory_coordinator_server *s, uint64_t set, char name[PP_MC_ID_MAX]);
/* Returns true during the first lease of a data set, in which workers may hold slots that the data
 * set does not know. */
bool pp_mc_is_young(const struct pp_memory_coordinator_server *s, int64_t lease_ms, int64_t now_ms);

/* --- coordinator_shares.c --- */

/* Finds the shares of a client; NULL: there are none. */
struct pp_mc_client *pp_mc_client_find(struct pp_memory_coordinator_server *s, const char *name,
                                       int64_t now_ms);
/* Makes a client without holders. Returns NULL when out of memory. */
struct pp_mc_client *pp_mc_client_add(struct pp_memory_coordinator_server *s, const char *name,
                                      struct pp_mc_cut cut);
/* Gives a client without shares those of a cut, without holders. */
pp_must_check bool pp_mc_shares_new(struct pp_mc_client *c, struct pp_mc_cut cut);
void pp_mc_shares_free(struct pp_mc_client *c);
void pp_mc_client_free(struct pp_memory_coordinator_server *s, struct pp_mc_client *c);
/* The client's shares expire after the last lease, request and mark of this one, too. */
void pp_mc_client_keep(struct pp_mc_client *c, const struct pp_mc_share *share, int64_t now_ms);

bool pp_mc_same_cut(struct pp_mc_cut a, struct pp_mc_cut b);
uint32_t pp_mc_part(uint32_t total, uint32_t n, uint32_t k);
bool pp_mc_held(const struct pp_mc_share *share, int64_t now_ms);
/* Lets the share have a copy of these marks, or of the name. Return false when out of memory; then
 * nothing changes. */
pp_must_check bool pp_mc_set_marks(struct pp_mc_share *share, const struct pp_slot_mark *marks, size_t n);
pp_must_check bool pp_mc_set_worker(struct pp_mc_share *share, const char *worker);
/* Adds a mark behind the others. */
pp_must_check bool pp_mc_add_mark(struct pp_mc_share *share, int64_t at_ms, uint32_t n);
/* Writes marks for the requests that a holder may have sent whom this data set has never seen.
 * Returns how many there are. They assume the worst: the whole rate was sent when the data set
 * began; and when the last lease of the lost data set ended, everything that the holder can have
 * reserved (3 s of the rate and twice the concurrency). */
size_t pp_mc_unseen(const struct pp_memory_coordinator_server *s, uint32_t rpm, uint32_t concurrency,
                    int64_t lease_ms, struct pp_slot_mark out[2]);
/* Returns when the last request of a holder ends whom this data set does not know. */
int64_t pp_mc_unseen_till(const struct pp_memory_coordinator_server *s, int64_t lease_ms);

/* --- coordinator_index.c --- */

struct pp_mc_due *pp_mc_due_find(struct pp_memory_coordinator_server *s, const char *client);
/* Writes a client's due times into the index; without any it removes the client. When out of memory
 * the index is not complete. */
void pp_mc_due_write(struct pp_memory_coordinator_server *s, const char *client,
                     const int64_t due_ms[PP_QUEUES], uint64_t seq);
void pp_mc_index_free(struct pp_memory_coordinator_server *s);

/* --- coordinator_ring.c --- */

/* Stores a worker's heartbeat: puts the worker on the ring, or takes it off if it drains. Takes
 * others off that are silent. Sets *joined if the worker was not on the ring of its kind. Returns
 * NULL when out of memory; then the worker keeps its earlier description, if it has one. */
struct pp_mc_worker *pp_mc_ring_beat(struct pp_memory_coordinator_server *s,
                                     const struct pp_worker_info *info, const struct pp_mc_call *call,
                                     bool *joined);
struct pp_mc_worker *pp_mc_worker_find(struct pp_memory_coordinator_server *s, const char *id);
/* Returns true if the worker is listed. */
bool pp_mc_is_listed(const struct pp_mc_worker *w, int64_t now_ms);
/* Answers the worker's neighbours on the ring. Returns false when out of memory. */
pp_must_check bool pp_mc_neighbours(struct pp_memory_coordinator_server *s, const struct pp_mc_worker *w,
                                    struct pp_mc_heartbeat *r);
void pp_mc_ring_free(struct pp_memory_coordinator_server *s);

/* Returns true if so few workers are on the ring that all are near all clients. */
bool pp_mc_is_ring_small(const struct pp_memory_coordinator_server *s);
/* Returns how many workers of each kind are near a client. */
uint32_t pp_mc_near_count(struct pp_memory_coordinator_server *s, const char *client);
/* Returns the place in the circle of the first worker at or after the position; its number of
 * workers if there is none. */
size_t pp_mc_circle_place(const struct pp_mc_circle *circle, uint32_t position);
/* Returns the arc of a worker: it is one of the first n workers of its kind after a position if the
 * position is less than this far before its own. 0: it is not on the ring. 2^32 (all positions) for
 * all workers if the ring is small. */
uint64_t pp_mc_arc(const struct pp_memory_coordinator_server *s, const struct pp_mc_worker *w, uint32_t n);

static inline bool pp_mc_is_in_arc(uint32_t worker, uint64_t arc, uint32_t position)
{
    return (uint32_t)(worker - position) < arc;
}

/* --- coordinator_fleet.c --- */

void pp_mc_fleet_free(struct pp_memory_coordinator_server *s);

/* --- coordinator_places.c --- */

void pp_mc_places_free(struct pp_memory_coordinator_server *s);

#endif
