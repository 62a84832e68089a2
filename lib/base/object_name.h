/* object_name.h: where an object lies in a blob store, whatever it is made of: "sha256/ab/cd/abcd....jpg",
 * from its hash and its extension. */
#ifndef PP_BASE_OBJECT_NAME_H
#define PP_BASE_OBJECT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/port/blob_store.h"

/* The path and a NUL. An extension has at most 7 characters. */
void pp_object_path(char path[PP_OBJECT_NAME_MAX], const uint8_t sha256[32], const char *ext);

/* The inverse: true only for exactly what pp_object_path() makes, with an extension of 1 to 7 of [a-z0-9].
 * All of `name` is set, so that names can be compared as bytes. */
bool pp_object_parse(struct pp_blob_name *name, const char *path, size_t n);

#endif
