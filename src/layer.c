#include "layer.h"

#include "bloom.h"
#include "ribbon.h"

static const struct kind *const kinds[] = {&kind_bloom, &kind_ribbon};

const struct kind *kind_by_id(uint32_t id)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->id == id)
            return kinds[i];
    return NULL;
}
