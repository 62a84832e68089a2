/* assets.h: the files of the dashboard, lib/api/ui. CMakeLists.txt puts them into the program. */
#ifndef PHOTOPOOL_API_ASSETS_H
#define PHOTOPOOL_API_ASSETS_H

#include <stddef.h>

/* A file. All members are constant and live as long as the program. */
struct pp_asset {
    const char *path;                    /* below lib/api/ui, such as "pages/hosts.js" */
    const char *type;                    /* its media type */
    const char *sha256;                  /* of its bytes, in hexadecimal digits */
    const unsigned char *plain, *packed; /* its bytes; the same, compressed by gzip */
    size_t plain_n, packed_n;
};

extern const struct pp_asset pp_assets[];
extern const size_t pp_assets_n;

#endif
