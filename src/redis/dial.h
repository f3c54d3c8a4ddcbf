/* SPDX-License-Identifier: MIT
 * Opens a socket that is connected to a server and does not block.
 *
 *     int fd = dial_host(host, port, dial_now() + 5000, err);     // -1: see err
 *
 * All addresses of a name are tried in the order that the resolver gives, IPv6 ones too. Each gets
 * an equal share of the time that is left, so one that never answers leaves time for the next. The
 * resolver's own time (resolv.conf) is not bounded. A signal (sig.h) ends waiting.
 */
#ifndef REDIS_DIAL_H
#define REDIS_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The monotonic clock, in milliseconds. */
uint64_t dial_now(void);

/* Waits until fd is ready for the events of poll, or until that time. False: it is not, or a signal
 * came. */
bool dial_wait(int fd, short events, uint64_t until);

int dial_host(const char *host, unsigned port, uint64_t until, struct err *err);
int dial_socket(const char *path, uint64_t until, struct err *err);

#endif
