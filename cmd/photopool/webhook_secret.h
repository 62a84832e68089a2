/* webhook_secret.h: where `photopool webhooks` gets a secret from. */
#ifndef PHOTOPOOL_WEBHOOK_SECRET_H
#define PHOTOPOOL_WEBHOOK_SECRET_H

#include <stdbool.h>

enum { PP_SECRET_TEXT = 128 };

/* A new one: whsec_ and base64 of 32 random bytes. */
void pp_secret_make(char out[PP_SECRET_TEXT]);
/* The first line of the file ("-": standard input), without blanks around it. False, after a message. */
bool pp_secret_read(const char *path, char out[PP_SECRET_TEXT]);

#endif
