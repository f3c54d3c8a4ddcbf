/* The size of the textbook's Bloom filter, whose probes may fall on any bit. */
#ifndef KIND_CLASSIC_SIZE_H
#define KIND_CLASSIC_SIZE_H

#include <stdint.h>

/* The bits m and the number of probes k for n keys at p. */
void classic_size(uint64_t n, double p, double *m, unsigned *k);

#endif
