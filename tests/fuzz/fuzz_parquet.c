/* Any bytes as a Parquet filter; the first one says what the user says of it. */
#include "round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const specs[] = {"parquet", "parquet:header=no", "parquet:type=int64"};
    if (size < 1)
        return 0;
    unsigned how = data[0] % 3;
    struct written out = round_trip(specs[how], data + 1, size - 1);
    if (out.data != NULL && how == 1)
        MUST(out.len == size - 1 && memcmp(out.data, data + 1, size - 1) == 0);
    free(out.data);
    return 0;
}
