/* err.c: the texts of the error codes in err.h. */
#include "photopool/err.h"

#include <stddef.h>

const char *pp_err_text(enum pp_err err)
{
    static const char *const texts[] = {
#define X(name, text) [name] = (text),
        PP_ERR_TABLE(X)
#undef X
    };
    size_t i = (size_t)err;
    return i < sizeof(texts) / sizeof(texts[0]) ? texts[i] : "unknown error";
}
