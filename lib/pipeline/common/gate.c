/* gate.c: collects reports of local faults from all threads, probes, and opens and closes the gate.
 *
 * Other threads write into `reports`, under the lock, and post one mail; the main loop takes all
 * reports at once. Only the main loop uses `faults`. One probe is in flight at a time, on a thread
 * of its own, so that a probe does not wait behind photos. */
#include "pipeline/common/gate.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "core/local_fault.h"
#include "runtime/lane.h"
#include "runtime/mailbox.h"

#define TICK_MS      100
#define SPACE_MS     1000 /* disk space is measured at this interval */
#define PROBE_FILES  8
#define PROBE_MEMORY (4u << 20)

struct gate_fault {
    struct pp_local_fault state;
    char text[PP_GATE_TEXT_MAX];
    uint64_t handed_back; /* while the failure lasts */
};

struct gate_probe {
    struct pp_job job;
    struct pp_gate *gate;
    enum pp_gate_kind kind;
    bool in_flight, ok;
    uint64_t written;      /* the bytes written when the measurement began */
    struct pp_space space; /* only the probe's thread uses this while the probe is in flight */
};

struct pp_gate {
    struct pp_gate_options o;
    struct gate_fault faults[PP_GATE_KINDS];
    struct pp_timer *timer;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    struct gate_probe probe;
    struct pp_mailbox *mailbox;
    bool stopped, measured;
    int64_t measured_ms;  /* disk space was last measured at this time */
    uint64_t kept_before; /* `kept` when the blob store was last well again */
    /* Other threads use the members below. The mail is in the mailbox while `posted`. */
    struct pp_mail mail;
    atomic_bool posted, blobs_failing, measure; /* `measure`: disk space is to be measured at once */
    struct pp_room room;
    atomic_uint_fast64_t kept;
    atomic_int waits;
    atomic_uint blobs_round;
    pthread_mutex_t lock;
    struct {
        bool is;
        char text[PP_GATE_TEXT_MAX];
    } reports[PP_GATE_KINDS];
};

static const char *const names[] = {
#define X(name, text) text,
    PP_GATE_TABLE(X)
#undef X
};

static int64_t now_of(const struct pp_gate *gate)
{
    return pp_loop_now(gate->o.loop);
}

/* --- reports from any thread --- */

static void post(struct pp_gate *gate)
{
    if (!atomic_exchange(&gate->posted, true))
        pp_mailbox_post(gate->mailbox, &gate->mail);
}

/* Copies the text, with a small letter at the start of a sentence: "No space left on device". */
static void copy_text(char to[PP_GATE_TEXT_MAX], const char *text)
{
    snprintf(to, PP_GATE_TEXT_MAX, "%s", text);
    if (islower((unsigned char)to[1]))
        to[0] = (char)tolower((unsigned char)to[0]);
}

void pp_gate_fault(struct pp_gate *gate, enum pp_gate_kind kind, const char *text)
{
    char words[PP_GATE_TEXT_MAX] = "";

    pp_assert(kind < PP_GATE_KINDS && (text || kind == PP_GATE_BLOBS), "a local fault without its text");
    if (!text)
        gate->o.blobs->ops->reason(gate->o.blobs, words, sizeof(words));
    if (kind == PP_GATE_BLOBS)
        atomic_store(&gate->blobs_failing, true);
    pthread_mutex_lock(&gate->lock);
    gate->reports[kind].is = true;
    copy_text(gate->reports[kind].text, text ? text : words);
    pthread_mutex_unlock(&gate->lock);
    post(gate);
}

void pp_gate_kept(struct pp_gate *gate)
{
    atomic_fetch_add_explicit(&gate->kept, 1, memory_order_relaxed);
}

static void report_no_room(struct pp_gate *gate)
{
    pp_gate_fault(gate, PP_GATE_SPACE, "photos have used up the space above blobs.min_free");
}

void pp_gate_wrote(struct pp_gate *gate, uint64_t n)
{
    enum pp_room_left left = pp_room_use(&gate->room, n);

    if (left == PP_ROOM_PLENTY)
        return;
    if (left == PP_ROOM_NONE)
        report_no_room(gate);
    atomic_store(&gate->measure, true);
    post(gate);
}

void pp_gate_waits(struct pp_gate *gate, int by)
{
    int was = atomic_fetch_add(&gate->waits, by);

    pp_assert(was + by >= 0, "fewer bodies wait for the blob store than none");
    if (was + by == 0)
        post(gate);
}

unsigned pp_gate_blobs_round(const struct pp_gate *gate)
{
    return atomic_load(&gate->blobs_round);
}

bool pp_gate_blobs_failing(const struct pp_gate *gate)
{
    return atomic_load(&gate->blobs_failing);
}

/* --- closing and opening, on the main loop --- */

bool pp_gate_closed(const struct pp_gate *gate)
{
    for (size_t k = 0; gate && k < PP_GATE_KINDS; k++)
        if (gate->faults[k].state.state != PP_LOCAL_WELL)
            return true;
    return false;
}

int64_t pp_gate_closed_ms(const struct pp_gate *gate)
{
    int64_t longest = 0;
    for (size_t k = 0; gate && k < PP_GATE_KINDS; k++) {
        const struct pp_local_fault *f = &gate->faults[k].state;
        if (f->state != PP_LOCAL_WELL && now_of(gate) - f->since_ms > longest)
            longest = now_of(gate) - f->since_ms;
    }
    return longest;
}

enum pp_gate_kind pp_gate_why(const struct pp_gate *gate)
{
    size_t k = 0;
    while (gate->faults[k].state.state == PP_LOCAL_WELL)
        pp_assert(++k < PP_GATE_KINDS, "a gate without a reason to be closed");
    return (enum pp_gate_kind)k;
}

bool pp_gate_reason(const struct pp_gate *gate, char *buf, size_t n)
{
    if (!pp_gate_closed(gate))
        return false;
    enum pp_gate_kind kind = pp_gate_why(gate);
    snprintf(buf, n, "%s: %s", names[kind], gate->faults[kind].text);
    return true;
}

enum pp_back pp_gate_back(enum pp_gate_kind kind)
{
    static const enum pp_back backs[] = {
#define X(name, text) PP_BACK_##name,
        PP_GATE_TABLE(X)
#undef X
    };
    pp_assert(kind < PP_GATE_KINDS, "no such resource");
    return backs[kind];
}

void pp_gate_handed_back(struct pp_gate *gate, enum pp_back why)
{
    for (int k = 0; k < PP_GATE_KINDS; k++)
        gate->faults[k].handed_back += pp_gate_back((enum pp_gate_kind)k) == why;
}

static void say(struct pp_gate *gate, enum pp_gate_kind kind)
{
    struct gate_fault *f = &gate->faults[kind];

    if (pp_local_fault_say(&f->state, now_of(gate)))
        pp_log(gate->o.log, PP_LOG_WARN, "fetching is paused", "resource", names[kind], "reason", f->text,
               "photos_handed_back", PP_LOG_INT(f->handed_back), "photos_waiting",
               PP_LOG_INT(atomic_load(&gate->waits)), NULL);
}

static void on_well(struct pp_gate *gate, enum pp_gate_kind kind)
{
    struct gate_fault *f = &gate->faults[kind];

    pp_log(gate->o.log, PP_LOG_INFO, "fetching continues", "resource", names[kind], "seconds",
           PP_LOG_INT((now_of(gate) - f->state.since_ms + 500) / 1000), "photos_handed_back",
           PP_LOG_INT(f->handed_back), NULL);
    f->handed_back = 0;
    gate->kept_before = atomic_load(&gate->kept);
    if (!pp_gate_closed(gate))
        gate->o.on_open(gate->o.data);
}

static void take_report(struct pp_gate *gate, enum pp_gate_kind kind)
{
    struct gate_fault *f = &gate->faults[kind];

    pthread_mutex_lock(&gate->lock);
    bool is = gate->reports[kind].is;
    gate->reports[kind].is = false;
    if (is)
        memcpy(f->text, gate->reports[kind].text, sizeof(f->text));
    pthread_mutex_unlock(&gate->lock);
    if (!is)
        return;
    bool worked = kind != PP_GATE_BLOBS || atomic_load(&gate->kept) != gate->kept_before;
    pp_local_fault_seen(&f->state, now_of(gate), worked);
    say(gate, kind);
    if (!gate->stopped)
        pp_timer_sooner(gate->timer, TICK_MS);
}

static void measure_if_wanted(struct pp_gate *gate);

static void on_mail(void *data, struct pp_list *mail)
{
    struct pp_gate *gate = data;
    struct gate_fault *blobs = &gate->faults[PP_GATE_BLOBS];

    while (pp_list_pop(mail))
        ;
    atomic_store(&gate->posted, false);
    for (int k = 0; k < PP_GATE_KINDS; k++)
        take_report(gate, (enum pp_gate_kind)k);
    if (blobs->state.state == PP_LOCAL_TRYING && atomic_load(&gate->waits) == 0) {
        pp_local_fault_done(&blobs->state, now_of(gate));
        on_well(gate, PP_GATE_BLOBS);
    }
    measure_if_wanted(gate);
}

/* --- probing --- */

static bool files_work(void)
{
    int fds[PROBE_FILES], n = 0;

    while (n < PROBE_FILES && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    bool ok = n == PROBE_FILES;
    while (n > 0)
        close(fds[--n]);
    return ok;
}

static bool memory_works(void)
{
    char *volatile p = malloc(PROBE_MEMORY);
    bool ok = p != NULL;
    free(p);
    return ok;
}

static void work_probe(void *state, struct pp_job *job)
{
    struct gate_probe *probe = pp_container_of(job, struct gate_probe, job);
    struct pp_blob_store *blobs = probe->gate->o.blobs;
    char text[PP_GATE_TEXT_MAX];

    (void)state;
    switch (probe->kind) {
    case PP_GATE_BLOBS:
        probe->ok = blobs->ops->check(blobs) == PP_OK;
        if (!probe->ok)
            pp_gate_fault(probe->gate, PP_GATE_BLOBS, NULL); /* updates the text */
        break;
    case PP_GATE_SPACE:
        probe->written = pp_room_written(&probe->gate->room);
        probe->ok = pp_space_measure(&probe->space, text, sizeof(text));
        if (!probe->ok)
            pp_gate_fault(probe->gate, PP_GATE_SPACE, text);
        break;
    case PP_GATE_FILES: probe->ok = files_work(); break;
    default: probe->ok = memory_works();
    }
}

/* Tells the operator about each disk that is so small that less than blobs.min_free must be
 * free. */
static void say_lowered(const struct pp_gate *gate)
{
    const struct pp_space *space = &gate->o.space;

    for (int i = 0; i < PP_SPACE_DIRS; i++)
        if (space->minimum[i] > 0 && space->minimum[i] < space->min_free)
            pp_log(gate->o.log, space->is_set ? PP_LOG_WARN : PP_LOG_INFO,
                   "blobs.min_free is lowered, because the disk is small", "folder", space->dir[i],
                   space->is_set ? "configured" : "default", PP_LOG_INT(space->min_free), "now",
                   PP_LOG_INT(space->minimum[i]), NULL);
}

/* Takes the result of a measurement. Photos may have used up meanwhile what it has found. */
static void on_measured(struct pp_gate *gate)
{
    enum pp_room_left left = pp_room_measured(&gate->room, &gate->probe.space, gate->probe.written);

    gate->o.space = gate->probe.space;
    if (left == PP_ROOM_NONE && gate->probe.ok) {
        gate->probe.ok = false;
        report_no_room(gate);
    }
    if (left != PP_ROOM_PLENTY)
        atomic_store(&gate->measure, true);
    if (!gate->measured)
        say_lowered(gate);
    gate->measured = true;
}

static void take_result(struct pp_gate *gate)
{
    struct gate_probe *probe = &gate->probe;
    struct pp_local_fault *state = &gate->faults[probe->kind].state;
    bool waits = probe->kind == PP_GATE_BLOBS && atomic_load(&gate->waits) > 0;

    if (probe->kind == PP_GATE_SPACE)
        on_measured(gate);
    if (state->state == PP_LOCAL_WELL) /* disk space is measured also while there is enough */
        return;
    if (probe->ok && probe->kind == PP_GATE_BLOBS) {
        /* Bodies may begin to wait until this store. on_retry() comes after it, so it finds all. */
        atomic_fetch_add(&gate->blobs_round, 1);
        atomic_store(&gate->blobs_failing, false);
        gate->o.on_retry(gate->o.data);
    }
    if (pp_local_fault_probed(state, now_of(gate), probe->ok, waits) == PP_LOCAL_WELL)
        on_well(gate, probe->kind);
}

static void on_probed(struct pp_job *job)
{
    struct pp_gate *gate = pp_container_of(job, struct gate_probe, job)->gate;

    gate->probe.in_flight = false;
    take_result(gate);
    measure_if_wanted(gate);
}

static void start_probe(struct pp_gate *gate, enum pp_gate_kind kind)
{
    gate->probe.kind = kind;
    gate->probe.job = (struct pp_job){.work = work_probe, .done = on_probed};
    gate->probe.in_flight = pp_lane_submit(gate->home, &gate->probe.job) == PP_OK;
}

static void measure_space(struct pp_gate *gate)
{
    atomic_store(&gate->measure, false);
    gate->measured_ms = now_of(gate);
    start_probe(gate, PP_GATE_SPACE);
}

static void measure_if_wanted(struct pp_gate *gate)
{
    if (!gate->stopped && !gate->probe.in_flight && atomic_load(&gate->measure))
        measure_space(gate);
}

static void on_tick(void *data)
{
    struct pp_gate *gate = data;

    if (gate->o.space.min_free > 0 && !gate->probe.in_flight && now_of(gate) - gate->measured_ms >= SPACE_MS)
        measure_space(gate);
    for (int k = 0; k < PP_GATE_KINDS; k++) {
        say(gate, (enum pp_gate_kind)k);
        if (!gate->probe.in_flight && pp_local_fault_probe_due(&gate->faults[k].state, now_of(gate)))
            start_probe(gate, (enum pp_gate_kind)k);
    }
    if (pp_gate_closed(gate))
        pp_timer_start(gate->timer, TICK_MS, 0);
    else if (gate->o.space.min_free > 0)
        pp_timer_start(gate->timer, SPACE_MS, 0);
}

/* --- opening, stopping, closing --- */

struct pp_gate *pp_gate_open(const struct pp_gate_options *options)
{
    struct pp_gate *gate = calloc(1, sizeof(*gate));

    pp_assert(options->blobs && options->on_open && options->on_retry, "a gate lacks an option");
    if (!gate)
        return NULL;
    gate->o = *options;
    gate->probe.gate = gate;
    pp_room_init(&gate->room);
    gate->probe.space = options->space;
    gate->measured_ms = now_of(gate) - SPACE_MS;
    pthread_mutex_init(&gate->lock, NULL);
    gate->timer = pp_timer_open(options->loop, on_tick, gate);
    gate->mailbox = pp_mailbox_open(options->loop, on_mail, gate);
    gate->lane =
        pp_lane_open(&(struct pp_lane_options){.name = "probe", .threads = 1, .capacity = 1, .max_batch = 1});
    gate->home = gate->lane ? pp_lane_home_open(gate->lane, options->loop) : NULL;
    if (!gate->timer || !gate->mailbox || !gate->home) {
        pp_gate_close(gate);
        return NULL;
    }
    pp_timer_start(gate->timer, 0, 0);
    return gate;
}

void pp_gate_stop(struct pp_gate *gate)
{
    gate->stopped = true;
    pp_timer_stop(gate->timer);
}

bool pp_gate_busy(const struct pp_gate *gate)
{
    return gate->probe.in_flight;
}

void pp_gate_close(struct pp_gate *gate)
{
    if (!gate)
        return;
    pp_assert(!gate->probe.in_flight, "a gate is closed while it probes");
    pp_lane_close(gate->lane);
    pp_lane_home_close(gate->home);
    pp_mailbox_close(gate->mailbox);
    pp_timer_close(gate->timer);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

void pp_gate_write_metrics(const struct pp_gate *gate, struct pp_buf *out)
{
    pp_buf_printf(out,
                  "# HELP photopool_blob_store_up 1 if the blob store takes photos, 0 if it fails.\n"
                  "# TYPE photopool_blob_store_up gauge\nphotopool_blob_store_up %d\n",
                  gate->faults[PP_GATE_BLOBS].state.state == PP_LOCAL_WELL);
    if (gate->measured && gate->o.space.dir[PP_SPACE_BLOBS])
        pp_buf_printf(out,
                      "# HELP photopool_blob_store_free_bytes Free disk space of a blob store of files.\n"
                      "# TYPE photopool_blob_store_free_bytes gauge\n"
                      "photopool_blob_store_free_bytes %" PRIu64 "\n",
                      gate->o.space.free_bytes[PP_SPACE_BLOBS]);
}
