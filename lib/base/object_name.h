/* object_name.h: the path of an object in any blob store, from its hash and its extension:
 * "sha256/ab/cd/abcd....jpg". */
#ifndef PP_BASE_OBJECT_NAME_H
#define PP_BASE_OBJECT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/port/blob_store.h"

/* Writes the path and a NUL. An extension has at most 7 characters. */
void pp_object_path(char path[PP_OBJECT_NAME_MAX], const uint8_t sha256[32], const char *ext);

/* Reads a path back into hash and extension. Returns true only for a path as pp_object_path()
 * writes it, with an extension of 1 to 7 of [a-z0-9]. Sets all bytes of `name`, so that names can
 * be compared as bytes. */
bool pp_object_parse(struct pp_blob_name *name, const char *path, size_t n);

#endif
