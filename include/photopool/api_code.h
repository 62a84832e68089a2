/* api_code.h: the reasons for which the API refuses a request, in one table. Problem documents,
 * /v1/errors and the HTTP server's own refusals use it. API.md section 1 lists the codes.
 *
 * To add a code: add a row here, and its name to the enum of openapi.json's Problem, in the same
 * order; a test compares the two. */
#ifndef PHOTOPOOL_API_CODE_H
#define PHOTOPOOL_API_CODE_H

/* The columns: X(identifier, name, HTTP status, title, what the caller can do). */
#define PP_API_CODE_TABLE(X)                                                                                 \
    X(BAD_JSON, "bad_json", 400, "The body is not valid JSON",                                               \
      "Send valid JSON (RFC 8259) without duplicate keys, at most 32 levels deep.")                          \
    X(BAD_REQUEST, "bad_request", 400, "The HTTP message is not correct",                                    \
      "Send a correct HTTP/1.1 message (RFC 9112).")                                                         \
    X(BAD_ENCODING, "bad_encoding", 400, "The body is not encoded as it says",                               \
      "Send a body that is what its Content-Encoding says.")                                                 \
    X(BAD_CLIENT, "bad_client", 400, "The client id is not valid",                                           \
      "Use 1 to 64 of A-Z a-z 0-9 _ - for the client.")                                                      \
    X(BAD_PARAMETER, "bad_parameter", 400, "A query parameter is not valid", "Correct the named parameter.") \
    X(BAD_CURSOR, "bad_cursor", 400, "The cursor is not valid",                                              \
      "Start again without `after`, or use `next` of an earlier answer as it is.")                           \
    X(BAD_IDEMPOTENCY_KEY, "bad_idempotency_key", 400, "The Idempotency-Key is not valid",                   \
      "Use 1 to 255 visible ASCII characters.")                                                              \
    X(UNKNOWN_FIELD, "unknown_field", 400, "A field is not known",                                           \
      "Remove the named field or correct its spelling.")                                                     \
    X(BAD_TYPE, "bad_type", 400, "A field has the wrong type", "Send the named field with the right type.")  \
    X(MISSING_FIELD, "missing_field", 400, "A field is missing", "Add the named field.")                     \
    X(BAD_VALUE, "bad_value", 422, "A field has a value that is not allowed", "Correct the named field.")    \
    X(UNAUTHORIZED, "unauthorized", 401, "A valid key is needed",                                            \
      "Send Authorization: Bearer with a key of this server.")                                               \
    X(FORBIDDEN, "forbidden", 403, "The key does not allow this", "Use a key that has the named scope.")     \
    X(NOT_FOUND, "not_found", 404, "There is no such thing",                                                 \
      "Check the id and the path; /openapi.json lists what there is.")                                       \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, "The method is not allowed here",                       \
      "Use one of the methods in Allow.")                                                                    \
    X(IDEMPOTENCY_IN_PROGRESS, "idempotency_in_progress", 409, "A request with this key is in progress",     \
      "Wait for the first request with this key to end.")                                                    \
    X(REPLAY_IN_PROGRESS, "replay_in_progress", 409, "A replay of this batch is in progress",                \
      "Send again when the batch of the first replay is running.")                                           \
    X(ITEM_OPEN, "item_open", 409, "The item has not finished",                                              \
      "Wait until its batch has finished, or cancel the batch.")                                             \
    X(UNDELIVERED, "undelivered", 409, "Messages wait for delivery",                                         \
      "Let them be delivered, or drop them with ?force=true.")                                               \
    X(PRECONDITION_FAILED, "precondition_failed", 412, "The settings are not those of If-Match",             \
      "Read them again, and send the change with the new ETag.")                                             \
    X(BODY_TOO_LARGE, "body_too_large", 413, "The body is too large",                                        \
      "Send smaller batches; the limit is http.max_body.")                                                   \
    X(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", 415, "The body's media type is not supported",       \
      "Send application/json or application/x-ndjson, plain or with Content-Encoding: gzip.")                \
    X(RANGE_NOT_SATISFIABLE, "range_not_satisfiable", 416, "The range is outside the object",                \
      "Ask for a range within the object.")                                                                  \
    X(TOO_MANY_ITEMS, "too_many_items", 422, "The batch has too many items",                                 \
      "Split the batch; the limit is http.max_items.")                                                       \
    X(ALL_REJECTED, "all_rejected", 422, "No item was accepted", "Correct the items as `rejected` says.")    \
    X(IDEMPOTENCY_MISMATCH, "idempotency_mismatch", 422, "The key was used for another request",             \
      "Use a new Idempotency-Key for a new body.")                                                           \
    X(RATE_LIMITED, "rate_limited", 429, "Too many requests", "Send again after Retry-After.")               \
    X(HEADER_TOO_LARGE, "header_too_large", 431, "The headers are too large",                                \
      "Send fewer or shorter headers.")                                                                      \
    X(INTERNAL, "internal", 500, "Something went wrong on our side",                                         \
      "Report the incident id to the operator, who finds it in the log.")                                    \
    X(OVERLOADED, "overloaded", 503, "The server can't take this right now",                                 \
      "Send again after Retry-After.")                                                                       \
    X(UNAVAILABLE, "unavailable", 503, "A store can't be reached", "Send again after Retry-After.")

enum pp_api_code {
#define X(id, name, status, title, remedy) PP_API_##id,
    PP_API_CODE_TABLE(X)
#undef X
        PP_API_CODE_COUNT
};

#endif
