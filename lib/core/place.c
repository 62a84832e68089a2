/* place.c: shares places among users. */
#include "core/place.h"

#include "base/check.h"

bool pp_place_allowed(uint64_t mine, uint64_t used, uint64_t limit)
{
    pp_assert(mine <= used, "a user has more places than all users");
    return used < limit && mine / PP_PLACE_SHARE < limit - used;
}
