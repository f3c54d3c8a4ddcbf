/* SPDX-License-Identifier: MIT */
/* A part of a test in a process of its own, which may die. */
#ifndef CHILD_H
#define CHILD_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Calls body(ctx) there; what it returns is the exit status. */
static pid_t child_start(int (*body)(void *ctx), void *ctx)
{
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int status = body(ctx);
        fflush(stdout);
        _exit(status);
    }
    return child;
}

/* Waits for its end. The exit status, or the number of the signal that killed it, negative. */
static int child_wait(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static inline int in_child(int (*body)(void *ctx), void *ctx)
{
    return child_wait(child_start(body, ctx));
}

#endif
