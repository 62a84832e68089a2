/* private_file.h: files that only this process's user may read: databases, locks, secrets. */
#ifndef PP_BASE_PRIVATE_FILE_H
#define PP_BASE_PRIVATE_FILE_H

/* Opens a file for reading and writing, below the directory `at` (AT_FDCWD: the current one), and
 * creates it if it is missing. The file's mode becomes 0600, whatever it was, and whatever the
 * umask is. Returns a descriptor that the caller closes, or -1 and errno: ELOOP if the path is a
 * symbolic link, EPERM if the file belongs to another user or is no regular file, or an errno of
 * open(). */
int pp_private_open(int at, const char *path);

#endif
