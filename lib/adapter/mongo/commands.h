/* commands.h: every command that the stores send to MongoDB, by name, and every index.
 *
 * A row: X(name, kind, collection, index, filter, change, options).
 *  - The texts are JSON with single quotes and typed holes: '?client:s' (template.h has the types).
 *    The arguments of a command are its holes in order of first appearance: filter, change,
 *    options.
 *  - `index` is the hint, because the server's planner prefers the plan that it tried first. "": no
 *    hint.
 *  - `filter` of AGGREGATE is the pipeline; of COMMAND it is the whole command. A PART is not sent
 *    by itself: its `change` becomes part of another command.
 *  - `change` of UPDATE is a document of operators or, in [], a pipeline.
 *  - `options` are fields, without braces.
 * Empty texts at the end of a row are left out.
 *
 * README.md says what the fields mean. Filters contain `c` (client) because a cluster is sharded by
 * it. Numbers are int32; write MG_LONG() if the stored field is an int64. To add a command, add a
 * row. To change the schema, add an index with the next version (schema.c). */
#ifndef PP_ADAPTER_MONGO_COMMANDS_H
#define PP_ADAPTER_MONGO_COMMANDS_H

#include "photopool/port/task_store.h"

/* Names of collections; the enum indexes struct pp_mg_thread.coll. */
#define PP_MG_COLLECTIONS(X)    \
    X(PHOTOS, "photos")         \
    X(ITEMS, "items")           \
    X(BATCHES, "batches")       \
    X(CLIENTS, "clients")       \
    X(ROUTES, "routes")         \
    X(META, "meta")             \
    X(SINKS, "sinks")           \
    X(DELIVERIES, "deliveries") \
    X(DAYS, "days")             \
    X(REJECTED, "rejected")     \
    X(COUNTERS, "counters")
enum pp_mg_coll {
#define X(id, name) PP_MG_##id,
    PP_MG_COLLECTIONS(X)
#undef X
        PP_MG_COLL_COUNT
};

/* The kind of a row of PP_MG_COMMANDS. Each function of run.h takes rows of certain kinds. */
enum pp_mg_kind {
    PP_MG_FIND,
    PP_MG_AGGREGATE,
    PP_MG_INSERT,
    PP_MG_UPDATE, /* changes one document; only the kinds with _MANY change several */
    PP_MG_UPSERT,
    PP_MG_REPLACE, /* replaces a document, or inserts it */
    PP_MG_REMOVE,
    PP_MG_UPDATE_MANY,
    PP_MG_DELETE_MANY,
    PP_MG_MODIFY, /* findAndModify */
    PP_MG_COMMAND,
    PP_MG_COMMAND_WRITE,
    PP_MG_PART
};

/* --- values --- */

#define MG_LONG(n) "{'$numberLong': '" #n "'}"
#define MG_YES     "{'$exists': true}"
#define MG_NO      "{'$exists': false}"
/* Results show only data that a majority of the servers has, so no change of primary takes them
 * back. */
#define MG_MAJORITY "'readConcern': {'level': 'majority'}"

/* States of a task (t.s). The templates contain these numbers literally. */
enum { PP_MG_WAITING = 1, PP_MG_CLAIMED = 2, PP_MG_SETTLED = 3 };
_Static_assert(PP_ITEM_OPEN == 0 && PP_ITEM_COMPLETE == 1 && PP_ITEM_PARTIAL == 2 && PP_ITEM_FAILED == 3 &&
                   PP_OUTCOME_OPEN == 0 && PP_OUTCOME_STORED == 1 && PP_OUTCOME_UNCHANGED == 2 &&
                   PP_OUTCOME_SKIPPED == 3 && PP_OUTCOME_FAILED == 4 && PP_OUTCOME_CANCELLED == 5 &&
                   PP_QUEUE_SUSPECT == 8 && PP_ATTEMPTS_KEPT == 10,
               "the numbers in the templates");

/* --- pieces shared by several rows --- */

#define MG_THESE_PHOTOS "'c': '?client:s', '_id': {'$in': '?keys:K'}"
#define MG_NEW_TASK                                                                                      \
    "'t': {'s': 1, 'q': '?tier:d', 'h': '?hash:i', 'due': '?due:f', 'g': '?second:i', 'u': '?url:B',"    \
    " 'd': '?domain:s?', 'al': '?always:y', 'cd': '?conditional:y', 'tier': '?tier:d', 'at': 0, 'l': 0," \
    " 'cr': '?now:i', 'pk': '?own:I', 'wu': '?wait:I'}"
/* MG_HELD and MG_LAPSED match a claimed task; MG_BACK turns it into a waiting one, and changes
 * `more`. */
#define MG_HELD   "'_id': '?key:k', 'c': '?client:s', 't.s': 2, 't.w': '?worker:s', 't.n': '?handle:i'"
#define MG_LAPSED "{'_id': '?key:k', 'c': '?client:s', 't.s': 2, 't.n': '?claim:i', 't.lu': '?lease:i'}"
#define MG_BACK(more)                                                                                    \
    "{'$set': {'t.s': 1, 't.q': '?queue:d', 't.tier': '?tier:d', 't.due': '?due:i', 't.g': '?second:i'," \
    " 't.l': '?losses:d', 't.n': '?nonce:i', 't.pk': '?own:I', 't.wu': '?wait:I', 't.lc': '?code:I'},"   \
    " '$inc': {'t.at': '?attempts:I'},"                                                                  \
    " '$unset': {'t.w': 1, 't.lu': 1, 't.pk': '?no_own:y', 't.wu': '?no_wait:y'}" more "}"
/* Adds an attempt, a PART ATTEMPT, to the last ones of a photo. */
#define MG_TRIED   ", '$push': {'a': '?tried:D?'}"
#define MG_SETTLED "'t.s': 3, 't.n': '?nonce:i', 't.lu': '?until:i', 't.x': '?outcome:X'"
#define MG_UNTRIED "'c': '?client:s', 't.s': 1, 't.q': {'$lt': 8}, 't.d': '?domain:s', 't.at': 0"
/* The waiting tasks of a client on a host. */
#define MG_ON_HOST "'t.d': '?domain:s', 'c': '?client:s', 't.s': 1"
/* Stages of an update that parks tasks until ?until, by pp_task_park(); `wait` is the new t.wu. The
 * fraction of a due time keeps the order of planning. */
#define MG_PARK(wait)                                                                    \
    "[{'$set': {'t.pk': {'$ifNull': ['$t.pk', '$t.due']}, 't.wu': " wait "}},"           \
    " {'$set': {'t.due': {'$max': ['$t.due', {'$add': [{'$min': ['?until:i', '$t.wu']}," \
    " {'$mod': ['$t.pk', 1]}]}]}}}, " MG_SECOND_BACK "]"
/* Sets t.g as pp_mg_second_back() does. */
#define MG_SECOND_BACK "{'$set': {'t.g': {'$toLong': {'$ceil': {'$divide': ['$t.due', 1024]}}}}}"
/* Matches the tasks that a want may take: in its own hash range or, without from and to, in all. */
#define MG_WANT "'c': '?client:s', 't.s': 1, 't.q': '?queue:d', 't.h': {'$gte': '?from:I', '$lte': '?to:I'}"
#define MG_WANT_STAGES \
    "{'$match': {" MG_WANT "}}, {'$sort': {'t.g': 1}}, {'$limit': '?limit:i'}, {'$unset': 'a'}"
/* Gives the photos of an item the key ?key instead of ?was. */
#define MG_REKEYED                                                                              \
    "'ph': {'$map': {'input': '$ph', 'as': 'p', 'in': {'$cond': [{'$eq': ['$$p.k', '?was:k']}," \
    " {'$mergeObjects': ['$$p', {'k': '?key:k'}]}, '$$p']}}}"
/* Refuses a write whose block of numbers may have lapsed (seq.c). */
#define MG_GUARD "'$expr': {'$lt': ['$$NOW', '?deadline:t']}"
/* The blocks of meta/seq that are younger than 10 s (SEQ_OPEN_MS). */
#define MG_LIVING                                                  \
    "{'$filter': {'input': {'$ifNull': ['$open', []]}, 'as': 'b'," \
    " 'cond': {'$lt': ['$$NOW', {'$add': ['$$b.at', " MG_LONG(10000) "]}]}}}"
#define MG_NEXT_SEQ "{'$ifNull': ['$n', " MG_LONG(1) "]}"
/* Second stage of FINISH_AS_IS: yields `then` if the item has no open photo left, else `other`. */
#define MG_IF_DONE(then, other) "{'$cond': [{'$eq': [{'$size': '$ok'}, 0]}, " then ", " other "]}"
#define MG_ITEM_STATUS                                                                                 \
    "{'$let': {'vars': {'n': {'$size': '$ph'}, 'w': {'$size': {'$filter': {'input': '$ph', 'as': 'p'," \
    " 'cond': {'$in': ['$$p.o.k', [1, 2]]}}}}}, 'in': {'$cond': [{'$eq': ['$$w', '$$n']}, 1,"          \
    " {'$cond': [{'$eq': ['$$w', 0]}, 3, 2]}]}}}"
#define MG_FIELD_OF_BATCH                                                          \
    "'rf': '?refresh:d', 'cr': '?created:i', 'ni': '?items:i', 'np': '?photos:i'," \
    " 'nr': '?rejected:i', 'lb': '?label:s?'"
#define MG_DELIVERY_ID "'_id': {'s': '?sink:s', 'q': '?seq:i'}, 's': '?sink:s', 'q': '?seq:i'"
#define MG_DELIVERY                                                                                     \
    "{" MG_DELIVERY_ID ", 'i': '?result:s?', 'c': '?client:s?', 'st': '?status:d', 'a': '?attempts:i'," \
    " 'f': '?finished:i', 'u': '?updated:i', 'd': '?due:I', 'h': '?http:d', 'e': '?error:s?'}"
#define MG_DAY_ID "'_id': {'o': '?of:d', 'n': '?name:s', 'd': '?day:d'}"
#define MG_ENDPOINT                                                                                      \
    "'w': {'u': '?url:s', 'cl': '?clients:s?', 'k': '?secret:s', 'ok': '?old:s?', 'ou': '?old_until:i'," \
    " 'p': '?paused:b', 'd': '?disabled:b', 'cr': '?created:i', 'up': '?updated:i', 'v': '?version:i'}"

/* --- indexes: X(collection, schema version that adds it, name, keys, condition) --- */

#define PP_MG_INDEXES(X)                                                                                \
    X(PHOTOS, 1, "claim", "{'c': 1, 't.s': 1, 't.q': 1, 't.g': 1, 't.h': 1, 't.due': 1}", "{'t.s': 1}") \
    X(PHOTOS, 1, "claimed", "{'t.s': 1, 't.w': 1, 't.lu': 1}", "{'t.s': {'$gte': 2}}")                  \
    X(PHOTOS, 1, "object", "{'o.h': 1, 'c': 1}", "{'o.h': " MG_YES "}")                                 \
    X(ITEMS, 1, "newest", "{'c': 1, 'i': 1, 'r': -1}", NULL)                                            \
    X(ITEMS, 1, "waiting", "{'c': 1, 'ok': 1}", "{'ok': " MG_YES "}")                                   \
    X(ITEMS, 1, "batch", "{'c': 1, 'b': 1, 'q': 1}", NULL)                                              \
    X(ITEMS, 2, "outbox", "{'q': 1}", "{'q': {'$gt': 0}}")                                              \
    X(BATCHES, 1, "client", "{'c': 1, '_id': -1}", NULL)                                                \
    X(BATCHES, 1, "finished", "{'f': 1, 'cr': 1}", NULL)                                                \
    X(ROUTES, 1, "place", "{'c': 1, 'd': 1}", NULL)                                                     \
    X(SINKS, 3, "_id_", "{'_id': 1}", NULL)                                                             \
    X(DELIVERIES, 3, "due", "{'s': 1, 'd': 1, 'q': 1}", "{'d': " MG_YES "}")                            \
    X(DELIVERIES, 3, "status", "{'s': 1, 'st': 1, 'q': -1}", NULL)                                      \
    X(DELIVERIES, 3, "finished", "{'s': 1, 'st': 1, 'f': 1}", NULL)                                     \
    X(REJECTED, 4, "_id_", "{'_id': 1}", NULL)                                                          \
    X(BATCHES, 4, "open", "{'f': 1, '_id': -1}", NULL)                                                  \
    X(BATCHES, 4, "cancelled", "{'_id': -1, 'ca': 1}", "{'ca': " MG_YES "}")                            \
    X(PHOTOS, 5, "host", "{'t.d': 1, 'c': 1, 't.due': 1}", "{'t.d': " MG_YES "}")                       \
    X(PHOTOS, 5, "failed", "{'c': 1, 'fh': 1}", "{'fc': " MG_YES "}")                                   \
    X(DAYS, 7, "day", "{'d': 1}", NULL)                                                                 \
    X(COUNTERS, 8, "gone", "{'gone': 1}", "{'gone': " MG_YES "}")                                       \
    X(BATCHES, 9, "label", "{'lb': 1, '_id': -1}", "{'lb': " MG_YES "}")

/* --- commands --- */

#define PP_MG_COMMANDS(X)                                                                                    \
    /* photos and tasks */                                                                                   \
    X(LOOKUP, FIND, PHOTOS, "_id_", "{" MG_THESE_PHOTOS "}", "",                                             \
      "'projection': {'c': 0, 'e': 0, 't': 0, 'a': 0}")                                                      \
    X(PHOTO_KEYS, FIND, PHOTOS, "_id_", "{'_id': {'$gt': '?after:k'}}", "",                                  \
      "'sort': {'_id': 1}, 'limit': '?limit:i', 'projection': {'_id': 1}")                                   \
    X(PHOTO, FIND, PHOTOS, "", "{'c': '?client:s', '_id': '?key:k'}")                                        \
    X(OBJECT, FIND, PHOTOS, "", "{'o.h': '?sha:h', 'c': '?client:s?'}", "",                                  \
      "'limit': 1, 'projection': {'_id': 0, 'o': 1}")                                                        \
    X(SKIP, UPDATE, PHOTOS, "_id_", "{'_id': '?key:k', 'c': '?client:s', 'fc': " MG_YES "}",                 \
      "{'$inc': {'sk': " MG_LONG(1) "}}")                                                                    \
    X(TASK_INSERT, INSERT, PHOTOS, "", "",                                                                   \
      "{'_id': '?key:k', 'c': '?client:s', 'e': " MG_LONG(0) ", " MG_NEW_TASK "}")                           \
    X(TASK_OPEN, UPSERT, PHOTOS, "_id_",                                                                     \
      "{'_id': '?key:k', 'c': '?client:s', 't': " MG_NO                                                      \
      ", 'fa': {'$eq': '?fetched:I', '$exists': '?has:e'}}",                                                 \
      "{'$set': {" MG_NEW_TASK                                                                               \
      "}, '$setOnInsert': {'e': " MG_LONG(0) ", 'o': '?object:O?',"                                          \
                                             " 'fa': '?known:I', 'et': '?etag:s?', 'lm': '?modified:s?'}}")  \
    X(TASK_JOIN, UPDATE_MANY, PHOTOS, "_id_", "{" MG_THESE_PHOTOS ", 't.s': {'$in': [1, 2]}}",               \
      "{'$unset': {'t.lv': true}}")                                                                          \
    X(TASK_ALWAYS, UPDATE_MANY, PHOTOS, "_id_", "{" MG_THESE_PHOTOS ", 't.s': " MG_YES "}",                  \
      "{'$set': {'t.al': true}, '$unset': {'t.cd': true}}")                                                  \
    X(TASK_STATES, FIND, PHOTOS, "_id_", "{" MG_THESE_PHOTOS "}", "",                                        \
      "'projection': {'t.s': 1, 't.x': 1, 'o': 1, 'fa': 1}")                                                 \
    X(TASK_LEAVE, UPDATE_MANY, PHOTOS, "_id_", "{" MG_THESE_PHOTOS ", 't.s': {'$in': [1, 2]}}",              \
      "{'$set': {'t.lv': '?nonce:o'}}")                                                                      \
    X(TASK_DELETE, UPDATE_MANY, PHOTOS, "_id_", "{" MG_THESE_PHOTOS ", 't.s': 1, 't.lv': '?nonce:o'}",       \
      "{'$unset': {'t': true}}")                                                                             \
    X(RETIER_FIND, FIND, PHOTOS, "host", "{" MG_UNTRIED "}", "",                                             \
      "'projection': {'t.tier': 1, 't.due': 1, 't.pk': 1}")                                                  \
    X(RETIER, UPDATE_MANY, PHOTOS, "_id_", "{" MG_UNTRIED ", 't.pk': " MG_NO ", '_id': {'$in': '?keys:K'}}", \
      "{'$set': {'t.q': '?tier:d', 't.tier': '?tier:d', 't.due': '?due:i', 't.g': '?second:i'}}")            \
    X(RETIER_PARKED, UPDATE_MANY, PHOTOS, "_id_",                                                            \
      "{" MG_UNTRIED ", 't.pk': " MG_YES ", '_id': {'$in': '?keys:K'}}",                                     \
      "{'$set': {'t.q': '?tier:d', 't.tier': '?tier:d', 't.pk': '?due:i'},"                                  \
      " '$max': {'t.due': '?due:i', 't.g': '?second:i'}}")                                                   \
    /* hosts that are open or slow */                                                                        \
    X(PARK_FIND, FIND, PHOTOS, "host", "{" MG_ON_HOST ", 't.due': {'$lt': '?until:i'}}", "",                 \
      "'projection': {'t.q': 1, 't.due': 1, 't.pk': 1, 't.wu': 1}")                                          \
    X(PARK, UPDATE_MANY, PHOTOS, "_id_",                                                                     \
      "{" MG_ON_HOST ", 't.due': {'$lt': '?until:i'}, '_id': {'$in': '?keys:K'}}",                           \
      MG_PARK("{'$ifNull': ['$t.wu', '?wait:i']}"))                                                          \
    X(PAUSE, UPDATE_MANY, PHOTOS, "_id_",                                                                    \
      "{" MG_ON_HOST ", 't.due': {'$lt': '?until:i'}, '_id': {'$in': '?keys:K'}}", MG_PARK("'$t.wu'"))       \
    X(UNPARK_FIND, FIND, PHOTOS, "host",                                                                     \
      "{" MG_ON_HOST ", '$or': [{'t.pk': " MG_YES "}, {'t.wu': " MG_YES "}]}", "",                           \
      "'projection': {'t.q': 1, 't.due': 1, 't.pk': 1, 't.wu': 1}")                                          \
    X(UNPARK_FIND_ALL, FIND, PHOTOS, "host",                                                                 \
      "{'t.d': " MG_YES ", 't.s': 1, '$or': [{'t.pk': " MG_YES "}, {'t.wu': " MG_YES "}]}", "",              \
      "'sort': {'t.d': 1, 'c': 1},"                                                                          \
      " 'projection': {'c': 1, 't.d': 1, 't.q': 1, 't.due': 1, 't.pk': 1, 't.wu': 1}")                       \
    X(UNPARK, UPDATE_MANY, PHOTOS, "_id_", "{" MG_ON_HOST ", '_id': {'$in': '?keys:K'}}",                    \
      "[{'$set': {'t.due': {'$min': ['$t.due', {'$cond': ['$t.pk',"                                          \
      " {'$max': ['$t.pk', {'$add': ['?now:i', {'$mod': ['$t.pk', 1]}]}]}, '$t.due']}]}}}, " MG_SECOND_BACK  \
      ","                                                                                                    \
      " {'$unset': ['t.pk', 't.wu']}]")                                                                      \
    X(PROBE_FIND, FIND, PHOTOS, "host",                                                                      \
      "{" MG_ON_HOST ", 't.pk': {'$lte': '?now:i'}, 't.due': {'$gt': '?now:i'}}", "",                        \
      "'limit': '?limit:i', 'projection': {'t.q': 1, 't.due': 1, 't.pk': 1, 't.wu': 1}")                     \
    X(PROBE, UPDATE_MANY, PHOTOS, "_id_",                                                                    \
      "{" MG_ON_HOST ", 't.pk': {'$lte': '?now:i'}, 't.due': {'$gt': '?now:i'}, '_id': {'$in': '?keys:K'}}", \
      "{'$set': {'t.due': '?now:i', 't.g': '?second:i'}, '$unset': {'t.pk': true}}")                         \
    X(HOST_CLIENT, FIND, PHOTOS, "host", "{'t.d': '?domain:s', 'c': {'$gt': '?after:s'}, 't.s': 1}", "",     \
      "'sort': {'c': 1}, 'limit': 1, 'projection': {'c': 1}")                                                \
    X(HOST_COUNT, COMMAND, PHOTOS, "",                                                                       \
      "{'count': 'photos', 'query': {'t.d': '?domain:s', 't.s': 1}, 'limit': '?limit:i', 'hint': 'host'}")   \
    X(FAILURES_FIND, FIND, PHOTOS, "failed", "{'c': '?client:s?', 'fh': '?host:s?', 'fc': " MG_YES "}", "",  \
      "'limit': '?limit:i', 'projection': {'_id': 1}")                                                       \
    X(FAILURES_FORGET, UPDATE_MANY, PHOTOS, "_id_",                                                          \
      "{'_id': {'$in': '?keys:K'}, 'c': '?client:s?', 'fh': '?host:s?', 'fc': " MG_YES "}",                  \
      "{'$unset': {'fc': 1, 'fs': 1, 'sk': 1, 'fl': 1, 'fd': 1, 'fh': 1}}")                                  \
    X(BACKLOG, AGGREGATE, PHOTOS, "claim",                                                                   \
      "[{'$match': {'t.s': 1}}, {'$group': {'_id': {'c': '$c', 'q': '$t.q'}, 'due': {'$min': '$t.due'}}}]",  \
      "", "'allowDiskUse': true")                                                                            \
    X(QUEUES, AGGREGATE, PHOTOS, "claim",                                                                    \
      "[{'$match': {'t.s': 1}},"                                                                             \
      " {'$group': {'_id': {'q': '$t.q'}, 'n': {'$sum': 1}, 'due': {'$min': '$t.due'}}}]",                   \
      "", "'allowDiskUse': true")                                                                            \
    X(CLAIMED_COUNT, COMMAND, PHOTOS, "", "{'count': 'photos', 'query': {'t.s': 2}, 'hint': 'claimed'}")     \
    /* claiming: CLAIM_WANT serves a single want; several wants use CLAIM_STAGES and CLAIM_BRANCH */         \
    X(CLAIM_WANT, FIND, PHOTOS, "claim", "{" MG_WANT "}", "",                                                \
      "'sort': {'t.g': 1}, 'limit': '?limit:i', 'projection': {'a': 0}")                                     \
    X(CLAIM_STAGES, PART, PHOTOS, "", "", "[" MG_WANT_STAGES "]")                                            \
    X(CLAIM_BRANCH, PART, PHOTOS, "", "",                                                                    \
      "{'$unionWith': {'coll': 'photos', 'pipeline': [" MG_WANT_STAGES "]}}")                                \
    X(CLAIM_WANTS, AGGREGATE, PHOTOS, "", "'?stages:A'")                                                     \
    X(CLAIM, UPDATE_MANY, PHOTOS, "_id_",                                                                    \
      "{'_id': {'$in': '?keys:K'}, 'c': {'$in': '?clients:S'}, 't.s': 1}",                                   \
      "{'$set': {'t.s': 2, 't.w': '?worker:s', 't.n': '?nonce:i', 't.lu': '?until:i'},"                      \
      " '$inc': {'e': " MG_LONG(1) ", 't.at': " MG_LONG(1) "}}")                                             \
    X(CLAIM_LOOK, FIND, PHOTOS, "_id_",                                                                      \
      "{'_id': {'$in': '?keys:K'}, 'c': {'$in': '?clients:S'}, 't.n': '?nonce:i', 't.s': 2}", "",            \
      "'projection': {'_id': 1}")                                                                            \
    X(CLAIM_RETURN, UPDATE_MANY, PHOTOS, "claimed",                                                          \
      "{'t.s': 2, 't.w': '?worker:s', 't.n': '?nonce:i', '_id': {'$nin': '?known:K'}}",                      \
      "{'$set': {'t.s': 1}, '$inc': {'t.at': " MG_LONG(-1) "}, '$unset': {'t.w': 1, 't.n': 1, 't.lu': 1}}")  \
    X(RENEW, UPDATE_MANY, PHOTOS, "claimed", "{'t.s': 2, 't.w': '?worker:s'}",                               \
      "{'$set': {'t.lu': '?until:i'}}")                                                                      \
    /* settling and reaping */                                                                               \
    X(SETTLE_BYTES, UPDATE, PHOTOS, "_id_", "{" MG_HELD "}",                                                 \
      "{'$set': {" MG_SETTLED                                                                                \
      ", 'o': '?object:O', 'fa': '?fetched:i', 'et': '?etag:s?', 'lm': '?modified:s?'},"                     \
      " '$unset': {'et': '?no_etag:y', 'lm': '?no_modified:y', 'fc': 1, 'fs': 1, 'sk': 1, 'fl': 1, 'fh': 1," \
      " 'fd': 1}" MG_TRIED "}")                                                                              \
    X(SETTLE_LADDER, UPDATE, PHOTOS, "_id_", "{" MG_HELD "}",                                                \
      "{'$set': {" MG_SETTLED ", 'fc': '?code:i', 'fl': '?now:i', 'fh': '?host:s', 'fd': '?detail:s?'},"     \
      " '$inc': {'fs': " MG_LONG(1) "}, '$unset': {'fd': '?no_detail:y', 'sk': 1}" MG_TRIED "}")             \
    X(SETTLE_FAILED, UPDATE, PHOTOS, "_id_", "{" MG_HELD "}", "{'$set': {" MG_SETTLED "}" MG_TRIED "}")      \
    X(ATTEMPT, PART, PHOTOS, "", "",                                                                         \
      "{'$each': [{'d': '?at:i', 'ms': '?ms:d', 'c': '?code:d', 'h': '?http:d', 't': '?tier:d',"             \
      " 'ip': '?address:s?'}], '$slice': -10}")                                                              \
    X(SETTLE_BACK, UPDATE, PHOTOS, "_id_", "{" MG_HELD ", 't.lv': '?nobody_left:n'}", MG_BACK(MG_TRIED))     \
    X(SETTLE_LOOK, FIND, PHOTOS, "_id_", "{'_id': {'$in': '?keys:K'}}", "",                                  \
      "'projection': {'t.s': 1, 't.w': 1, 't.n': 1, 't.lv': 1}")                                             \
    X(FORGET, UPDATE_MANY, PHOTOS, "_id_",                                                                   \
      "{'c': {'$in': '?clients:S'}, '_id': {'$in': '?keys:K'}, 't.s': 3, 't.n': {'$in': '?nonces:L'}}",      \
      "{'$unset': {'t': 1}}")                                                                                \
    X(REAP_FIND, FIND, PHOTOS, "claimed",                                                                    \
      "{'t.s': 2, 't.w': {'$ne': '?alive:s?'}, 't.lu': {'$lte': '?now:I'}}", "",                             \
      "'projection': {'c': 1, 't.n': 1, 't.lu': 1, 't.l': 1, 't.tier': 1, 't.at': 1, 't.lv': 1},"            \
      " 'limit': '?limit:i'")                                                                                \
    X(REAP_BACK, UPDATE, PHOTOS, "_id_", MG_LAPSED, MG_BACK(""))                                             \
    X(REAP_QUARANTINE, UPDATE, PHOTOS, "_id_", MG_LAPSED, "{'$set': {" MG_SETTLED ", 't.l': '?losses:d'}}")  \
    X(REAP_LOOK, FIND, PHOTOS, "_id_",                                                                       \
      "{'_id': {'$in': '?keys:K'}, 't.n': {'$gte': '?first:i', '$lt': '?end:i'}}", "",                       \
      "'projection': {'t.n': 1}")                                                                            \
    X(REAP_SETTLED, FIND, PHOTOS, "claimed", "{'t.s': 3, 't.lu': {'$lte': '?now:i'}}", "",                   \
      "'projection': {'c': 1, 't.n': 1, 't.x': 1}, 'limit': '?limit:i'")                                     \
    /* items: planning, newest revisions */                                                                  \
    X(ITEM_INSERT, INSERT, ITEMS, "", "",                                                                    \
      "{'_id': '?id:s', 'c': '?client:s', 'i': '?item:s', 'r': '?revision:i', 'b': '?batch:s',"              \
      " 'n': '?index:i', 'm': '?meta:s?', 'cr': '?now:i', 's': '?status:d', 'q': '?seq:i',"                  \
      " 'f': '?finished:I', 'ao': '?at_once:y', 'ok': '?open:K?', 'ph': '?photos:A'}")                       \
    X(ITEM_PHOTO, PART, ITEMS, "", "",                                                                       \
      "{'u': '?url:B', 'k': '?key:k', 'd': '?domain:s?', 'o': '?outcome:X?'}")                               \
    X(ITEMS_NEWEST, AGGREGATE, ITEMS, "",                                                                    \
      "[{'$match': {'c': '?client:s', 'i': {'$in': '?items:S'}}}, {'$sort': {'i': 1, 'r': -1}},"             \
      " {'$group': {'_id': '$i', 'r': {'$first': '$r'}, 'q': {'$first': '$q'}}}]")                           \
    X(ITEMS_REPEATED, FIND, ITEMS, "newest",                                                                 \
      "{'c': '?client:s', 'i': {'$in': '?items:S'}, 'b': '?batch:s'}", "",                                   \
      "'projection': {'i': 1, 'r': 1, 'ok': 1, 'q': 1, 'ao': 1}")                                            \
    X(ITEMS_OLDER, FIND, ITEMS, "newest", "{'c': '?client:s', 'i': {'$in': '?items:S'}, 'q': 0}", "",        \
      "'projection': {'i': 1, 'r': 1}")                                                                      \
    X(ITEM_RENUMBER, UPDATE, ITEMS, "_id_", "{'_id': '?id:s', 'c': '?client:s', 'ao': true, " MG_GUARD "}",  \
      "{'$set': {'q': '?seq:i'}, '$unset': {'ao': true}}")                                                   \
    X(ITEMS_NUMBERED, FIND, ITEMS, "_id_",                                                                   \
      "{'c': {'$in': '?clients:S'}, '_id': {'$in': '?ids:S'}, 'q': {'$gte': '?first:i', '$lt': '?end:i'}}",  \
      "", "'projection': {'c': 1, 'b': 1, 'q': 1}")                                                          \
    /* commands that write outcomes into items */                                                            \
    X(FINISH_OF_CLIENT, PART, ITEMS, "", "", "{'c': '?client:s', 'ok': {'$in': '?keys:K'}}")                 \
    X(FINISH_FIND, FIND, ITEMS, "waiting", "{'$or': '?of_clients:A'}", "",                                   \
      "'projection': {'c': 1, 'b': 1, 'ok': 1, 'ph.k': 1, 'ph.o.k': 1}, 'limit': '?limit:i'")                \
    X(FINISH_SEEN, UPDATE, ITEMS, "_id_",                                                                    \
      "{'_id': '?id:s', 'c': '?client:s', " MG_GUARD ", 'ok': '?open:K'}",                                   \
      "{'$set': '?outcomes:D', '$unset': {'ok': '?done:y'}}")                                                \
    X(FINISH_END, PART, ITEMS, "", "", "{'s': '?status:d', 'q': '?seq:i', 'f': '?now:i'}")                   \
    X(FINISH_REST, PART, ITEMS, "", "", "{'ok': '?rest:K'}")                                                 \
    X(FINISH_BRANCH, PART, ITEMS, "", "",                                                                    \
      "{'case': {'$eq': ['$$p.k', '?key:k']},"                                                               \
      " 'then': {'$mergeObjects': ['$$p', {'$literal': {'o': '?outcome:X'}}]}}")                             \
    X(FINISH_AS_IS, UPDATE, ITEMS, "_id_",                                                                   \
      "{'_id': '?id:s', 'c': '?client:s', " MG_GUARD ", 'ok': " MG_YES "}",                                  \
      "[{'$set': {'ph': {'$map': {'input': '$ph', 'as': 'p', 'in': {'$cond': ['$$p.o', '$$p',"               \
      " {'$switch': {'branches': '?branches:A', 'default': '$$p'}}]}}},"                                     \
      " 'ok': {'$setDifference': ['$ok', '?keys:K']}}},"                                                     \
      " {'$set': {'s': " MG_IF_DONE(MG_ITEM_STATUS, "0") ", 'q': " MG_IF_DONE(                               \
          "'?seq:i'", MG_LONG(0)) ","                                                                        \
                                  " 'f': " MG_IF_DONE("'?now:i'", "'$$REMOVE'") ", 'ok': " MG_IF_DONE(       \
                                      "'$$REMOVE'", "'$ok'") "}}]")                                          \
    /* commands that end items without outcomes: as superseded or cancelled */                               \
    X(CLOSE_FIND, FIND, ITEMS, "_id_", "{'c': '?client:s', '_id': {'$in': '?ids:S'}, 'ok': " MG_YES "}", "", \
      "'projection': {'b': 1, 'ok': 1, 'ph.o.k': 1}")                                                        \
    X(CLOSE, UPDATE, ITEMS, "_id_", "{'_id': '?id:s', 'c': '?client:s', 'ok': " MG_YES ", " MG_GUARD "}",    \
      "{'$set': {'s': '?status:d', 'q': '?seq:i', 'f': '?now:i', 'ph.$[x].o': {'k': 5}},"                    \
      " '$unset': {'ok': true}}",                                                                            \
      "'arrayFilters': [{'x.o': " MG_NO "}]")                                                                \
    X(WANTED, FIND, ITEMS, "waiting", "{'c': '?client:s', 'ok': {'$in': '?keys:K'}}", "",                    \
      "'projection': {'_id': 0, 'ok': 1}, 'limit': '?limit:i'")                                              \
    X(OPEN_ITEMS, FIND, ITEMS, "batch", "{'c': '?client:s', 'b': '?batch:s', 'q': 0}", "",                   \
      "'projection': {'_id': 1}, 'limit': '?limit:i'")                                                       \
    /* commands that read items for the API */                                                               \
    X(RESULTS, FIND, ITEMS, "",                                                                              \
      "{'c': '?client:s', 'b': '?batch:s', 'q': {'$gt': '?after:i', '$lt': '?end:i'}, 's': '?status:I',"     \
      " 'ph.o.c': {'$in': '?codes:L?'}}",                                                                    \
      "", "'sort': {'q': 1}, 'limit': '?limit:i', " MG_MAJORITY)                                             \
    X(REPLAY, FIND, ITEMS, "",                                                                               \
      "{'c': '?client:s', 'b': '?batch:s', 'q': {'$gt': '?after:i', '$lt': '?end:i'}, 'ph': {'$elemMatch':"  \
      " {'o.k': {'$in': [3, 4]}, 'o.c': {'$in': '?codes:L?'}, 'd': {'$in': '?domains:S?'}}}}",               \
      "", "'sort': {'q': 1}, 'limit': '?limit:i', " MG_MAJORITY)                                             \
    X(ITEM, FIND, ITEMS, "", "{'c': '?client:s', 'i': '?item:s'}", "",                                       \
      "'sort': {'r': -1}, 'limit': 1, " MG_MAJORITY)                                                         \
    X(ITEM_IDS, FIND, ITEMS, "newest", "{'c': '?client:s', 'i': {'$gte': '?from:s', '$lt': '?to:s?'}}", "",  \
      "'sort': {'i': 1, 'r': -1}, 'limit': '?limit:i', 'projection': {'_id': 0, 'i': 1, 'r': "               \
      "1}, " MG_MAJORITY)                                                                                    \
    X(ITEMS_MATCH, FIND, ITEMS, "_id_",                                                                      \
      "{'c': '?client:s', '_id': {'$in': '?ids:S'}, 's': '?status:I', 'ph.o.c': {'$in': '?codes:L?'}}", "",  \
      "'projection': {'_id': 0, 'i': 1}, " MG_MAJORITY)                                                      \
    X(ITEMS_READ, FIND, ITEMS, "_id_", "{'c': '?client:s', '_id': {'$in': '?ids:S'}, 'b': " MG_YES "}", "",  \
      MG_MAJORITY)                                                                                           \
    X(ITEM_TASKS, FIND, PHOTOS, "", "{" MG_THESE_PHOTOS "}", "",                                             \
      "'projection': {'t.s': 1, 't.tier': 1, 't.due': 1, 't.at': 1, 't.lc': 1, 't.wu': 1, 't.pk': 1}")       \
    X(WAITING_ITEMS, FIND, ITEMS, "batch", "{'c': '?client:s', 'b': '?batch:s', 'q': 0}", "",                \
      "'projection': {'_id': 0, 'ph.k': 1, 'ph.o.k': 1}, 'limit': '?limit:i', " MG_MAJORITY)                 \
    X(WAITING_TASKS, FIND, PHOTOS, "_id_", "{" MG_THESE_PHOTOS "}", "",                                      \
      "'projection': {'t.s': 1, 't.q': 1, 't.due': 1, 't.at': 1, 't.pk': 1, 't.wu': 1}")                     \
    X(OUTBOX, FIND, ITEMS, "outbox", "{'q': {'$gt': '?after:i', '$in': '?seqs:L?', '$lt': '?end:I'}}", "",   \
      "'sort': {'q': 1}, 'limit': '?limit:i', " MG_MAJORITY)                                                 \
    X(OUTBOX_COUNT, AGGREGATE, ITEMS, "outbox",                                                              \
      "[{'$match': {'q': {'$gt': '?after:i', '$lte': '?upto:i'}}}, {'$sort': {'q': 1}},"                     \
      " {'$limit': '?most:i'}, {'$group': {'_id': null, 'n': {'$sum': 1}, 'first': {'$min': '$q'},"          \
      " 'last': {'$max': '$q'}}}]")                                                                          \
    X(OUTBOX_TIMES, FIND, ITEMS, "outbox", "{'q': {'$gt': " MG_LONG(0) ", '$in': '?seqs:L'}}", "",           \
      "'projection': {'q': 1, 'f': 1}")                                                                      \
    /* batches */                                                                                            \
    X(BATCH, FIND, BATCHES, "", "{'_id': '?batch:s', 'c': '?client:s?'}", "", MG_MAJORITY)                   \
    X(BATCH_LOOK, FIND, BATCHES, "", "{'_id': '?batch:s'}")                                                  \
    X(BATCH_END, FIND, BATCHES, "", "{'_id': '?batch:s'}", "",                                               \
      "'projection': {'c': 1, 'pl': 1, 'f': 1}, " MG_MAJORITY)                                               \
    X(BATCH_OPEN_ITEM, FIND, ITEMS, "batch", "{'c': '?client:s', 'b': '?batch:s', 'q': 0}", "",              \
      "'projection': {'_id': 1}, 'limit': 1, " MG_MAJORITY)                                                  \
    X(BATCH_LIST, FIND, BATCHES, "",                                                                         \
      "{'c': '?client:s?', 'lb': '?label:s?', '_id': {'$lt': '?after:s?'}, 'ca': {'$exists': "               \
      "'?cancelled:e'},"                                                                                     \
      " 'f': {'$exists': '?finished:e'}}",                                                                   \
      "", "'sort': {'_id': -1}, 'limit': '?limit:i', " MG_MAJORITY)                                          \
    X(BATCH_BEGIN, MODIFY, BATCHES, "", "{'_id': '?batch:s'}",                                               \
      "{'$setOnInsert': {'c': '?client:s'}, '$set': {" MG_FIELD_OF_BATCH "}, '$max': {'pb': '?begun:i'}}",   \
      "'upsert': true")                                                                                      \
    X(BATCH_PLANNED, MODIFY, BATCHES, "", "{'_id': '?batch:s'}",                                             \
      "{'$set': {'pl': '?planned:y'}, '$max': {'pd': '?numbered:I'}}", "'new': true")                        \
    X(BATCH_MAKE, UPSERT, BATCHES, "_id_", "{'_id': '?batch:s'}",                                            \
      "{'$setOnInsert': {'c': '?client:s', " MG_FIELD_OF_BATCH "}}")                                         \
    X(BATCH_CANCEL, UPDATE, BATCHES, "_id_", "{'_id': '?batch:s', 'f': " MG_NO ", 'ca': " MG_NO "}",         \
      "{'$set': {'ca': '?now:i'}}")                                                                          \
    X(BATCH_COUNT, AGGREGATE, ITEMS, "",                                                                     \
      "[{'$match': {'c': {'$in': '?clients:S'}, 'b': {'$in': '?batches:S'}}},"                               \
      " {'$unwind': {'path': '$ph', 'includeArrayIndex': 'x', 'preserveNullAndEmptyArrays': true}},"         \
      " {'$group': {'_id': {'b': '$b', 's': '$s', 'k': {'$ifNull': ['$ph.o.k',"                              \
      " {'$cond': [{'$gt': ['$ph', null]}, 0, -1]}]}, 'c': '$ph.o.c', 'z': {'$lte': ['$x', 0]}},"            \
      " 'n': {'$sum': 1}, 'f': {'$max': '$f'}}}]",                                                           \
      "", "'allowDiskUse': true")                                                                            \
    X(BATCH_RECORD, UPDATE, BATCHES, "_id_",                                                                 \
      "{'_id': '?batch:s', 'f': " MG_NO ", '$expr': {'$lt': ['?settled:i', {'$toLong': '$$NOW'}]}}",         \
      "{'$set': {'f': '?finished:i',"                                                                        \
      " 'sum': {'i': '?items:L', 'p': '?photos:L', 'e': '?errors:L', 'by': '?by:o'}}}")                      \
    X(BATCH_RECORDED, FIND, BATCHES, "", "{'_id': {'$in': '?batches:S'}, 'sum.by': '?by:o'}", "",            \
      "'projection': {'_id': 1}")                                                                            \
    X(BATCH_ENDED_STAGES, PART, BATCHES, "", "",                                                             \
      "[{'$match': {'_id': {'$in': '?batches:S'}, 'pl': true, 'f': " MG_NO "}}, {'$project': {'_id': 1}}]")  \
    X(BATCH_ENDED_BRANCH, PART, BATCHES, "", "",                                                             \
      "{'$unionWith': {'coll': 'items', 'pipeline': [{'$match': {'c': '?client:s', 'b': '?batch:s', 'q': "   \
      "0}},"                                                                                                 \
      " {'$limit': 1}, {'$project': {'_id': 0, 'b': 1}}]}}")                                                 \
    X(BATCH_ENDED, AGGREGATE, BATCHES, "", "'?stages:A'")                                                    \
    X(REJECTED_PUT, REPLACE, REJECTED, "_id_", "{'_id': '?part:s', 'c': '?client:s'}",                       \
      "{'_id': '?part:s', 'c': '?client:s', 'p': '?bytes:B'}")                                               \
    X(REJECTED_LIST, FIND, REJECTED, "_id_",                                                                 \
      "{'c': '?client:s', '_id': {'$gte': '?from:s', '$lt': '?end:s'}}", "",                                 \
      "'sort': {'_id': 1}, 'limit': '?limit:i', " MG_MAJORITY)                                               \
    X(REJECTED_DELETE, DELETE_MANY, REJECTED, "_id_",                                                        \
      "{'c': '?client:s', '_id': {'$gte': '?from:s', '$lt': '?end:s'}}")                                     \
    /* retention */                                                                                          \
    X(CLEAN_UNRECORDED, FIND, BATCHES, "", "{'f': null, 'pl': true, 'cr': {'$lt': '?before:i'}}", "",        \
      "'limit': '?limit:i', 'projection': {'c': 1}")                                                         \
    X(CLEAN_OLDEST, FIND, BATCHES, "", "{'f': {'$lt': '?before:i'}}", "",                                    \
      "'sort': {'f': 1}, 'limit': 1, 'projection': {'c': 1}")                                                \
    X(CLEAN_ITEMS, FIND, ITEMS, "", "{'c': '?client:s', 'b': '?batch:s'}", "",                               \
      "'limit': '?limit:i', 'projection': {'i': 1, 'r': 1}")                                                 \
    X(CLEAN_ITEM, REMOVE, ITEMS, "", "{'c': '?client:s', '_id': '?id:s', 'b': '?batch:s'}")                  \
    X(CLEAN_TO_STUB, UPDATE, ITEMS, "_id_", "{'c': '?client:s', '_id': '?id:s', 'b': '?batch:s'}",           \
      "[{'$project': {'c': 1, 'i': 1, 'r': 1}}]")                                                            \
    X(CLEAN_OLDER_STUB, REMOVE, ITEMS, "",                                                                   \
      "{'c': '?client:s', 'i': '?item:s', 'r': {'$lt': '?revision:i'}, 'b': " MG_NO "}")                     \
    X(CLEAN_BATCH, REMOVE, BATCHES, "", "{'_id': '?batch:s'}")                                               \
    X(ITEM_REVISIONS, FIND, ITEMS, "newest", "{'c': '?client:s', 'i': '?item:s', 'b': " MG_YES "}", "",      \
      "'sort': {'r': -1}, 'projection': {'b': 1, 'q': 1, 'f': 1}, " MG_MAJORITY)                             \
    X(BATCHES_RUNNING, FIND, BATCHES, "_id_", "{'_id': {'$in': '?batches:S'}, 'f': " MG_NO "}", "",          \
      "'limit': 1, 'projection': {'_id': 1}, " MG_MAJORITY)                                                  \
    /* settings and routes */                                                                                \
    X(CLIENTS, FIND, CLIENTS, "",                                                                            \
      "{'_id': {'$eq': '?id:s?', '$in': '?ids:S?', '$gt': '?after:s?', '$gte': '?from:s?', '$lt': "          \
      "'?to:s?'},"                                                                                           \
      " 'pa': '?paused:e'}",                                                                                 \
      "", "'sort': {'_id': 1}, 'limit': '?limit:i', " MG_MAJORITY)                                           \
    X(CLIENTS_OF_BATCHES, AGGREGATE, BATCHES, "client",                                                      \
      "[{'$match': {'c': {'$gt': '?after:s', '$gte': '?from:s?', '$lt': '?to:s?'}}}, {'$sort': {'c': 1}},"   \
      " {'$limit': '?scan:i'}, {'$group': {'_id': '$c', 'n': {'$sum': 1}}}]")                                \
    X(CLIENT_PUT, REPLACE, CLIENTS, "_id_", "{'_id': '?id:s'}",                                              \
      "{'_id': '?id:s', 'rs': '?rpm_set:b', 'un': '?unlimited:b', 'rpm': '?rpm:i', 'cc': '?concurrency:i',"  \
      " 'w': '?weight:i', 'pa': '?paused:b', 'hd': '?headers:s?', 'up': '?updated:i'}")                      \
    X(CLIENT_SWAP, REPLACE, CLIENTS, "_id_", "{'_id': '?id:s', 'up': '?read:i'}",                            \
      "{'_id': '?id:s', 'rs': '?rpm_set:b', 'un': '?unlimited:b', 'rpm': '?rpm:i', 'cc': '?concurrency:i',"  \
      " 'w': '?weight:i', 'pa': '?paused:b', 'hd': '?headers:s?', 'up': '?updated:i'}")                      \
    X(ROUTES, FIND, ROUTES, "",                                                                              \
      "{'c': '?client:s?', '$or': [{'c': '?after_client:s', 'd': {'$gt': '?after_domain:s'}},"               \
      " {'c': {'$gt': '?after_client:s'}}], 'd': '?domain:s?'}",                                             \
      "", "'sort': {'c': 1, 'd': 1}, 'limit': '?limit:i'")                                                   \
    X(ROUTE_PUT, REPLACE, ROUTES, "_id_", "{'_id': '?id:s'}",                                                \
      "{'_id': '?id:s', 'c': '?client:s', 'd': '?domain:s', 't': '?tier:d', 'tm': '?tier_ms:i',"             \
      " 'ws': '?weight_sum:f', 'vs': '?value_sum:f', 'n': '?samples:i', 'up': '?updated:i'}")                \
    /* meta: numbers of finished items, numbers by name, the first data set, the id of the                   \
     * installation, the schema */                                                                           \
    X(SEQ_TAKE, MODIFY, META, "", "{'_id': 'seq'}",                                                          \
      "[{'$set': {'open': {'$concatArrays': [" MG_LIVING ", [{'f': " MG_NEXT_SEQ ", 'at': '$$NOW'}]]},"      \
      " 'n': {'$add': [" MG_NEXT_SEQ ", '?count:i']}}}]",                                                    \
      "'upsert': true, 'new': true")                                                                         \
    X(SEQ_CLOSE, UPDATE, META, "_id_", "{'_id': 'seq'}", "{'$pull': {'open': {'f': '?first:i'}}}")           \
    X(SEQ_END, FIND, META, "", "{'_id': 'seq'}", "", "'projection': {'open': " MG_LIVING ", 'n': 1}")        \
    X(NUMBERS, MODIFY, META, "", "{'_id': '?id:s'}", "{'$inc': {'n': '?count:i'}}",                          \
      "'upsert': true, 'new': true")                                                                         \
    X(GENERATION, MODIFY, META, "", "{'_id': 'dataset'}", "{'$setOnInsert': {'first': '?dataset:s'}}",       \
      "'upsert': true, 'new': true")                                                                         \
    X(INSTALLATION, MODIFY, META, "", "{'_id': 'installation'}", "{'$setOnInsert': {'id': '?mine:s'}}",      \
      "'upsert': true, 'new': true")                                                                         \
    X(SCHEMA, FIND, META, "", "{'_id': 'schema'}")                                                           \
    X(SCHEMA_SET, UPSERT, META, "_id_", "{'_id': 'schema'}", "{'$max': {'v': '?version:i'}}")                \
    X(SCHEMA_LOCK, UPSERT, META, "_id_", "{'_id': 'migrating', 'until': {'$lt': '?now:i'}}",                 \
      "{'$set': {'by': '?by:o', 'until': '?until:i'}}")                                                      \
    X(SCHEMA_UNLOCK, REMOVE, META, "", "{'_id': 'migrating', 'by': '?by:o'}")                                \
    X(SCHEMA_KEEP, UPDATE, META, "_id_", "{'_id': 'migrating', 'by': '?by:o'}",                              \
      "{'$set': {'until': '?until:i'}}")                                                                     \
    /* giving photos the keys of their canonical URLs */                                                     \
    X(REKEY_STATE, FIND, META, "", "{'_id': 'rekey'}")                                                       \
    X(REKEY_SET, REPLACE, META, "_id_", "{'_id': 'rekey'}",                                                  \
      "{'_id': 'rekey', 'after': '?after:s', 'todo': '?todo:A'}")                                            \
    X(REKEY_TODO, PART, META, "", "", "{'c': '?client:s', 'was': '?was:k', 'key': '?key:k'}")                \
    X(REKEY_END, REMOVE, META, "", "{'_id': 'rekey'}")                                                       \
    X(REKEY_ITEMS, FIND, ITEMS, "_id_", "{'_id': {'$gt': '?after:s'}}", "",                                  \
      "'sort': {'_id': 1}, 'limit': '?limit:i', 'projection': {'c': 1, 'ph.u': 1, 'ph.k': 1}")               \
    X(REKEY_OPEN, UPDATE_MANY, ITEMS, "waiting", "{'c': '?client:s', 'ok': '?was:k'}",                       \
      "[{'$set': {" MG_REKEYED                                                                               \
      ", 'ok': {'$setUnion': [{'$setDifference': ['$ok', ['?was:k']]}, ['?key:k']]}}}]")                     \
    X(REKEY_ITEM, UPDATE_MANY, ITEMS, "_id_",                                                                \
      "{'_id': {'$gt': '?after:s', '$lte': '?last:s'}, 'c': '?client:s', 'ph.k': '?was:k'}",                 \
      "[{'$set': {" MG_REKEYED "}}]")                                                                        \
    X(REKEY_INSERT, INSERT, PHOTOS, "", "", "'?doc:D'")                                                      \
    X(REKEY_RECORD, UPDATE, PHOTOS, "_id_", "{'_id': '?key:k', 'c': '?client:s'}",                           \
      "{'$set': {'o': '?object:O', 'fa': '?fetched:I', 'et': '?etag:s?', 'lm': '?modified:s?', 'fc': "       \
      "'?code:I',"                                                                                           \
      " 'fs': '?streak:I', 'sk': '?skips:I', 'fl': '?failed:I', 'fd': '?detail:s?'},"                        \
      " '$unset': {'et': '?no_etag:y', 'lm': '?no_modified:y', 'fc': '?no_failure:y', 'fs': "                \
      "'?no_failure:y',"                                                                                     \
      " 'sk': '?no_failure:y', 'fl': '?no_failure:y', 'fd': '?no_detail:y'}}")                               \
    X(REKEY_TASK, UPDATE, PHOTOS, "_id_", "{'_id': '?key:k', 'c': '?client:s', 't': " MG_NO "}",             \
      "{'$set': {'t': '?task:D'}}")                                                                          \
    X(REKEY_REMOVE, REMOVE, PHOTOS, "", "{'_id': '?was:k', 'c': '?client:s', 'e': '?epoch:i'}")              \
    X(CREATE_INDEXES, COMMAND_WRITE, META, "", "{'createIndexes': '?collection:s', 'indexes': '?specs:A'}")  \
    X(HELLO, COMMAND, META, "", "{'hello': 1, 'topologyVersion': '?known:D?', 'maxAwaitTimeMS': '?wait:I'}") \
    X(BUILD_INFO, COMMAND, META, "", "{'buildInfo': 1}")                                                     \
    /* sinks: cursors, and the endpoints of webhooks */                                                      \
    X(SINK_CURSOR, FIND, SINKS, "", "{'_id': '?sink:s'}", "",                                                \
      "'limit': 1, 'projection': {'c': 1}, " MG_MAJORITY)                                                    \
    X(SINK_START, MODIFY, SINKS, "", "{'_id': '?sink:s'}", "{'$setOnInsert': {'c': '?cursor:i'}}",           \
      "'upsert': true, 'new': true")                                                                         \
    X(SINK_MOVE, UPDATE, SINKS, "_id_", "{'_id': '?sink:s'}", "{'$max': {'c': '?cursor:i'}}")                \
    X(SINK_REMOVE, REMOVE, SINKS, "", "{'_id': '?sink:s'}")                                                  \
    X(SINKS, FIND, SINKS, "", "{'_id': {'$gt': ''}}", "",                                                    \
      "'sort': {'_id': 1}, 'projection': {'c': 1}, " MG_MAJORITY)                                            \
    X(WEBHOOKS, FIND, SINKS, "_id_",                                                                         \
      "{'_id': {'$eq': '?sink:s?', '$gt': '?after:s?', '$lt': '?end:s?'}, 'w': " MG_YES "}", "",             \
      "'sort': {'_id': 1}, 'limit': '?limit:i', " MG_MAJORITY)                                               \
    X(WEBHOOK_NEW, UPSERT, SINKS, "_id_", "{'_id': '?sink:s', 'w': " MG_NO "}",                              \
      "{'$max': {'c': '?cursor:i'}, '$set': {" MG_ENDPOINT "}}")                                             \
    X(WEBHOOK_SET, UPDATE, SINKS, "_id_", "{'_id': '?sink:s', 'w.v': '?was:i'}",                             \
      "{'$set': {" MG_ENDPOINT "}}")                                                                         \
    /* counters */                                                                                           \
    X(COUNTER_SUMS, FIND, COUNTERS, "", "{'_id': {'$in': '?keys:S'}}", "",                                   \
      "'projection': {'n': 1, 'f': 1}, " MG_MAJORITY)                                                        \
    X(COUNTER_MONTHS, FIND, COUNTERS, "", "{'_id': {'$gte': '?from:s', '$lte': '?to:s'}}", "",               \
      "'sort': {'_id': 1}, " MG_MAJORITY)                                                                    \
    X(COUNTER_ADD, UPSERT, COUNTERS, "", "{'_id': '?id:s', 'f': {'$lt': '?flush:i'}}",                       \
      "{'$inc': '?by:D', '$set': {'f': '?flush:i'}, '$unset': {'gone': true}}")                              \
    X(COUNTER_CLEAR, UPDATE_MANY, COUNTERS, "",                                                              \
      "{'$or': [{'_id': '?key:s'}, {'_id': {'$gte': '?from:s', '$lt': '?end:s'}}],"                          \
      " 'f': {'$lt': '?flush:i'}}",                                                                          \
      "{'$set': {'n': " MG_LONG(0) ", 'd': {}, 'f': '?before:i', 'gone': '?flush:i'}}")                      \
    X(COUNTER_PURGE, DELETE_MANY, COUNTERS, "gone", "{'gone': {'$lt': '?before:i'}}")                        \
    X(COUNTER_LAST, FIND, META, "_id_", "{'_id': 'counters'}", "", "'limit': 1, " MG_MAJORITY)               \
    X(COUNTER_LAST_SET, UPSERT, META, "_id_", "{'_id': 'counters'}", "{'$max': {'last': '?flush:i'}}")       \
    /* deliveries */                                                                                         \
    X(DELIVERY_INSERT, INSERT, DELIVERIES, "", "", MG_DELIVERY)                                              \
    X(DELIVERY_PUT, REPLACE, DELIVERIES, "_id_", "{" MG_DELIVERY_ID "}", MG_DELIVERY)                        \
    X(DELIVERY_REMOVE, REMOVE, DELIVERIES, "_id_", "{" MG_DELIVERY_ID "}")                                   \
    X(DELIVERY_REMOVE_ENDED, REMOVE, DELIVERIES, "_id_", "{" MG_DELIVERY_ID ", 'st': {'$in': [1, 2]}}")      \
    X(DELIVERY_FORGET, DELETE_MANY, DELIVERIES, "", "{'s': '?sink:s', 'q': {'$lte': '?last:i'}}")            \
    X(DELIVERY_REPLAY, UPDATE_MANY, DELIVERIES, "finished",                                                  \
      "{'s': '?sink:s', 'st': {'$in': '?statuses:L'}, 'f': {'$gte': '?from:i', '$lte': '?to:i'}}",           \
      "{'$set': {'st': 0, 'a': " MG_LONG(0) ", 'd': '?now:i'}}")                                             \
    X(DELIVERIES_DUE, FIND, DELIVERIES, "due",                                                               \
      "{'s': '?sink:s', 'd': {'$lte': '?upto:I', '$gt': '?after:I'}}", "",                                   \
      "'sort': {'d': 1, 'q': 1}, 'limit': '?limit:i', " MG_MAJORITY)                                         \
    X(DELIVERIES_ALL, FIND, DELIVERIES, "_id_",                                                              \
      "{'s': '?sink:s', '_id': {'$gte': {'s': '?sink:s', 'q': " MG_LONG(                                     \
          0) "},"                                                                                            \
             " '$lt': {'s': '?sink:s', 'q': '?before:i'}}}",                                                 \
      "", "'sort': {'_id': -1}, 'limit': '?limit:i', " MG_MAJORITY)                                          \
    X(DELIVERIES_OF_STATUS, FIND, DELIVERIES, "status",                                                      \
      "{'s': '?sink:s', 'st': '?status:d', 'q': {'$lt': '?before:i'}}", "",                                  \
      "'sort': {'q': -1}, 'limit': '?limit:i', " MG_MAJORITY)                                                \
    X(DELIVERIES_ENDED, FIND, DELIVERIES, "finished",                                                        \
      "{'s': '?sink:s', 'st': {'$in': [1, 2]}, 'f': {'$lt': '?before:i'}}", "",                              \
      "'limit': '?limit:i', 'projection': {'_id': 1}")                                                       \
    X(DELIVERIES_NEXT_SINK, FIND, DELIVERIES, "finished", "{'s': {'$gt': '?sink:s'}}", "",                   \
      "'sort': {'s': 1}, 'limit': 1, 'projection': {'s': 1, '_id': 0}")                                      \
    X(DELIVERIES_COUNT, AGGREGATE, DELIVERIES, "finished",                                                   \
      "[{'$match': {'s': {'$in': '?sinks:S'}, 'st': {'$in': [0, 2]}}}, {'$group': {'_id': {'s': '$s',"       \
      " 'st': '$st'}, 'n': {'$sum': 1}, 'f': {'$min': '$f'}}}]")                                             \
    /* statistics of days */                                                                                 \
    X(DAYS_BEGIN, MODIFY, SINKS, "", "{'_id': 'statistics'}",                                                \
      "[{'$set': {'c': {'$ifNull': ['$c', " MG_LONG(                                                         \
          0) "]}}},"                                                                                         \
             " {'$set': {'u': {'$cond': [{'$gt': ['$u', '$c']}, '$u', {'$max': ['$c', '?upto:i']}]}}}]",     \
      "'upsert': true, 'new': true")                                                                         \
    X(DAY_ADD, UPSERT, DAYS, "_id_", "{" MG_DAY_ID ", 'q': {'$lt': '?end:i'}}",                              \
      "{'$inc': '?sums:D', '$set': {'q': '?end:i', 'd': '?day:d'}}")                                         \
    X(DAYS, FIND, DAYS, "_id_",                                                                              \
      "{'_id': {'$gte': {'o': '?of:d', 'n': '?name:s', 'd': '?from:d'},"                                     \
      " '$lte': {'o': '?of:d', 'n': '?name:s', 'd': '?to:d'}}}",                                             \
      "", "'sort': {'_id': 1}, " MG_MAJORITY)                                                                \
    X(DAYS_OLD, FIND, DAYS, "day", "{'d': {'$lt': '?before:d'}}", "",                                        \
      "'limit': '?limit:i', 'projection': {'_id': 1}")                                                       \
    X(DAY_REMOVE, REMOVE, DAYS, "_id_", "{'_id': '?id:D'}")

enum pp_mg_command {
#define X(name, ...) MQ_##name,
    PP_MG_COMMANDS(X)
#undef X
        MQ_COUNT
};

#endif
