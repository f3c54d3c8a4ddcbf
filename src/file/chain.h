/* SPDX-License-Identifier: MIT
 * Layer lists of growing filters and rings: decides which layer comes next. This module works on
 * headers only; advance.h changes the file. New keys always go into the newest layer.
 *
 * A growing filter (POLICY_GROW) gets another layer when the newest is full. The new layer has room
 * for 0.6 times the keys for which the others were made, and an eighth of the FPR for which they
 * were not made. So the sum of the layers' rates, above that of all layers together, never passes
 * the promised FPR, however many there are. Rates and sizes follow from counts alone, never from
 * bits: keys that are chosen to collide raise the FPR, and change nothing else. A key is inserted
 * only if no layer has it. A chain of another program's links is one too, but only that program
 * adds a link: the newest takes exactly n_design keys (kind->check_add).
 *
 * A ring (POLICY_RING) has a fixed number of layers of equal size, its generations. A rotation
 * empties the oldest and makes it the newest. A key is inserted unless the newest layer has it, so
 * keys that recur stay. A rotation has three steps, each on disk before the next begins: the layer
 * is marked void, it is zeroed, it is marked as the newest. The next writer finishes an interrupted
 * rotation.
 *
 * A ring with a period P rotates by time. Its newest generation takes keys for P seconds from its
 * `since`; the next writer then begins another one. Of n layers, each is over n P seconds after its
 * `since`, whether or not somebody has rotated since then: each key counts for more than (n - 1) P
 * seconds, and for n P at most. So begins are at least P apart, and the oldest generation is over
 * when one begins. A clock that is far from the newest `since` is not believed (chain_doubts): the
 * ring stays as it was then. A writer dates it anew, unless the clock is behind by less than a year
 * and may come back: the time until then would seem to have passed (chain_is_lost).
 */
#ifndef FILE_CHAIN_H
#define FILE_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "file/layers.h"

enum {
    CHAIN_FIRST = 1 << 20, /* capacity of a growing filter's first layer if nothing is known */
    CHAIN_GENERATIONS = FORMAT_MAX_LAYERS - 1,
    CHAIN_PERIODS = 10,            /* of the time that a ring keeps keys */
    CHAIN_DOUBT = 365 * 24 * 3600, /* seconds: a period that ended earlier is not believed */
};

/* The part of the promised FPR that a first layer takes which has room for the keys to come. */
extern const double chain_sized;

/* The number of keys for which a layer for n keys is sized, so that it never takes more than p: of
 * few pages, the FPR varies with the keys. */
uint64_t chain_room(const struct kind *kind, uint64_t n, double p);

/* The layer that takes keys. */
unsigned chain_newest(const struct header *h);

/* Set up the layers of a new header, and its policy, capacity and FPR. chain_start_growing: the
 * first layer, for n keys, of a growing filter that keeps FPR p; n is 0 if the number of keys is
 * unknown, for a layer of CHAIN_FIRST keys. `more`: further layers are expected, so that the first
 * leaves them a larger part of p, and can be folded. chain_start_ring: the layers of a ring that
 * remembers n keys for at least `generations` rotations. The newest layer's `since` is h->created.
 * The layers get no file offsets yet (format_place). */
bool chain_start_growing(struct header *h, const struct kind *kind, uint64_t n, double p, bool more,
                         struct err *err);
bool chain_start_ring(struct header *h, const struct kind *kind, unsigned generations, uint64_t n,
                      double p, struct err *err);

/* ---- Rings with a period; `now` is what the clock says (format_now). */

/* Is the clock not believed: is it more than a period before the newest generation began, or more
 * than CHAIN_DOUBT after that one's period? Nor is any that no file knew yet (--reproducible). */
bool chain_doubts(const struct header *h, uint64_t now);

/* Is it so far off that a writer dates the ring anew? Not if it says nothing: 0. */
bool chain_is_lost(const struct header *h, uint64_t now);

/* The time by which generations are over: now, or that when the newest began. 0: there is none. */
uint64_t chain_time(const struct header *h, uint64_t now);

/* Has the newest generation's period ended? */
bool chain_is_due(const struct header *h, uint64_t now);

/* Sets when the newest generation began, not 0; the others keep their distances to it, as far as
 * they began after 1970. */
void chain_date(struct header *h, uint64_t since);

/* The seconds that a key is kept at least, and the time when all keys of layer i are over; the most
 * that there is, if a forged header says more. */
uint64_t chain_age(const struct header *h);
uint64_t chain_ends(const struct header *h, unsigned i);

/* For how many rotations a filter remembers a key; 0: it is no ring. */
unsigned chain_generations(const struct header *h);

/* Does the newest layer take exactly n_design keys (kind.h)? Not in a merged filter, where the
 * number of keys in a layer is unknown. */
bool chain_is_exact(const struct header *h);

/* The number of keys that change a bit of layer i until it has n_design distinct ones; the others
 * it falsely reports, or a few more. At least 1. */
uint64_t chain_takes(const struct header *h, unsigned i);

/* About the number of keys that the newest layer and all that can follow it still take: 0 if no
 * layer can be added and the newest is full. */
double chain_left(const struct header *h, const struct counters *counters);

/* The number of keys that changed a bit of layer i. */
uint64_t chain_keys_in(const struct header *h, const struct counters *counters, unsigned i);

/* The same of the oldest layer. */
uint64_t chain_oldest_keys(const struct header *h, const struct counters *counters);

/* The number of distinct keys that layer i was given, by the counters. */
double chain_distinct(const struct header *h, const struct counters *counters, unsigned i);

/* What the counters tell of the layers that are there: the number of distinct keys given, and how
 * many of them were falsely reported present. */
void chain_given(const struct header *h, const struct counters *counters, double *n,
                 double *dropped);

/* The FPR of the whole filter that the counters tell, without a look at the bits. */
double chain_counted_fpr(const struct header *h, const struct counters *counters);

/* Call it if a crash may have left the counters behind the bits: raises keys_added to what the bits
 * of the newest layer show, all of which are read. */
void chain_recount(struct layers layers, unsigned threads, struct counters *counters);

/* A copy of the header with the counters and with the newest layer closed: fpr_closed comes from
 * its bits, all of which are read. The first step of every change of layers. */
struct header chain_close(struct layers layers, struct counters *counters, unsigned threads);

/* Adds the next layer, with its file offsets, to a header whose newest layer is closed. `name` is
 * the filter's name in messages. */
bool chain_grow(struct header *h, const char *name, struct err *err);

/* The steps of a rotation; the caller does the second step, emptying the layer. chain_void marks
 * the oldest layer void. chain_find_void returns the void layer, or -1. chain_renew marks it,
 * emptied, as the newest. */
void chain_void(struct header *h);
int chain_find_void(const struct header *h);
void chain_renew(struct header *h, unsigned layer);

#endif
