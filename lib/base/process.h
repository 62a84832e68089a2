/* process.h: what the system says of this process. Any thread may call these functions. */
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

#endif
