/* log.h: writes the lines that operators read, on standard error, as text or as JSON.
 *
 * Input from outside is escaped: line breaks, terminal escapes, invalid UTF-8. The log drops lines
 * beyond `lines_per_second`, and lines for which a pipe, socket or terminal has no room, so that a
 * reader that stands still does not stop the process. Before the next line that is written, an
 * additional line says how many were dropped. Any thread may log. The process must ignore SIGPIPE.
 *
 *   pp_log(log, PP_LOG_WARN, "host slowed", "host", host, "seconds", PP_LOG_INT(30), NULL);
 *
 * The message is a constant and says what happened; details go into pairs of key and value, ended
 * by NULL. */
#ifndef PP_BASE_LOG_H
#define PP_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum pp_log_level { PP_LOG_ERROR, PP_LOG_WARN, PP_LOG_INFO, PP_LOG_DEBUG };

struct pp_log;

/* Makes a log that writes to file descriptor `fd`, which stays the caller's. If lines_per_second is
 * 0, there is no limit of lines. Returns NULL when out of memory. */
struct pp_log *pp_log_open(int fd, enum pp_log_level level, bool json, uint32_t lines_per_second);
void pp_log_close(struct pp_log *log); /* reports how many lines were dropped; NULL is allowed */
/* Sets the level. Any thread may call it. */
void pp_log_set_level(struct pp_log *log, enum pp_log_level level);

/* Returns true if the log takes lines of this level, so that a caller can spare the work of making
 * one. Any thread may call it; `log` may be NULL. */
bool pp_log_takes(const struct pp_log *log, enum pp_log_level level);

/* Writes a line. The arguments are pairs of (const char *key, const char *value), then NULL. `log`
 * and a value may be NULL. */
void pp_log(struct pp_log *log, enum pp_log_level level, const char *message, ...) __attribute__((sentinel));

/* Returns a number as text, for a value of pp_log(); the text lives until the end of the enclosing
 * block. */
#define PP_LOG_INT(v) (pp_log_int((char[24]){0}, (int64_t)(v)))
const char *pp_log_int(char buf[24], int64_t v);

#endif
