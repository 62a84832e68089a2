/* s3_spool.c: makes the file that collects an object written in parts, until it is whole and its
 * name is known. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "adapter/s3/internal.h"

int pp_s3_spool_open(const char *dir)
{
    char path[600];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
        return fd;
    /* for a file system without O_TMPFILE */
    snprintf(path, sizeof(path), "%s/photopool-XXXXXX", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

enum pp_err pp_s3_spool_write(int fd, const struct iovec *iov, int n)
{
    for (int i = 0; i < n; i++) {
        for (size_t at = 0; at < iov[i].iov_len;) {
            ssize_t done = write(fd, (const char *)iov[i].iov_base + at, iov[i].iov_len - at);
            if (done < 0 && errno == EINTR)
                continue;
            if (done < 0)
                return errno == ENOSPC || errno == EDQUOT ? PP_ENOSPC : PP_EIO;
            at += (size_t)done;
        }
    }
    return PP_OK;
}
