/* process.h: what the system says of this process, and how its allocator treats memory. Any thread
 * may call these functions. */
#ifndef PP_BASE_PROCESS_H
#define PP_BASE_PROCESS_H

#include <stdint.h>

/* Returns the number of open file descriptors, or 0 if the system does not tell. Costs one call of
 * the system; before Linux 6.2, one for some hundred descriptors. */
uint64_t pp_process_open_fds(void);
/* Returns the soft limit of open file descriptors; UINT64_MAX: none. */
uint64_t pp_process_max_fds(void);
/* Returns the bytes of memory that are resident now, or 0 if the system does not tell. */
uint64_t pp_process_resident_bytes(void);
/* Returns the CPU time that all threads have used, in seconds. */
double pp_process_cpu_seconds(void);

/* Makes the allocator map blocks of 512 KiB and more one by one, and unmap them when they are
 * freed. By default glibc raises this size to that of the largest block that was freed, up to 32
 * MiB, so that after some large bodies the heap keeps their memory (mallopt(3),
 * M_MMAP_THRESHOLD). */
void pp_process_return_memory(void);
/* Returns to the system what is free in whole pages of the heaps of all threads (malloc_trim(3)).
 * glibc alone returns only the end of a heap, so that one block that stays there would keep
 * everything before it resident. Threads that allocate wait meanwhile, about 1 ms for each 10 MiB
 * that are free. */
void pp_process_trim_memory(void);

/* Makes the scheduler run the calling thread in long slices, of 20 ms: a thread with bulk work.
 * Then a thread that wakes up on the same processor interrupts it at once. With equal slices it
 * would wait until the slice of the bulk work ends, up to 4 ms. Each thread's share of the
 * processor stays the same. Does nothing before Linux 6.12, where a thread that has slept
 * interrupts anyway (Documentation/scheduler/sched-eevdf.rst). Needs no privilege. */
void pp_thread_long_slices(void);

#endif
