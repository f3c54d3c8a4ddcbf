/* SPDX-License-Identifier: MIT
 * bare: reads its standard input into one buffer until it ends, and does nothing else. What reads a
 * pipe cannot be faster: as seen does, it has the pipe made as large as Linux lets everybody have
 * it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

static char buffer[256 << 10]; /* more makes no difference */

int main(void)
{
    (void)fcntl(STDIN_FILENO, F_SETPIPE_SZ, 1 << 20);
    ssize_t got;
    while ((got = read(STDIN_FILENO, buffer, sizeof buffer)) > 0)
        ;
    return got < 0 ? 2 : 0;
}
