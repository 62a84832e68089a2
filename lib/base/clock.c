/* clock.c: reads the clocks of the machine. The constant is the process's only one, because its
 * loops and lanes exchange times. */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

/* Two readings of CLOCK_BOOTTIME that differ by more than APART_MS had an interruption between. */
enum { APART_MS = 2, READINGS = 8 };

/* 0: the constant is not set yet. It never is 0, because no machine has booted in 1970. */
static _Atomic int64_t anchor;

static int64_t read_us(clockid_t id)
{
    struct timespec ts;
    pp_assert(clock_gettime(id, &ts) == 0, "a clock that Linux always has can not be read");
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t read_ms(clockid_t id)
{
    return read_us(id) / 1000;
}

int64_t pp_clock_boot_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}

int64_t pp_clock_date_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}

int64_t pp_clock_date_us(void)
{
    return read_us(CLOCK_REALTIME);
}

void pp_clock_read(int64_t *boot_ms, int64_t *date_ms)
{
    int64_t before = pp_clock_boot_ms(), after;

    for (int i = 0; i < READINGS; i++, before = after) {
        *date_ms = pp_clock_date_ms();
        after = *boot_ms = pp_clock_boot_ms();
        pp_assert(after >= before, "CLOCK_BOOTTIME went back");
        if (after - before <= APART_MS)
            return;
    }
}

int64_t pp_clock_anchor_ms(void)
{
    int64_t set = atomic_load(&anchor), boot, date;

    if (set != 0)
        return set;
    pp_clock_read(&boot, &date);
    if (atomic_compare_exchange_strong(&anchor, &set, date - boot))
        return date - boot;
    return set; /* another thread was first */
}

void pp_clock_set_anchor(int64_t anchor_ms)
{
    pp_assert(anchor_ms != 0, "the steady wall time has no constant");
    atomic_store(&anchor, anchor_ms);
}

int64_t pp_clock_wall_ms(void)
{
    return pp_clock_boot_ms() + pp_clock_anchor_ms();
}

void pp_clock_boot_id(char id[PP_BOOT_ID_MAX])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(id, PP_BOOT_ID_MAX, f))
        snprintf(id, PP_BOOT_ID_MAX, "unknown");
    if (f)
        fclose(f);
    id[strcspn(id, "\n")] = '\0';
}
