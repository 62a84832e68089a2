/* check.h: `origin check FILE`: what a record (record.h) says about limits.
 *
 * For every client the fullest window of 60 s, wherever it starts, and the most requests in flight at once;
 * with limits, whether any is over; with times, how much of the permitted rate was used between them. */
#ifndef OG_CHECK_H
#define OG_CHECK_H

/* The arguments after "check". Returns the exit code: 0 nothing over, 1 something over, 2 usage or unreadable
 * input. */
int og_check_main(int argc, char **argv);

#endif
