/* local_dedupe.h: the dedupe port (port/dedupe.h) for an installation of one process: the keys are
 * in its memory. */
#ifndef PP_ADAPTER_LOCAL_DEDUPE_H
#define PP_ADAPTER_LOCAL_DEDUPE_H

#include "photopool/port/dedupe.h"
#include "runtime/loop.h"

/* Opens a port with windows of `window_ms` (at least 1). `loop` must outlive the port. PP_ENOMEM
 * when out of memory. */
pp_must_check enum pp_err pp_local_dedupe_open(struct pp_loop *loop, int64_t window_ms,
                                               struct pp_dedupe **out);

#endif
