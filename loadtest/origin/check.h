/* check.h: the command `origin check FILE`, which compares a record of requests (record.h) with
 * limits.
 *
 * For each client it reports the largest number of requests in any 60 s and the largest number in
 * flight. With a file of limits it also reports the clients that exceeded them. With a file of
 * times it also reports how much of the permitted rate the clients used between those times. */
#ifndef OG_CHECK_H
#define OG_CHECK_H

/* Runs the check with the arguments after "check". Returns the exit code: 0 if no client exceeds
 * its limits, 1 if one does, 2 for wrong usage or unreadable input. */
int og_check_main(int argc, char **argv);

#endif
