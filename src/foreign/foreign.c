/* SPDX-License-Identifier: MIT */
#include "foreign/foreign.h"

#include <string.h>

#include "keys/prep.h"
#include "file/chain.h"

bool foreign_filter(const struct header *h, struct layout_filter *filter, struct err *err)
{
    if (h->hash->keyed)
        return fail(err, "has a secret, which other programs do not know");
    for (unsigned i = 0; i < h->n_layers; i++)
        if (!kind_is_foreign(h->layers[i].kind) || h->layers[i].kind != h->layers[0].kind)
            return fail(err, "does not have the layout of another program");
    if (h->n_layers > 1 && (!format_grows(h) || chain_newest(h) != h->n_layers - 1))
        return fail(err, "has several layers, which do not form a valid chain of its layout");
    *filter = (struct layout_filter){.hash = h->hash,
                                     .seed = h->seed,
                                     .encoding = prep_encoding(h->prep),
                                     .n_design = h->n_design,
                                     .fpr_design = h->fpr_design,
                                     .assumed = (h->compat & COMPAT_ASSUMED) != 0,
                                     .n_added = h->counters.keys_added,
                                     .n_layers = h->n_layers};
    memcpy(filter->layer, h->layers, h->n_layers * sizeof *h->layers);
    return true;
}
