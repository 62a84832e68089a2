/* clock.h: the three clocks of the process.
 *
 *   boot   CLOCK_BOOTTIME: never goes back, and counts while the machine sleeps. For durations.
 *   wall   the steady wall time: boot plus a constant. It is the wall time with which the process
 *          began, and then has no steps. For due times and waits, also in the store.
 *   date   CLOCK_REALTIME: steps when somebody sets the machine's clock. For times that people or
 *          other programs read: created_at, HTTP dates, signatures.
 *
 * core/wall.h says how wall and date relate. A step of the date moves neither boot nor wall, so
 * nothing that is scheduled sees it. All times are in ms, wall and date since 1970. Any thread may
 * call these functions. */
#ifndef PP_BASE_CLOCK_H
#define PP_BASE_CLOCK_H

#include <stdint.h>

int64_t pp_clock_boot_ms(void);
int64_t pp_clock_wall_ms(void);
int64_t pp_clock_date_ms(void);

/* Returns the date in us, for numbers that have to rise from one process to the next. */
int64_t pp_clock_date_us(void);

/* Reads boot and date at the same moment, as far as possible: reads again if the thread was
 * interrupted in between. */
void pp_clock_read(int64_t *boot_ms, int64_t *date_ms);

/* Return and set the constant, wall minus boot. Without a call to the second function, the first
 * use of the steady wall time sets it to the date. A program that continues the steady wall time of
 * an earlier process sets the constant before it opens a loop. */
int64_t pp_clock_anchor_ms(void);
void pp_clock_set_anchor(int64_t anchor_ms);

/* Reads the name that the kernel has given to this boot of the machine; "unknown" if it can't be
 * read. */
#define PP_BOOT_ID_MAX 64
void pp_clock_boot_id(char id[PP_BOOT_ID_MAX]);

#endif
