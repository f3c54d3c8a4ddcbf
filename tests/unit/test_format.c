/* SPDX-License-Identifier: MIT */
/* tags: portable foreign */
#include "file/format.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "check.h"
#include "foreign/encode.h"
#include "keys/xxh3.h"
#include "kind/bloom/bloom.h"
#include "kind/counted/counted.h"
#include "kind/ribbon/ribbon.h"
#include "random.h"

/* Offsets as man/seen.5 gives them, on purpose not taken from the module. */
enum {
    VERSION = 8,
    SLOT_LEN = 12,
    COMPAT = 16,
    RO_COMPAT = 20,
    INCOMPAT = 24,
    N_LAYERS = 28,
    EPOCH = 32,
    STATE = 40,
    HASH = 44,
    SEED = 48,
    ID = 56,
    PREP = 72,
    ZERO_4 = 76,
    N_DESIGN = 80,
    FPR_DESIGN = 88,
    FILE_LEN = 96,
    CREATED = 104,
    CHANGED = 112,
    RECORDS = 120,
    KEYS_ADDED = 128,
    MADE = 136,
    PERIOD = 144,
    POLICY = 152,
    UNUSED = 156,
    SECRET_ID = 160,
    READING = 192,
    LAYER = 256,
    LAYER_LEN = 88,
    FEATURES = 3952,
    PROFILE = 4024,
    CHECKSUM = 4088,
};

static struct header sample(unsigned n_layers)
{
    struct header h = {.epoch = 0x0102030405060708,
                       .state = STATE_WRITING,
                       .hash = hash_usual(),
                       .seed = 0x1112131415161718,
                       .prep = PREP_TRIM | PREP_HEX | ENCODE_JSON << PREP_ENCODING_SHIFT,
                       .n_design = 1000,
                       .fpr_design = 0.25,
                       .created = 1700000000,
                       .changed = 1700000001,
                       .counters = {900, 800},
                       .made = 700,
                       .n_layers = n_layers};
    for (int i = 0; i < 16; i++)
        h.id[i] = (uint8_t)(0xa0 + i);
    for (unsigned i = 0; i < n_layers; i++) {
        h.layers[i] = (struct layer){.n_design = 1000, .fpr_design = 0.25};
        bloom_to(&(struct bloom){.pages = 3 + i, .k = 4, .lines = 2}, &h.layers[i]);
    }
    format_place(&h);
    return h;
}

/* Makes the checksum right again: what follows is not an accident but somebody's intent. */
static void seal(uint8_t *slot)
{
    put_le64(slot + CHECKSUM, xxh3_bytes(slot, CHECKSUM, 0));
}

/* Decodes a sample after `change` (a field's new value of `len` bytes at `off`); NULL if accepted.
 */
static const char *reason(unsigned off, size_t len, uint64_t value)
{
    static struct err err;
    static uint8_t slot[FORMAT_MAX_HEADER];
    uint8_t bytes[8];
    struct header h = sample(2);
    format_encode(&h, slot);
    put_le64(bytes, value);
    memcpy(slot + off, bytes, len);
    seal(slot);
    return format_decode(slot, sizeof slot, &h, &err) ? NULL : err.text;
}

#define REFUSES(off, len, value, want)                                                             \
    do {                                                                                           \
        const char *why = reason((off), (len), (value));                                           \
        CHECK_STR(why != NULL ? why : "(accepted)", (want));                                       \
    } while (0)

static bool same_layer(const struct layer *a, const struct layer *b)
{
    return a->kind == b->kind && a->n_design == b->n_design && a->fpr_design == b->fpr_design &&
           a->data_off == b->data_off && a->data_len == b->data_len && a->sums_off == b->sums_off &&
           a->touched_off == b->touched_off &&
           memcmp(a->geometry, b->geometry, sizeof a->geometry) == 0;
}

TEST(what_is_encoded_is_decoded)
{
    for (unsigned layers = 1; layers <= FORMAT_MAX_LAYERS; layers++) {
        uint8_t slot[FORMAT_MAX_HEADER];
        struct err err;
        struct header h = sample(layers), got;
        h.compat = 1u << 31;
        h.ro_compat = 1u << 30;
        memset(h.features, 0xee, sizeof h.features);
        CHECK(format_encode(&h, slot) == FORMAT_PAGE);
        CHECK(format_decode(slot, sizeof slot, &got, &err));
        CHECK(got.compat == h.compat && got.ro_compat == h.ro_compat && got.incompat == 0);
        CHECK(got.epoch == h.epoch && got.state == h.state && got.hash == h.hash);
        CHECK(memcmp(got.id, h.id, sizeof h.id) == 0);
        CHECK(got.seed == h.seed && got.prep == h.prep);
        CHECK(got.n_design == h.n_design && got.fpr_design == h.fpr_design);
        CHECK(got.file_len == h.file_len && got.created == h.created && got.changed == h.changed);
        CHECK(got.counters.records == 900);
        CHECK(got.counters.keys_added == 800 && got.made == 700);
        CHECK(memcmp(got.features, h.features, sizeof h.features) == 0);
        CHECK(got.n_layers == layers);
        for (unsigned i = 0; i < layers; i++)
            CHECK(same_layer(&got.layers[i], &h.layers[i]));
    }
}

TEST(bytes_are_where_the_manual_says)
{
    static const uint8_t magic[] = {0x89, 's', 'e', 'e', 'n', '\r', '\n', 0x1a};
    uint8_t slot[FORMAT_MAX_HEADER];
    struct header h = sample(2);
    format_encode(&h, slot);
    CHECK(memcmp(slot, magic, 8) == 0);
    CHECK(get_le32(slot + VERSION) == 1 && get_le32(slot + SLOT_LEN) == 4096);
    CHECK(get_le32(slot + N_LAYERS) == 2 && get_le64(slot + EPOCH) == h.epoch);
    CHECK(slot[EPOCH] == 8 && slot[EPOCH + 7] == 1);
    CHECK(get_le32(slot + STATE) == 1 && get_le32(slot + HASH) == 1);
    CHECK(get_le64(slot + SEED) == h.seed && slot[ID] == 0xa0 && slot[ID + 15] == 0xaf);
    CHECK(get_le32(slot + PREP) == 0x705);
    CHECK(get_le64(slot + N_DESIGN) == 1000);
    CHECK(get_le64(slot + FPR_DESIGN) == 0x3fd0000000000000);
    /* 3 pages of header, then for each layer a page of sums, one of touched bits and its data. */
    CHECK(get_le64(slot + FILE_LEN) == (3 + (2 + 3) + (2 + 4)) * 4096);
    CHECK(get_le64(slot + CREATED) == 1700000000 && get_le64(slot + CHANGED) == 1700000001);
    CHECK(get_le64(slot + RECORDS) == 900 && get_le64(slot + KEYS_ADDED) == 800);
    CHECK(get_le64(slot + MADE) == 700);
    const uint8_t *layer = slot + LAYER + LAYER_LEN;
    CHECK(get_le32(layer) == kind_bloom.id);
    CHECK(get_le64(layer + 8) == 1000 && get_double(layer + 16) == 0.25);
    CHECK(get_le64(layer + 24) == 4 * 4096 && get_le64(layer + 32) == 4);
    CHECK(h.layers[1].sums_off == 8 * 4096 && h.layers[1].touched_off == 9 * 4096);
    CHECK(h.layers[1].data_off == 10 * 4096);
    CHECK(get_le64(slot + CHECKSUM) == xxh3_bytes(slot, CHECKSUM, 0));
}

TEST(every_flipped_bit_is_found)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    struct header h = sample(3), got;
    struct err err;
    format_encode(&h, slot);
    unsigned accepted = 0, called_whole = 0;
    for (unsigned bit = 0; bit < 8 * sizeof slot; bit++) {
        slot[bit / 8] ^= (uint8_t)(1u << bit % 8);
        accepted += format_decode(slot, sizeof slot, &got, &err);
        called_whole += got.epoch != 0;
        slot[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK(accepted == 0);
    CHECK(called_whole == 0);
    CHECK(format_decode(slot, sizeof slot, &got, &err));
}

TEST(every_truncation_is_found)
{
    struct header h = sample(1), got;
    struct err err;
    uint8_t whole[FORMAT_MAX_HEADER];
    format_encode(&h, whole);
    unsigned accepted = 0;
    for (size_t len = 0; len < sizeof whole; len++) {
        /* An allocation of that very size: sanitizers see what is read behind it. */
        uint8_t *part = malloc(len > 0 ? len : 1);
        memcpy(part, whole, len);
        accepted += format_decode(part, len, &got, &err);
        CHECK_STR(err.text,
                  len < 8 ? "is not a seen filter" : "is truncated: it ends within its header");
        free(part);
    }
    CHECK(accepted == 0);
    CHECK(format_is_filter(whole, 8) && !format_is_filter(whole, 7));
    whole[7] ^= 1;
    CHECK(!format_is_filter(whole, 8));
}

TEST(newer_files_are_refused_by_name)
{
    REFUSES(VERSION, 4, 2, "was written by a newer version of seen (format 2)");
    REFUSES(VERSION, 4, 0xffffffff, "was written by a newer version of seen (format 4294967295)");
    REFUSES(INCOMPAT, 4, 16, "was written by a newer version of seen (incompatible feature 4)");
    REFUSES(INCOMPAT, 4, 1u << 31,
            "was written by a newer version of seen (incompatible feature 31)");
    REFUSES(HASH, 4, 99, "was written by a newer version of seen (hash function 99)");
    REFUSES(PREP, 4, 16, "was written by a newer version of seen (key preparation 4)");
    REFUSES(PREP, 4, 0x2 | 0x8, "is damaged: its header has no valid key preparation");
    REFUSES(PREP, 4, 0x1000000, "was written by a newer version of seen (key preparation 24)");
    REFUSES(PREP, 4, 0x40003, "(accepted)");
    REFUSES(PREP, 4, 0x50000, "was written by a newer version of seen (key digest 5)");
    REFUSES(PREP, 4, 0xff0003, "was written by a newer version of seen (key digest 255)");
    REFUSES(PREP, 4, 0x10004, "is damaged: its header has no valid key preparation");
    REFUSES(PREP, 4, 0x10100, "is damaged: its header has no valid key preparation");
    REFUSES(PREP, 4, 0x200, "(accepted)");
    REFUSES(PREP, 4, 0xc00, "was written by a newer version of seen (key encoding 12)");
    REFUSES(PREP, 4, 0xff07, "was written by a newer version of seen (key encoding 255)");
    REFUSES(LAYER, 4, 77, "was written by a newer version of seen (layer kind 77)");
    CHECK(reason(COMPAT, 4, 0xffffffff) == NULL);
    CHECK(reason(RO_COMPAT, 4, 0xffffffff) == NULL);
}

TEST(a_secret_needs_its_hash_function)
{
    REFUSES(INCOMPAT, 4, 4, "is damaged: it has a secret, and a hash function without one");
    REFUSES(HASH, 4, 10, "is damaged: its hash function needs a secret, and it has none");
    uint8_t slot[FORMAT_MAX_HEADER];
    struct header h = sample(1), got;
    struct err err;
    h.hash = hash_keyed();
    h.incompat |= INCOMPAT_SECRET;
    memset(h.secret.id, 0xab, sizeof h.secret.id);
    h.secret.proof[15] = 1;
    format_encode(&h, slot);
    MUST(format_decode(slot, sizeof slot, &got, &err));
    CHECK(format_has_secret(&got) && got.hash == hash_keyed());
    CHECK(memcmp(&got.secret, &h.secret, sizeof h.secret) == 0);
    /* No layout of another program has one. */
    h.layers[0].kind = kind_by_id(21);
    format_encode(&h, slot);
    CHECK(!format_decode(slot, sizeof slot, &got, &err));
    CHECK_STR(err.text, "is damaged: layer 0 is of a kind that its hash function does not fit");
}

TEST(a_refused_slot_that_is_whole_has_its_epoch)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    struct header h = sample(1), got;
    struct err err;
    format_encode(&h, slot);
    put_le32(slot + INCOMPAT, 1u << 9);
    seal(slot);
    CHECK(!format_decode(slot, sizeof slot, &got, &err));
    CHECK(got.epoch == h.epoch);
    slot[SEED] ^= 1;
    CHECK(!format_decode(slot, sizeof slot, &got, &err));
    CHECK(got.epoch == 0);
}

TEST(fields_out_of_range_are_refused)
{
    REFUSES(VERSION, 4, 0, "is damaged: its header has no valid format version");
    REFUSES(SLOT_LEN, 4, 4097, "is damaged: its header has no valid length");
    REFUSES(SLOT_LEN, 4, 263, "is damaged: its header has no valid length");
    REFUSES(N_LAYERS, 4, 0, "is damaged: its header has no valid number of layers");
    REFUSES(N_LAYERS, 4, 43, "is damaged: its header has no valid number of layers");
    REFUSES(EPOCH, 8, 0, "is damaged: its header has no valid epoch");
    REFUSES(EPOCH, 8, (uint64_t)1 << 63, "is damaged: its header has no valid epoch");
    REFUSES(STATE, 4, 3, "is damaged: its header has no valid state");
    REFUSES(FPR_DESIGN, 8, 0, "is damaged: its header has no valid false positive rate");
    REFUSES(FPR_DESIGN, 8, 0x3ff0000000000000, /* 1 */
            "is damaged: its header has no valid false positive rate");
    REFUSES(FPR_DESIGN, 8, 0x7ff8000000000000, /* NaN */
            "is damaged: its header has no valid false positive rate");
    REFUSES(ZERO_4, 4, 1, "is damaged: its header has bytes set that must be zero");
    REFUSES(PERIOD, 8, 1, "is damaged: its header has bytes set that must be zero");
    /* Guava's layers need two lanes, and XXH3 has one. */
    REFUSES(LAYER + LAYER_LEN, 4, 16,
            "is damaged: layer 1 is of a kind that its hash function does not fit");
    REFUSES(LAYER + 16, 8, 0, "is damaged: layer 0 has no valid false positive rate");
    REFUSES(LAYER + 16, 8, 0x3ff0000000000000, /* 1 */
            "is damaged: layer 0 has no valid false positive rate");
    static const uint64_t not_closed[] = {0x3ff0000000000001, 0x8000000000000001,
                                          0x7ff8000000000000};
    for (size_t i = 0; i < sizeof not_closed / sizeof *not_closed; i++) /* above 1, below 0, NaN */
        REFUSES(LAYER + 80, 8, not_closed[i], "is damaged: layer 0 has no valid history");
    REFUSES(INCOMPAT, 4, 1, "is damaged: its header has the wrong length");
    REFUSES(POLICY, 4, 3, "is damaged: its header has no valid policy");
    REFUSES(UNUSED, 4, 2, "is damaged: its header has bytes set that must be zero");
    REFUSES(POLICY, 4, 1, "is damaged: layers 0 and 1 are of the same generation");
}

TEST(zeroes_must_be_zero)
{
    for (unsigned off = SECRET_ID; off < READING; off++)
        REFUSES(off, 1, 1, "is damaged: its header has bytes set that must be zero");
    for (unsigned off = READING + 1; off < LAYER; off++)
        REFUSES(off, 1, 1, "is damaged: its header has no valid account of how keys were read");
    for (unsigned off = LAYER + 2 * LAYER_LEN; off < CHECKSUM; off++)
        REFUSES(off, 1, 0x80, "is damaged: its header has bytes set that must be zero");
    static const unsigned of_chains[] = {4, 5, 6, 7, 64, 65, 66, 67, 68, 69, 70, 71};
    for (size_t i = 0; i < sizeof of_chains / sizeof *of_chains; i++)
        REFUSES(LAYER + LAYER_LEN + of_chains[i], 1, 1,
                "is damaged: layer 1 has bytes set that must be zero");
}

/* Decodes a sample with these compat bits, and a byte set at `off`. */
static const char *reason_with(uint32_t compat, unsigned off)
{
    static struct err err;
    uint8_t slot[FORMAT_MAX_HEADER], again[FORMAT_MAX_HEADER];
    struct header h = sample(2), got;
    h.compat = compat;
    format_encode(&h, slot);
    slot[off] = 1;
    seal(slot);
    if (!format_decode(slot, sizeof slot, &got, &err))
        return err.text;
    format_encode(&got, again);
    return memcmp(slot, again, sizeof slot) == 0 ? "(kept)" : "(lost)";
}

TEST(unknown_compat_bits_may_have_bytes)
{
    static const char zeroes[] = "is damaged: its header has bytes set that must be zero";
    static const char profile[] = "is damaged: its header has no valid profile of its keys";
    for (unsigned bit = 0; bit < 32; bit++)
        for (unsigned off = LAYER + 2 * LAYER_LEN; off < CHECKSUM; off++) {
            bool has = bit > 16 && off >= FEATURES, looks = bit == 16 && off >= PROFILE;
            CHECK_STR(reason_with(1u << bit, off), has ? "(kept)" : looks ? profile : zeroes);
        }
    CHECK_STR(reason_with(3u << 16, FEATURES), "(kept)");
    CHECK_STR(reason_with(1u << 17, FEATURES - 1), zeroes);
}

/* An immutable header has no more bytes than its features need. */
TEST(compat_bits_lengthen_immutable_headers)
{
    static const struct {
        uint32_t compat;
        size_t more;
    } cases[] = {{0, 0}, {0xffff, 0}, {1u << 16, 64}, {1u << 17, 136}, {0xffffffff, 136}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t slot[FORMAT_MAX_HEADER];
        struct header h = sample(42), got;
        struct err err;
        h.state = STATE_CLEAN;
        h.compat = cases[i].compat;
        for (unsigned l = 0; l < h.n_layers; l++)
            h.layers[l].kind = kind_compact();
        memset(h.features + 136 - cases[i].more, 0xee, cases[i].more);
        h.profile = (struct profile){.n = 100, .shortest = 1, .longest = 2, .count[35] = 7};
        format_place(&h);
        size_t len = format_encode(&h, slot);
        CHECK(len == LAYER + 42 * LAYER_LEN + cases[i].more + 8);
        bool looks = (cases[i].compat >> 16 & 1) != 0;
        CHECK(slot[len - 9] == (cases[i].more != 0 && !looks ? 0xee : 0));
        /* The kind is the compact one, whose geometry is another. */
        CHECK(!format_decode(slot, len, &got, &err) && strstr(err.text, "layer 0: ") != NULL);
        CHECK(memcmp(got.features, h.features, 72) == 0);
        CHECK(looks == (got.profile.n == 100 && got.profile.count[35] == 7));
        h.compat ^= 1u << 16;
        if (format_len(&h) == len)
            continue;
        put_le32(slot + COMPAT, h.compat);
        put_le64(slot + len - 8, xxh3_bytes(slot, len - 8, 0));
        CHECK(!format_decode(slot, len, &got, &err));
        CHECK_STR(err.text, "is damaged: its header has the wrong length");
    }
}

TEST(layers_end_where_the_file_ends)
{
    static const uint64_t wrong[] = {0, INT64_MAX, (uint64_t)1 << 63, 0 - (uint64_t)4096,
                                     UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        REFUSES(LAYER + 24, 8, wrong[i], "is damaged: layer 0 has no valid length");
        REFUSES(LAYER + LAYER_LEN + 24, 8, wrong[i], "is damaged: layer 1 has no valid length");
    }
    REFUSES(LAYER + 24, 8, 9 * 4096, "is damaged: layer 1 ends behind the end of the file");
    REFUSES(LAYER + 24, 8, 13 * 4096, "is damaged: layer 0 ends behind the end of the file");
    REFUSES(LAYER + LAYER_LEN + 24, 8, 5 * 4096,
            "is damaged: layer 1 ends behind the end of the file");
    REFUSES(LAYER + LAYER_LEN + 24, 8, 3 * 4096,
            "is damaged: its layers do not end where its header says that the file ends");
    REFUSES(LAYER + 24, 8, 2 * 4096 + 1,
            "is damaged: layer 0: its page count does not fit its length");
    REFUSES(FILE_LEN, 8, 1 << 20,
            "is damaged: its layers do not end where its header says that the file ends");
    REFUSES(FILE_LEN, 8, 4096, "is damaged: layer 0 has no valid length");
    REFUSES(FILE_LEN, 8, UINT64_MAX, "is damaged: its header has no valid file length");
}

TEST(geometry_is_asked_of_the_kind)
{
    REFUSES(LAYER + 32, 8, 0, "is damaged: layer 0: its page count does not fit its length");
    REFUSES(LAYER + 32, 8, 2, "is damaged: layer 0: its page count does not fit its length");
    REFUSES(LAYER + 40, 8, 0, "is damaged: layer 0: its number of probes is out of range");
    REFUSES(LAYER + 40, 8, 23, "is damaged: layer 0: its number of probes is out of range");
    REFUSES(LAYER + 40, 8, 3, "is damaged: layer 0: its number of lines is out of range");
    REFUSES(LAYER + 48, 8, 0, "is damaged: layer 0: its number of lines is out of range");
    REFUSES(LAYER + 48, 8, 4, "is damaged: layer 0: its number of lines is out of range");
    REFUSES(LAYER + 56, 8, 1, "is damaged: layer 0: its geometry has an unknown field");
}

TEST(a_kind_that_changes_is_not_in_an_immutable_file)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    struct header h = sample(1), got;
    struct err err;
    const struct kind *kind = h.layers[0].kind;
    h.state = STATE_CLEAN;
    h.layers[0].kind = kind_compact();
    format_place(&h);
    CHECK(h.incompat == INCOMPAT_IMMUTABLE);
    h.layers[0].kind = kind;
    /* 256 + 88 + 8 bytes of header, 3 pages, 3 sums. */
    CHECK(h.file_len == 352 + 3 * 4096 + 12);
    CHECK(format_encode(&h, slot) == 352);
    CHECK(!format_decode(slot, sizeof slot, &got, &err));
    CHECK_STR(err.text, "is damaged: layer 0 is of a kind that cannot be in this file");
}

/* A header of a counted set with so many batches. */
static struct header with_batches(unsigned n)
{
    struct header h = sample(1);
    h.state = STATE_CLEAN;
    h.layers[0] = (struct layer){.kind = &kind_counted, .n_design = 1000, .fpr_design = 0.25};
    counted_to(&(struct counted){.bits = 20, .low = 17, .entries = 5, .total = 6}, &h.layers[0]);
    h.layers[0].data_len =
        counted_directory_len(&(struct counted){.bits = 20, .low = 17}) + COUNTED_SLACK + 9;
    h.n_batches = n;
    for (unsigned i = 0; i < n; i++)
        memset(h.batch[i], (int)i + 1, FORMAT_BATCH);
    format_place(&h);
    return h;
}

TEST(batches_are_behind_the_layer)
{
    static const unsigned numbers[] = {0, 1, 2, FORMAT_MAX_BATCHES};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint8_t slot[FORMAT_MAX_HEADER];
        struct err err;
        unsigned n = numbers[i];
        struct header h = with_batches(n), back;
        CHECK(format_encode(&h, slot) == LAYER + LAYER_LEN + 16 * n + 8);
        CHECK(format_decode(slot, format_len(&h), &back, &err));
        CHECK(get_le32(slot + INCOMPAT) == (n > 0 ? 3u : 1u));
        CHECK(back.n_batches == n);
        for (unsigned j = 0; j < n; j++) {
            CHECK(slot[LAYER + LAYER_LEN + 16 * j] == j + 1);
            CHECK(memcmp(back.batch[j], h.batch[j], FORMAT_BATCH) == 0);
        }
    }
}

/* Decodes a header with two batches after `change`, with this length of the slot. */
static const char *batches_reason(unsigned off, uint32_t value, uint32_t len)
{
    static struct err err;
    uint8_t slot[FORMAT_MAX_HEADER] = {0};
    struct header h = with_batches(2);
    format_encode(&h, slot);
    put_le32(slot + SLOT_LEN, len);
    put_le32(slot + off, value);
    put_le64(slot + len - 8, xxh3_bytes(slot, len - 8, 0));
    return format_decode(slot, sizeof slot, &h, &err) ? "(accepted)" : err.text;
}

TEST(batches_that_cannot_be_are_refused)
{
    const uint32_t len = LAYER + LAYER_LEN + 32 + 8;
    CHECK_STR(batches_reason(SLOT_LEN, len, len), "(accepted)");
    CHECK_STR(batches_reason(SLOT_LEN, len - 32, len - 32),
              "is damaged: its header has no valid number of batches");
    CHECK_STR(batches_reason(SLOT_LEN, len - 8, len - 8),
              "is damaged: its header has the wrong length");
    CHECK_STR(batches_reason(SLOT_LEN, LAYER + LAYER_LEN + 8 + 129 * 16,
                             LAYER + LAYER_LEN + 8 + 129 * 16),
              "is damaged: its header has no valid number of batches");
    CHECK_STR(batches_reason(INCOMPAT, INCOMPAT_IMMUTABLE, len),
              "is damaged: its header has the wrong length");
    CHECK_STR(batches_reason(N_LAYERS, 2, len),
              "is damaged: its header has no valid number of batches");
    struct header h = sample(1), back;
    struct err err;
    uint8_t slot[FORMAT_MAX_HEADER];
    h.state = STATE_CLEAN;
    h.layers[0].kind = kind_compact();
    h.n_batches = 1;
    format_place(&h);
    format_encode(&h, slot);
    CHECK(!format_decode(slot, format_len(&h), &back, &err));
    CHECK_STR(err.text, "is damaged: its header has batches, which its layers cannot have");
}

static const char *reason_of(const struct header *h)
{
    static struct err err;
    uint8_t slot[FORMAT_MAX_HEADER];
    struct header back;
    size_t len = format_encode(h, slot);
    return format_decode(slot, len, &back, &err) ? "(accepted)" : err.text;
}

TEST(a_file_goes_on_in_either_slot)
{
    static const unsigned its_own[] = {ID, ID + 15, SEED, PREP, CREATED};
    uint8_t start[2 * FORMAT_PAGE], *slot[] = {start + FORMAT_SLOT_A, start + FORMAT_SLOT_B};
    const struct header h = sample(1), compact = with_batches(1);
    for (int i = 0; i < 2; i++) {
        format_encode(&h, slot[0]);
        format_encode(&h, slot[1]);
        memset(slot[!i], 0, FORMAT_PAGE);
        CHECK(format_continues(start, &h));
        slot[i][EPOCH]++;
        CHECK(format_continues(start, &h));
        slot[i][EPOCH] -= 2;
        CHECK(!format_continues(start, &h));
        slot[i][EPOCH]++;
        for (size_t j = 0; j < sizeof its_own / sizeof *its_own; j++) {
            slot[i][its_own[j]] ^= 1;
            CHECK(!format_continues(start, &h));
            slot[i][its_own[j]] ^= 1;
        }
        CHECK(format_continues(start, &h));
    }
    size_t len = format_encode(&compact, start);
    CHECK(format_continues(start, &compact));
    for (size_t i = 0; i < len; i++) {
        start[i] ^= 1;
        CHECK(!format_continues(start, &compact));
        start[i] ^= 1;
    }
    struct header mixed = sample(2);
    CHECK_STR(format_kind_name(&mixed), "bloom");
    mixed.layers[1].kind = kind_compact();
    CHECK_STR(format_kind_name(&mixed), "mixed");
}

static const char *reason_of_geometry(const struct header *h, const uint64_t geometry[4])
{
    struct header forged = *h;
    memcpy(forged.layers[0].geometry, geometry, sizeof forged.layers[0].geometry);
    return reason_of(&forged);
}

struct geometry {
    uint64_t is[4];
    const char *why;
};

TEST(geometry_of_compact_layers_and_of_sets_is_checked)
{
    static const struct geometry compact[] = {
        {{0, 1, 1, 0}, "(accepted)"},
        {{7, 128, 32, 0}, "(accepted)"},
        {{RIBBON_MAX_BITS + 1, 1, 20, 0}, "its number of prefix bits is out of range"},
        {{0, 2, 20, 0}, "its directory does not fit its length"},
        {{8, 256, 20, 0}, "its directory does not fit its length"},
        {{0, 1, 0, 0}, "its number of columns is out of range"},
        {{0, 1, 33, 0}, "its number of columns is out of range"},
        {{0, 1, 32, 1}, "its number of columns is out of range"},
        {{0, 1, 20, (uint64_t)1 << 32}, "its number of columns is out of range"},
    };
    static const struct geometry counted[] = {
        {{20, 17, 5, 6}, "(accepted)"},
        {{0, 17, 5, 6}, "its number of fingerprint bits is out of range"},
        {{65, 17, 5, 6}, "its number of fingerprint bits is out of range"},
        {{20, 17, 5, 4}, "its number of keys is out of range"},
        {{20, 17, 0, 1}, "its number of keys is out of range"},
        {{2, 0, 5, 6}, "its number of keys is out of range"},
        {{20, 16, 5, 6}, "its number of buckets is not that for its keys"},
    };
    struct header h = sample(1), set = with_batches(0);
    h.state = STATE_CLEAN;
    h.layers[0].kind = kind_compact();
    h.layers[0].data_len = 128 * RIBBON_ENTRY + 8;
    format_place(&h);
    for (size_t i = 0; i < sizeof compact / sizeof *compact; i++) {
        const char *why = reason_of_geometry(&h, compact[i].is);
        CHECK_STR(why + (why[0] == '(' ? 0 : 21), compact[i].why);
    }
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        const char *why = reason_of_geometry(&set, counted[i].is);
        CHECK_STR(why + (why[0] == '(' ? 0 : 21), counted[i].why);
    }
    set.layers[0].data_len = COUNTED_SLACK + 7;
    format_place(&set);
    CHECK_STR(reason_of(&set), "is damaged: layer 0: its directory does not fit its length");
}

TEST(layers_fit_each_other)
{
    struct header ring = sample(1), sets = with_batches(0), mixed = sample(2);
    ring.policy = POLICY_RING;
    CHECK_STR(reason_of(&ring), "is damaged: its layers do not fit its policy");
    sets.n_layers = 2;
    sets.layers[1] = sets.layers[0];
    format_place(&sets);
    CHECK_STR(reason_of(&sets), "is damaged: layer 0 counts keys, but is not alone");
    sets.n_layers = 1;
    sets.state = STATE_WRITING;
    format_place(&sets);
    CHECK_STR(reason_of(&sets), "is damaged: its header has no valid state");
    sets.state = STATE_CLEAN;
    sets.policy = POLICY_GROW;
    CHECK_STR(reason_of(&sets), "is damaged: its header has no valid policy");
    /* Some layouts take one hash of a key, as under a secret, but not that one. */
    struct header keyed = sample(1);
    const struct kind *kind;
    keyed.hash = hash_keyed();
    keyed.incompat |= INCOMPAT_SECRET;
    CHECK_STR(reason_of(&keyed), "(accepted)");
    for (unsigned i = 0; (kind = kind_number(i)) != NULL; i++) {
        keyed.layers[0].kind = kind;
        if (kind_is_foreign(kind))
            CHECK_STR(reason_of(&keyed),
                      "is damaged: layer 0 is of a kind that its hash function does not fit");
    }
    mixed.layers[1] = sets.layers[0];
    format_place(&mixed);
    CHECK_STR(reason_of(&mixed), "is damaged: layer 1 counts keys, but is not alone");
}

TEST(tables_take_no_page_more_than_they_need)
{
    struct header h = sample(1);
    const struct layer *l = &h.layers[0];
    for (uint64_t more = 0; more < 2; more++) {
        uint64_t pages = 8 * FORMAT_PAGE + more;
        bloom_to(&(struct bloom){.pages = pages, .k = 4, .lines = 2}, &h.layers[0]);
        format_place(&h);
        CHECK(l->touched_off - l->sums_off == (32 + more) * FORMAT_PAGE);
        CHECK(l->data_off - l->touched_off == (1 + more) * FORMAT_PAGE);
        CHECK(h.file_len == l->data_off + pages * FORMAT_PAGE);
    }
}

/* Does the part [off, off + len) of the file lie behind `at`? */
static bool lies(uint64_t *at, uint64_t off, uint64_t len, uint64_t file_len)
{
    uint64_t begin = *at;
    return !__builtin_add_overflow(off, len, at) && off >= begin && *at <= file_len;
}

TEST(whatever_is_accepted_lies_inside_the_file)
{
    unsigned accepted = 0, outside = 0;
    for (int round = 0; round < 100000; round++) {
        static const unsigned fields[] = {FILE_LEN, LAYER + 24, LAYER + LAYER_LEN + 24, LAYER + 32,
                                          LAYER + LAYER_LEN + 32};
        uint8_t slot[FORMAT_MAX_HEADER];
        struct header h = sample(2), got;
        struct err err;
        format_encode(&h, slot);
        for (uint64_t changes = 1 + draw() % 3; changes > 0; changes--) {
            uint8_t *p = slot + fields[draw() % (sizeof fields / sizeof *fields)];
            uint64_t v = draw() % 32 << 12;
            put_le64(p, draw() % 4 ? get_le64(p) + v - (4 << 12) : v << draw() % 52);
        }
        seal(slot);
        if (!format_decode(slot, sizeof slot, &got, &err))
            continue;
        accepted++;
        uint64_t at = FORMAT_FIRST_LAYER;
        for (unsigned i = 0; i < got.n_layers; i++) {
            const struct layer *l = &got.layers[i];
            uint64_t pages = l->data_len / 4096 + (l->data_len % 4096 != 0);
            outside += !lies(&at, l->sums_off, pages * 4, got.file_len) ||
                       !lies(&at, l->touched_off, (pages + 7) / 8, got.file_len) ||
                       !lies(&at, l->data_off, l->data_len, got.file_len);
        }
    }
    printf("# %u accepted\n", accepted);
    CHECK(accepted > 100);
    CHECK(outside == 0);
}

TEST(page_sums_know_file_layer_and_page)
{
    uint8_t page[FORMAT_PAGE] = {1, 2, 3};
    struct header h = sample(2);
    uint64_t seed = format_layer_seed(&h, 0);
    uint32_t sum = layer_page_sum(seed, 5, page, sizeof page);
    CHECK(sum == (uint32_t)xxh3_bytes(page, sizeof page, seed + 5));
    CHECK(sum != layer_page_sum(seed, 6, page, sizeof page));
    CHECK(sum != layer_page_sum(format_layer_seed(&h, 1), 5, page, sizeof page));
    h.id[0] ^= 1;
    CHECK(sum != layer_page_sum(format_layer_seed(&h, 0), 5, page, sizeof page));
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(what_is_encoded_is_decoded);
    RUN(bytes_are_where_the_manual_says);
    RUN(every_flipped_bit_is_found);
    RUN(every_truncation_is_found);
    RUN(newer_files_are_refused_by_name);
    RUN(a_secret_needs_its_hash_function);
    RUN(a_refused_slot_that_is_whole_has_its_epoch);
    RUN(fields_out_of_range_are_refused);
    RUN(zeroes_must_be_zero);
    RUN(unknown_compat_bits_may_have_bytes);
    RUN(compat_bits_lengthen_immutable_headers);
    RUN(layers_end_where_the_file_ends);
    RUN(geometry_is_asked_of_the_kind);
    RUN(a_kind_that_changes_is_not_in_an_immutable_file);
    RUN(batches_are_behind_the_layer);
    RUN(batches_that_cannot_be_are_refused);
    RUN(a_file_goes_on_in_either_slot);
    RUN(geometry_of_compact_layers_and_of_sets_is_checked);
    RUN(layers_fit_each_other);
    RUN(tables_take_no_page_more_than_they_need);
    RUN(whatever_is_accepted_lies_inside_the_file);
    RUN(page_sums_know_file_layer_and_page);
    return check_done();
}
