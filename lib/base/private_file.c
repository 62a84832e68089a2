#include "base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

int pp_private_open(int at, const char *path)
{
    struct stat st;
    int fd = openat(at, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

    if (fd < 0)
        return -1;
    bool ours = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    if (ours && ((st.st_mode & 07777) == 0600 || fchmod(fd, 0600) == 0))
        return fd;
    int saved = ours ? errno : EPERM;
    close(fd);
    errno = saved;
    return -1;
}
