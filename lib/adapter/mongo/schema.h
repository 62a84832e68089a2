/* schema.h: checks the server, and creates or migrates the indexes. */
#ifndef PP_ADAPTER_MONGO_SCHEMA_H
#define PP_ADAPTER_MONGO_SCHEMA_H

#include "run.h"

/* Brings the database to the version of PP_MG_INDEXES. PP_EMISMATCH: the database is newer. */
pp_must_check enum pp_err pp_mg_migrate(struct pp_mg_thread *t);
/* Checks the server, and reads its clock. PP_EMISMATCH: it is not in a replica set, or too old. */
pp_must_check enum pp_err pp_mg_hello(struct pp_mg_thread *t);

#endif
