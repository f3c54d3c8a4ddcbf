/* Queries and insertion. */
#include "base/ahead.h"
#include "base/bytes.h"
#include "kind/parquet/parquet.h"

static const uint32_t salt[PARQUET_WORDS] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                             0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};

/* Smaller filters stay in the cache, and fetching would only cost time. */
enum { CACHED = 1 << 18 };

/* Blocks are fetched this many keys ahead, as in Bloom layers (bloom/probe.h). */
enum { AHEAD = 32 };

static uint64_t block_of(uint64_t blocks, uint64_t hash)
{
    return (hash >> 32) * blocks >> 32;
}

static uint32_t bit_of_word(uint64_t hash, unsigned w)
{
    return (uint32_t)1 << ((uint32_t)hash * salt[w] >> 27);
}

static inline bool has_bits(const uint8_t *block, uint64_t hash)
{
    uint32_t missing = 0;
    for (unsigned w = 0; w < PARQUET_WORDS; w++)
        missing |= ~get_le32(block + 4 * w) & bit_of_word(hash, w);
    return missing == 0;
}

AHEAD_INLINE void fetch_blocks(uint64_t blocks, const uint8_t *data, const uint64_t *hash, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ahead_fetch(data + block_of(blocks, hash[i]) * PARQUET_BLOCK);
}

void parquet_prefetch(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n)
{
    fetch_blocks(parquet_blocks(layer), data, keys.lane0, n);
}

void parquet_query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                   uint64_t *present)
{
    uint64_t blocks = parquet_blocks(layer);
    size_t fetched = layer->data_len > CACHED ? n : 0;
    fetch_blocks(blocks, data, keys.lane0, fetched < AHEAD ? fetched : AHEAD);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < fetched)
            fetch_blocks(blocks, data, keys.lane0 + i + AHEAD, 1);
        const uint8_t *block = data + block_of(blocks, keys.lane0[i]) * PARQUET_BLOCK;
        present[i / 64] |= (uint64_t)has_bits(block, keys.lane0[i]) << i % 64;
    }
}

void parquet_add(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                 uint64_t *present)
{
    uint64_t blocks = parquet_blocks(layer);
    size_t fetched = layer->data_len > CACHED ? n : 0;
    fetch_blocks(blocks, data, keys.lane0, fetched < AHEAD ? fetched : AHEAD);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < fetched)
            fetch_blocks(blocks, data, keys.lane0 + i + AHEAD, 1);
        uint8_t *block = data + block_of(blocks, keys.lane0[i]) * PARQUET_BLOCK;
        uint32_t missing = 0;
        for (unsigned w = 0; w < PARQUET_WORDS; w++) {
            uint32_t word = get_le32(block + 4 * w), bit = bit_of_word(keys.lane0[i], w);
            missing |= ~word & bit;
            put_le32(block + 4 * w, word | bit);
        }
        present[i / 64] |= (uint64_t)(missing == 0) << i % 64;
    }
}

enum { BLOCKS_OF_PAGE = LAYER_PAGE / PARQUET_BLOCK };

void parquet_page(const struct layer *layer, struct hashes keys, size_t n, uint64_t *page)
{
    uint64_t blocks = parquet_blocks(layer);
    for (size_t i = 0; i < n; i++)
        page[i] = block_of(blocks, keys.lane0[i]) / BLOCKS_OF_PAGE;
}
