/* err.h: the error codes of photopool's functions, in one table.
 *
 * Functions that can fail return `enum pp_err` and carry pp_must_check. Codes are for the program;
 * pp_err_text() is for the operator. Failures of photos are in code.h. */
#ifndef PHOTOPOOL_ERR_H
#define PHOTOPOOL_ERR_H

#define PP_ERR_TABLE(X)                                                                 \
    X(PP_OK, "done")                                                                    \
    X(PP_ENOMEM, "out of memory")                                                       \
    X(PP_EINVAL, "an argument is not valid")                                            \
    X(PP_EFULL, "a bound is reached")                                                   \
    X(PP_EBUSY, "taken by somebody else")                                               \
    X(PP_ENOTFOUND, "does not exist")                                                   \
    X(PP_EEXISTS, "exists already")                                                     \
    X(PP_EMISMATCH, "exists with other content")                                        \
    X(PP_ESTALE, "the epoch has moved on")                                              \
    X(PP_EIO, "the device or the server failed")                                        \
    X(PP_ENOSPC, "no space left")                                                       \
    X(PP_EMFILE, "too many open files: raise the limit with ulimit -n or LimitNOFILE=") \
    X(PP_ETIMEOUT, "no answer in time")                                                 \
    X(PP_EUNKNOWN, "the outcome is unknown")                                            \
    X(PP_ECORRUPT, "stored data can't be read")                                         \
    X(PP_ECANCELED, "cancelled")                                                        \
    X(PP_ECLOSED, "closed")

enum pp_err {
#define X(name, text) name,
    PP_ERR_TABLE(X)
#undef X
};

/* Returns the text of a code; never NULL, static. */
const char *pp_err_text(enum pp_err err);

#define pp_must_check __attribute__((warn_unused_result))

#endif
