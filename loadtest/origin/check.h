/* check.h: `origin check FILE`: compares a record (record.h) with limits.
 *
 * For each client it reports the fullest window of 60 s, wherever that starts, and the maximum of
 * requests in flight. If limits are given, it reports the clients that exceed them; if times are
 * given, it reports how much of the permitted rate was used between them. */
#ifndef OG_CHECK_H
#define OG_CHECK_H

/* Runs the check with the arguments after "check". Returns the exit code: 0 if no client exceeds
 * its limits, 1 if one does, 2 for wrong usage or unreadable input. */
int og_check_main(int argc, char **argv);

#endif
