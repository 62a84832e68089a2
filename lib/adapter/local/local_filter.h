/* local_filter.h: the filter of known photos (port/filter.h) of an installation of one process: in
 * memory, so a process that starts builds it again. */
#ifndef PP_ADAPTER_LOCAL_FILTER_H
#define PP_ADAPTER_LOCAL_FILTER_H

#include "photopool/port/filter.h"
#include "runtime/loop.h"

/* Opens a filter, which is incomplete. `loop` must outlive it. Returns PP_ENOMEM when out of
 * memory. A build takes the size of the filter once more. */
pp_must_check enum pp_err pp_local_filter_open(struct pp_loop *loop, struct pp_filter **out);

#endif
