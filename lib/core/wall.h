/* wall.h: what a process makes of its wall clock, which somebody may set at any moment: NTP, an
 * operator, the host of a resumed virtual machine.
 *
 * Two clocks are never mixed:
 *
 *   steady = boot + anchor   runs without steps. Everything that is scheduled uses it: due times in
 *                            memory and in the store, leases, waits for slow hosts. The stores of a
 *                            fleet translate it to their server's clock, so processes whose clocks
 *                            differ agree.
 *   date                     is the machine's wall clock, right or wrong. People and other programs
 *                            read it: created_at, finished_at, HTTP, signatures, tickets. Nobody
 *                            waits for it.
 *
 * So a step changes nothing that runs. Two matters remain, and this file decides them.
 *
 * Deletion by age compares dates that were written earlier with the date now. After the date has
 * stepped forward it may be wrong, and deletion is for ever. So ages count from `retention`: the
 * steady time plus the least (date - steady) of the last one to two days. A clock that is a month
 * ahead for ten minutes deletes nothing that was not due for deletion without the step, and what is
 * due anyway still goes, so a disk does not fill up. A date that stays ahead for two days is
 * believed. A step back is believed at once, because it deletes less.
 *
 * Idempotency records are written with a steady time, not with a date: they answer for a day only,
 * so a step of some hours between the writing and the deletion would cost much of their time.
 *
 * A restart. The process saves struct pp_wall; the next one resumes from it.
 *   In the same boot it keeps the anchor, so the steady time runs on as if nothing had happened,
 *   and compares the date as in every sample.
 *   After a reboot nobody has measured how long the machine was off. The steady time moves on by as
 *   much as the date did, but never back. For `retention` this gap is a step forward: it is only
 *   believed after a day or two. So a machine that boots with a wrong clock deletes nothing early,
 *   either.
 *
 * Days are measured in time that the process has run, so that a process which runs for an hour a
 * day, or a machine that sleeps, believes no date after one look.
 *
 * Pure: the caller reads the clocks. All times are in ms. */
#ifndef PHOTOPOOL_CORE_WALL_H
#define PHOTOPOOL_CORE_WALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A change of (date - steady) of at least this is a step. Readings of the two clocks differ by a
 * few ms; slewing moves both clocks alike. */
#define PP_WALL_STEP_MS 250
#define PP_WALL_DAY_MS  INT64_C(86400000)
/* A sample stands for at most this much measured time; samples come more often. */
#define PP_WALL_SAMPLE_MS 10000

struct pp_wall {
    int64_t anchor_ms; /* steady minus boot */
    /* the last sample */
    int64_t boot_ms, date_ms;
    /* the least (date - steady) of the current and of the previous period of a day */
    int64_t least_ms[2];
    int64_t left_ms; /* this much of the current period has not been measured yet */
};

/* Begins with the clocks as they are, and without a past. anchor_ms: steady time minus boot. */
void pp_wall_init(struct pp_wall *w, int64_t anchor_ms, int64_t boot_ms, int64_t date_ms);
/* Begins where an earlier process ended, or was killed: `saved` is a copy of its struct, which may
 * be some time old. same_boot: the machine has not booted since. Returns the size of the step that
 * the date has made since, or how far it moved while the machine was off. */
int64_t pp_wall_resume(struct pp_wall *w, const struct pp_wall *saved, bool same_boot, int64_t boot_ms,
                       int64_t date_ms);
/* Takes a sample of both clocks, read at the same moment. Returns the size of a step of the date
 * since the last sample, negative if back; 0: none. */
int64_t pp_wall_sample(struct pp_wall *w, int64_t boot_ms, int64_t date_ms);

/* Returns the steady wall time at boot_ms. */
int64_t pp_wall_steady_ms(const struct pp_wall *w, int64_t boot_ms);
/* Returns the time at boot_ms from which ages count that decide on deletion. */
int64_t pp_wall_retention_ms(const struct pp_wall *w, int64_t boot_ms);
/* The same for ages of what was written with a steady time: a step of the date adds nothing to such
 * an age, and neither does the gap of a reboot before `retention` counts it. */
int64_t pp_wall_steady_retention_ms(const struct pp_wall *w, int64_t boot_ms);

/* Writes the struct as a line of text that ends with a newline. `boot` names this boot of the
 * machine, without blanks. Returns the length; `out` has room for PP_WALL_TEXT_MAX bytes. */
#define PP_WALL_BOOT_MAX 64
#define PP_WALL_TEXT_MAX 256
size_t pp_wall_write(const struct pp_wall *w, const char *boot, char out[PP_WALL_TEXT_MAX]);
/* Reads what pp_wall_write() wrote. Returns false if `text` is anything else. */
bool pp_wall_read(struct pp_wall *w, char boot[PP_WALL_BOOT_MAX], const char *text);

#endif
