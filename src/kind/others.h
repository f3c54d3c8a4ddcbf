/* Sizes of filter types that seen does not make, for comparison: bare tables, without checksums. */
#ifndef KIND_OTHERS_H
#define KIND_OTHERS_H

#include <stdbool.h>
#include <stdint.h>

/* A textbook Bloom filter, where a probe can hit any of m bits: sets m and the number of probes k
 * for n keys at FPR p. */
void others_bloom(uint64_t n, double p, double *m, unsigned *k);

/* A binary fuse filter of three segments: sets the number of slots and the bits per slot. (T. M.
 * Graf, D. Lemire, "Binary fuse filters: fast and smaller than xor filters", 2022, section 4; in
 * every implementation, fingerprints have 8, 16 or 32 bits.) False: p is too small for 32 bits. */
bool others_fuse(uint64_t n, double p, double *slots, unsigned *width);

#endif
