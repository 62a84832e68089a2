/* webhook_secret.h: makes the signing secret of a webhook for `photopool webhooks`, or reads it
 * from a file. */
#ifndef PHOTOPOOL_WEBHOOK_SECRET_H
#define PHOTOPOOL_WEBHOOK_SECRET_H

#include <stdbool.h>

enum { PP_SECRET_TEXT = 128 };

/* Makes a new secret: "whsec_" and 32 random bytes in base64. */
void pp_secret_make(char out[PP_SECRET_TEXT]);
/* Reads the first line of the file ("-": standard input), without blanks at its ends. Returns false
 * after a message. */
bool pp_secret_read(const char *path, char out[PP_SECRET_TEXT]);

#endif
