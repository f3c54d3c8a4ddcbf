/* SPDX-License-Identifier: MIT
 * Redis servers for unit tests: a shell that has sourced tests/lib/redis.bash. It ends its servers
 * when this process is gone, in whatever way.
 */
#ifndef REDIS_SERVERS_H
#define REDIS_SERVERS_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static struct {
    pid_t pid;
    FILE *to, *from;
    char out[1 << 16]; /* what the last command printed on stdout, without its last newline */
} shell;

/* Waits for the exit status of the last command; -1: the shell has gone. */
static int status_of_shell(void)
{
    static const char END[] = "\001status ";
    size_t len = 0;
    shell.out[0] = '\0';
    while (len + 1 < sizeof shell.out &&
           fgets(shell.out + len, (int)(sizeof shell.out - len), shell.from) != NULL) {
        char *end = strstr(shell.out + len, END);
        if (end != NULL) {
            int status = atoi(end + sizeof END - 1);
            *end = '\0';
            if (end > shell.out && end[-1] == '\n')
                end[-1] = '\0';
            return status;
        }
        len += strlen(shell.out + len);
    }
    return -1;
}

/* Runs a line of bash; returns its exit status. */
static int sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int sh(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(shell.to, fmt, ap);
    va_end(ap);
    fputc('\n', shell.to);
    fflush(shell.to);
    return status_of_shell();
}

/* Must be called before the servers are used. NULL: they can be; else why not. */
static const char *servers_begin(void)
{
    static char script[] = ". \"${SOURCE:-.}/tests/lib/redis.bash\" || exit\n"
                           "trap redis_stop EXIT\n"
                           "redis_lacks\n"
                           "printf '\\001status %d\\n' $?\n"
                           "while IFS= read -r line; do\n"
                           "    eval \"$line\" 2>&1 </dev/null\n"
                           "    printf '\\001status %d\\n' $?\n"
                           "done\n";
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0)
        return "no pipe";
    shell.pid = fork();
    if (shell.pid < 0)
        return "no process";
    if (shell.pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[0]), close(to[1]), close(from[0]), close(from[1]);
        execlp("bash", "bash", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(to[0]), close(from[1]);
    shell.to = fdopen(to[1], "w");
    shell.from = fdopen(from[0], "r");
    if (shell.to == NULL || shell.from == NULL)
        return "no pipe";
    switch (status_of_shell()) {
    case 0:
        return strdup(shell.out);
    case 1:
        return NULL;
    default:
        fprintf(stderr, "no bash, or no tests/lib/redis.bash here or in the directory SOURCE\n");
        exit(1);
    }
}

static void servers_end(void)
{
    fclose(shell.to);
    fclose(shell.from);
    waitpid(shell.pid, NULL, 0);
}

#endif
