/* SPDX-License-Identifier: MIT */
#include "keys/encoding.h"

const struct encoding *encoding_by_id(unsigned id)
{
    const struct encoding *e = encoding_list_foreign;
    while (e->id != ENCODE_NONE && e->id != id)
        e++;
    return e->id != ENCODE_NONE ? e : NULL;
}
