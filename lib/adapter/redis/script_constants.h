/* script_constants.h: constants that the C files and the Lua scripts of this folder share, and no
 * other folder needs. photopool/shared_constants.h says how scripts get them and what values may
 * contain.
 *
 * A LAYOUT is a format of Lua's struct.unpack that pp_redis_pack() and pp_redis_unpack() read, too.
 */
#ifndef PP_ADAPTER_REDIS_SCRIPT_CONSTANTS_H
#define PP_ADAPTER_REDIS_SCRIPT_CONSTANTS_H

#include "photopool/shared_constants.h"

#define PP_MINUTE_MS 60000
#define PP_DAY_MS    (24 * 60 * PP_MINUTE_MS)

/* --- the coordinator --- */

#define PP_COORD_KEY_SET     "set"  /* the end of KEYS[1] of every script */
#define PP_COORD_KEY_SLOTS   "s:"   /* the start of a key, before a client: the rows of its slots */
#define PP_COORD_KEY_CHANNEL "tell" /* the channel of messages between processes */

#define PP_COORD_NEVER    9007199254740991 /* due never: 2^53 - 1, as numbers in Lua are doubles */
#define PP_COORD_AHEAD_MS 3000             /* each renewal reserves the requests of this time */
#define PP_COORD_KNOWN    128 /* set in the queue of a row that was only read back from the store */

/* A client's cut: rpm, concurrency, shares. */
#define PP_LAYOUT_CUT "<I4I4I4"
/* A mark: time, requests. */
#define PP_LAYOUT_MARK "<i8I4"
/* A renewal: share, reserved, in flight, busy until, the cut; the due time of each queue may
 * follow. */
#define PP_LAYOUT_RENEWAL "<I4I4I4i8I4I4I4"
#define PP_LAYOUT_TIME    "<i8"
/* The answers to a want. The first byte says whether the slot is granted (1) or refused (0).
 * Granted: share, shares, spent, taken, taken until, skew; marks follow. Refused: shares in force,
 * when to ask again, 1 if nothing is due. */
#define PP_LAYOUT_GRANT   "<I4I4I4I4i8i8"
#define PP_LAYOUT_REFUSAL "<I4i8B"
/* A client in the index: the number of its latest announcement; rows follow. */
#define PP_LAYOUT_INDEX "<I8"
/* A row: queue, due time. In announcements the due time is ms from now, and the client's name
 * follows. */
#define PP_LAYOUT_ROW "<Bi8"
/* A name: its length, its bytes. */
#define PP_LAYOUT_NAME "Bc0"
/* The stamp of a message, after its kind and sender: Redis' time, number of the latest
 * announcement. */
#define PP_LAYOUT_STAMP "<i8I8"

/* --- the ingest queue --- */

/* The index of each key in KEYS of every script; the script's own keys follow. */
#define PP_INGEST_STREAM  1
#define PP_INGEST_META    2
#define PP_INGEST_LINES   3
#define PP_INGEST_HEADS   4
#define PP_INGEST_TAKEN   5
#define PP_INGEST_IDS     6
#define PP_INGEST_CLIENTS 7
#define PP_INGEST_STATE   8
#define PP_INGEST_POISON  9
#define PP_INGEST_WAKE    10
#define PP_INGEST_KEYS    10

/* The ids of acked batches are kept in slots of 12 h, so that an id is remembered for 24 to 36 h.
 */
#define PP_INGEST_DONE_SLOTS       3
#define PP_INGEST_DONE_MS          PP_DAY_MS
#define PP_INGEST_ASIDE            256             /* number of poisoned batches that are kept */
#define PP_INGEST_ASIDE_MS         (7 * PP_DAY_MS) /* how long the payloads of poisoned batches are kept */
#define PP_INGEST_PART_TTL_MS      (60 * PP_MINUTE_MS) /* life of payload parts without their entry */
#define PP_INGEST_IDLE_CONSUMER_MS (60 * PP_MINUTE_MS) /* silence after which a consumer is removed */

/* --- the event log --- */

#define PP_EVENT_APPEND_MAX 1000 /* events in one append, at most */

#endif
