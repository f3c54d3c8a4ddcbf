/* The filters of DCSO's bloom (github.com/DCSO/bloom, release 0.2.4). */
#ifndef KIND_CLASSIC_DCSO_H
#define KIND_CLASSIC_DCSO_H

#include "kind/kind.h"

extern const struct kind kind_dcso;

#endif
