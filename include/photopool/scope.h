/* scope.h: the scopes of API keys. A key may do what its set of scopes allows; no scope includes
 * another. */
#ifndef PHOTOPOOL_SCOPE_H
#define PHOTOPOOL_SCOPE_H

/* The columns: X(identifier, name in the configuration and in problem documents). */
#define PP_SCOPE_TABLE(X) \
    X(SUBMIT, "submit")   \
    X(READ, "read")       \
    X(ADMIN, "admin")

enum pp_scope_bit {
#define X(id, name) PP_SCOPE_BIT_##id,
    PP_SCOPE_TABLE(X)
#undef X
        PP_SCOPE_COUNT
};

/* The scopes as bits; an unsigned holds a set of scopes. */
enum pp_scope {
    PP_SCOPE_ANY = 0, /* the empty set, for an endpoint that needs no scope */
#define X(id, name) PP_SCOPE_##id = 1 << PP_SCOPE_BIT_##id,
    PP_SCOPE_TABLE(X)
#undef X
};

#endif
