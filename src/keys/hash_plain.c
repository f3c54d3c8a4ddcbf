/* XXH3 for any CPU that the program is compiled for. */
#define HASH_VARIANT   hash_plain
#define HASH_NAME      "plain"
#define HASH_AVAILABLE NULL
#include "keys/hash_body.h"
