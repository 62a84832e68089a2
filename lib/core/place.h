/* place.h: shares places among users without dividing them beforehand: each user may have at most
 * PP_PLACE_SHARE times as many places as are free (A. K. Choudhury, E. L. Hahne, "Dynamic queue
 * length thresholds for shared-memory packet switches", 1998). One user alone can take 8 of 9
 * places; two get 8 of 17 each. So users who have none find a free one. */
#ifndef PP_CORE_PLACE_H
#define PP_CORE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#define PP_PLACE_SHARE 8

/* Returns true if a user who has `mine` places may take one more. All users together have taken
 * `used` of `limit` places; mine <= used. */
bool pp_place_allowed(uint64_t mine, uint64_t used, uint64_t limit);

#endif
