/* XXH3 for any CPU that the program is compiled for. */
#include <stdbool.h>

static bool always(void)
{
    return true;
}

#define HASH_VARIANT   hash_plain
#define HASH_NAME      "plain"
#define HASH_AVAILABLE always
#include "hash_body.h"
