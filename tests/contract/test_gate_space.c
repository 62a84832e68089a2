/* test_gate_space.c: the gate and the free space of a disk. It closes when photos have used up the
 * space above blobs.min_free, and not only when it is measured the next time. The disk is a
 * struct; the clock moves only when a test moves it, so no measurement comes by time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/common/gate.h"
#include "pipeline/fetch/keep.h"
#include "test_clock.h"
#include "test_loop.h"

#define MIB     ((uint64_t)1 << 20)
#define MINIMUM (10 * MIB)

struct disk {
    atomic_uint_fast64_t free_bytes;
    atomic_int asked; /* number of measurements */
};

static bool ask(void *data, const char *dir, uint64_t *free_bytes, uint64_t *total)
{
    struct disk *disk = data;

    assert_string_equal(dir, "photos");
    *free_bytes = atomic_load(&disk->free_bytes);
    *total = 1000 * MIB;
    atomic_fetch_add(&disk->asked, 1);
    return true;
}

/* A blob store whose objects use space on the disk. */
struct store {
    struct pp_blob_store base;
    struct disk *disk;
};

static enum pp_err put(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                       const struct iovec *iov, int n, bool *existed)
{
    (void)sha256;
    (void)ext;
    (void)existed;
    for (int i = 0; i < n; i++)
        atomic_fetch_sub(&((struct store *)b)->disk->free_bytes, iov[i].iov_len);
    return PP_OK;
}

static const struct pp_blob_store_ops store_ops = {.put = put};

struct kit {
    struct pp_loop *loop;
    struct pp_gate *gate;
    struct disk disk;
    struct store store;
    int opens, kept;
};

static void on_open(void *data)
{
    ((struct kit *)data)->opens++;
}

static void on_retry(void *data)
{
    (void)data;
}

static int measurements(struct kit *k)
{
    return atomic_load(&k->disk.asked);
}

static bool is_quiet(void *k)
{
    return !pp_gate_busy(((struct kit *)k)->gate);
}

static bool is_closed(void *k)
{
    return pp_gate_closed(((struct kit *)k)->gate);
}

static bool was_closed(void *k)
{
    return ((struct kit *)k)->opens > 0;
}

static bool is_measured_again(void *k)
{
    return measurements(k) >= 2 && is_quiet(k);
}

static bool is_measured(void *k)
{
    return measurements(k) >= 1 && is_quiet(k);
}

/* Opens a gate, and waits for its first measurement, which finds `room` above the minimum. */
static void kit_open(struct kit *k, uint64_t room)
{
    memset(k, 0, sizeof(*k));
    atomic_store(&k->disk.free_bytes, MINIMUM + room);
    atomic_store(&k->disk.asked, 0);
    k->store = (struct store){.base.ops = &store_ops, .disk = &k->disk};
    k->loop = pp_loop_open();
    pp_test_clock_hold(k->loop);
    k->gate = pp_gate_open(&(struct pp_gate_options){.loop = k->loop,
                                                     .blobs = &k->store.base,
                                                     .space = {.ask = ask,
                                                               .ask_data = &k->disk,
                                                               .dir = {[PP_SPACE_BLOBS] = "photos"},
                                                               .min_free = MINIMUM,
                                                               .is_set = true},
                                                     .data = k,
                                                     .on_open = on_open,
                                                     .on_retry = on_retry});
    assert_non_null(k->gate);
    pp_test_until(k->loop, is_measured, k, 10000);
    assert_false(is_closed(k));
}

static void kit_close(struct kit *k)
{
    pp_gate_stop(k->gate);
    pp_test_until(k->loop, is_quiet, k, 10000);
    pp_gate_close(k->gate);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
}

/* A photo that takes the disk below the minimum closes the gate, although no second has passed. */
static void the_gate_closes_at_the_mark(void **state)
{
    struct kit k;
    char reason[PP_GATE_TEXT_MAX];

    (void)state;
    kit_open(&k, MIB);
    atomic_fetch_sub(&k.disk.free_bytes, MIB + 1);
    pp_gate_wrote(k.gate, MIB + 1);
    pp_test_until(k.loop, is_closed, &k, 10000);
    pp_test_until(k.loop, is_measured_again, &k, 10000);
    assert_true(is_closed(&k));
    assert_true(pp_gate_reason(k.gate, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "blobs.min_free"));
    assert_int_equal(k.opens, 0);
    kit_close(&k);
}

/* The space is measured again when half of the room is used. If another process has made room, the
 * gate stays open. */
static void half_of_the_room_is_a_reason_to_measure(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, MIB);
    pp_gate_wrote(k.gate, MIB / 2);
    (void)pp_loop_turn(k.loop, false);
    assert_int_equal(measurements(&k), 1);
    atomic_store(&k.disk.free_bytes, MINIMUM + 10 * MIB);
    pp_gate_wrote(k.gate, 1);
    pp_test_until(k.loop, is_measured_again, &k, 10000);
    pp_gate_wrote(k.gate, 4 * MIB);
    (void)pp_loop_turn(k.loop, false);
    assert_int_equal(measurements(&k), 2);
    assert_int_equal(k.opens, 0);
    kit_close(&k);
}

/* Photos that the store already had use no space. The measurement that follows opens the gate. */
static void a_count_that_is_too_high_is_corrected(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, MIB);
    pp_gate_wrote(k.gate, 3 * MIB);
    pp_test_until(k.loop, was_closed, &k, 10000);
    assert_false(is_closed(&k));
    assert_int_equal(measurements(&k), 2);
    kit_close(&k);
}

/* --- through keep --- */

static void on_kept(void *data, enum pp_err err, const uint8_t sha256[PP_SHA256_BYTES])
{
    (void)sha256;
    assert_int_equal(err, PP_OK);
    ((struct kit *)data)->kept++;
}

static bool one_more_kept(void *data)
{
    struct kit *k = data;
    if (k->kept == 0)
        return false;
    k->kept = 0;
    return true;
}

/* Photos are stored one after the other. No more than one gets into the reserve. */
static void stored_photos_count(void **state)
{
    static const struct pp_body_events events = {.on_kept = on_kept};
    enum { PHOTO = 100 * 1024 };
    struct kit k;
    char *p = calloc(1, PHOTO);
    int photos = 0;

    (void)state;
    kit_open(&k, 20 * PHOTO);
    struct pp_lane *lane = pp_keep_lane_open(1, &k.store.base);
    assert_non_null(lane);
    struct pp_keep *keep = pp_keep_open(k.loop, lane, &k.store.base, k.gate, 1 << 30);
    assert_non_null(keep);
    for (; !is_closed(&k) && photos < 100; photos++) {
        struct pp_body *body = pp_body_open(keep, &events, &k);
        assert_non_null(body);
        assert_int_equal(pp_body_append(body, p, PHOTO), PP_FLOW_GO);
        assert_int_equal(pp_body_finish(body, "jpg"), PP_OK);
        pp_test_until(k.loop, one_more_kept, &k, 10000);
        (void)pp_loop_turn(k.loop, false);
    }
    assert_in_range(photos, 20, 22);
    assert_true(atomic_load(&k.disk.free_bytes) + 2 * PHOTO >= MINIMUM);
    pp_keep_close(keep);
    pp_lane_close(lane);
    kit_close(&k);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gate_closes_at_the_mark),
        cmocka_unit_test(half_of_the_room_is_a_reason_to_measure),
        cmocka_unit_test(a_count_that_is_too_high_is_corrected),
        cmocka_unit_test(stored_photos_count),
    };

    return cmocka_run_group_tests_name("gate: space", tests, NULL, NULL);
}
