/* SPDX-License-Identifier: MIT */
/* The counts of a block, in the code that counted.h describes. */
#include "kind/counted/parts.h"

static unsigned log2_of(uint64_t x)
{
    return 63 - (unsigned)__builtin_clzll(x);
}

/* Bits of the index of an entry: ceil(log2 n). */
static unsigned number_width(size_t n)
{
    return n > 1 ? log2_of(n - 1) + 1 : 0;
}

/* What is subtracted from a count before it is encoded. */
static uint64_t less_of(unsigned form)
{
    return form == COUNTED_ALL ? 1 : 2;
}

static uint64_t golomb_bits(const uint64_t *x, size_t n, unsigned order)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits += 2 * log2_of((x[i] >> order) + 1);
    return bits + n * (order + 1);
}

static unsigned best_order(const uint64_t *x, size_t n, uint64_t *bits)
{
    unsigned order = 0;
    *bits = golomb_bits(x, n, 0);
    for (; order < 63; order++) {
        uint64_t next = golomb_bits(x, n, order + 1);
        if (next >= *bits)
            break;
        *bits = next;
    }
    return order;
}

/* Sets the numbers x of the listed entries (counted.h). Returns how many are listed. */
static size_t list_of(const uint64_t *count, size_t n, unsigned form, uint64_t *x)
{
    size_t listed = 0;
    for (size_t i = 0; i < n; i++) {
        x[listed] = count[i] - less_of(form);
        listed += form == COUNTED_ALL || count[i] > 1;
    }
    return listed;
}

static void improve(struct counted_code *best, unsigned form, unsigned order, size_t listed,
                    uint64_t bits)
{
    if (bits < best->bits)
        *best = (struct counted_code){form, order, listed, bits};
}

struct counted_code counted_best_code(const uint64_t *count, size_t n)
{
    uint64_t any = 0, x[COUNTED_ENTRIES + 1], bits;
    for (size_t i = 0; i < n; i++)
        any |= count[i] - 1;
    if (any == 0)
        return (struct counted_code){0};
    size_t listed = list_of(count, n, COUNTED_BITMAP, x);
    uint64_t numbers = listed * number_width(n), bits_0 = golomb_bits(x, listed, 0);
    unsigned order = best_order(x, listed, &bits);
    struct counted_code best = {COUNTED_BITMAP, order, listed, 8 + n + bits};
    if (listed <= 255)
        improve(&best, COUNTED_LIST, order, listed, 8 + 8 + numbers + bits);
    list_of(count, n, COUNTED_ALL, x);
    order = best_order(x, n, &bits);
    improve(&best, COUNTED_ALL, order, n, 8 + bits);
    if (listed <= 63)
        improve(&best, COUNTED_SHORT, 0, listed, 8 + numbers + bits_0);
    return best;
}

void counted_put_counts(uint8_t *to, uint64_t bit, const struct counted_code *code,
                        const uint64_t *count, size_t n)
{
    struct counted_writer w = counted_writer_at(to, bit);
    unsigned order = code->order;
    uint64_t x[COUNTED_ENTRIES + 1];
    uint64_t head = code->form == COUNTED_SHORT ? code->listed : order;
    counted_write(&w, head | code->form << 6, 8);
    if (code->form == COUNTED_LIST)
        counted_write(&w, code->listed, 8);
    for (size_t i = 0; i < n; i++)
        if (code->form == COUNTED_BITMAP)
            counted_write(&w, count[i] > 1, 1);
        else if (code->form != COUNTED_ALL && count[i] > 1)
            counted_write(&w, i, number_width(n));
    size_t left = list_of(count, n, code->form, x);
    for (unsigned c = 0; left > 0; c++) {
        uint64_t less = counted_mask(c) << order;
        for (size_t i = 0; i < left; i++)
            counted_write(&w, log2_of((x[i] >> order) + 1) > c, 1);
        size_t stay = 0;
        for (size_t i = 0; i < left; i++)
            if (log2_of((x[i] >> order) + 1) > c)
                x[stay++] = x[i];
            else
                counted_write(&w, x[i] - less, c + order);
        left = stay;
    }
    counted_write_end(&w);
}

/* Reads the counts of a block, in bits [bit, end) of the data. */
struct reader {
    const struct counted_set *set;
    uint64_t bit, end;
    unsigned form, order;
    size_t listed;
};

static bool has_bits(const struct reader *r, uint64_t n)
{
    return r->bit <= r->end && n <= r->end - r->bit;
}

/* Reads the fields before the list. */
static bool begin_reading(struct reader *r, size_t n)
{
    if (!has_bits(r, 8))
        return false;
    uint64_t head = counted_bits(r->set, r->bit, 16);
    r->order = head & 63;
    r->form = head >> 6 & 3;
    r->bit += 8;
    if (r->form == COUNTED_BITMAP)
        return has_bits(r, n);
    if (r->form == COUNTED_ALL) {
        r->listed = n;
        return n > 0;
    }
    if (r->form == COUNTED_LIST) {
        r->bit += 8;
        r->listed = (size_t)(head >> 8);
    } else {
        r->listed = r->order;
        r->order = 0;
    }
    return r->listed > 0 && r->listed <= n && has_bits(r, r->listed * number_width(n));
}

/* Reads the indexes of the listed entries, and advances past them. */
static bool read_listed(struct reader *r, size_t n, uint16_t *number)
{
    if (r->form == COUNTED_ALL) {
        for (size_t i = 0; i < n; i++)
            number[i] = (uint16_t)i;
    } else if (r->form == COUNTED_BITMAP) {
        r->listed = 0;
        for (size_t i = 0; i < n; i += 64) {
            unsigned width = n - i < 64 ? (unsigned)(n - i) : 64;
            uint64_t word = counted_bits(r->set, r->bit + i, width);
            for (; word != 0; word &= word - 1)
                number[r->listed++] = (uint16_t)(i + (unsigned)__builtin_ctzll(word));
        }
        r->bit += n;
    } else {
        unsigned width = number_width(n);
        for (size_t i = 0; i < r->listed; i++, r->bit += width) {
            number[i] = (uint16_t)counted_bits(r->set, r->bit, width);
            if (number[i] >= n || (i > 0 && number[i] <= number[i - 1]))
                return false;
        }
    }
    return r->listed > 0;
}

/* The count of an entry that leaves the list in round c with the stored value m; 0 if it does not
 * fit 64 bits. */
static uint64_t count_from(const struct reader *r, uint64_t m, unsigned c)
{
    uint64_t less = counted_mask(c) << (r->order & 63), x = m + less, count = x + less_of(r->form);
    return x >= m && count > x ? count : 0;
}

uint64_t counted_get_counts(const struct counted_set *set, uint64_t bit, uint64_t end, size_t n,
                            uint64_t *count)
{
    struct reader r = {.set = set, .bit = bit, .end = end};
    uint16_t number[COUNTED_ENTRIES] = {0}, leave[COUNTED_ENTRIES] = {0};
    if (!begin_reading(&r, n) || !read_listed(&r, n, number))
        return 0;
    for (size_t i = 0; i < n; i++)
        count[i] = 1;
    for (unsigned c = 0; r.listed > 0; c++) {
        if (c > 63 || c + r.order > 64 || !has_bits(&r, r.listed))
            return 0;
        size_t stay = 0, left = 0;
        for (size_t i = 0; i < r.listed; i += 64) {
            uint64_t word = counted_bits(set, r.bit + i, 64);
            size_t stop = r.listed - i < 64 ? r.listed : i + 64;
            for (size_t k = i; k < stop; k++, word >>= 1) {
                uint16_t of = number[k];
                leave[left] = of;
                number[stay] = of;
                stay += word & 1;
                left += (word & 1) == 0;
            }
        }
        r.bit += r.listed;
        unsigned width = c + r.order;
        if (!has_bits(&r, left * width))
            return 0;
        for (size_t i = 0; i < left; i++, r.bit += width) {
            uint64_t got = count_from(&r, counted_bits(set, r.bit, width), c);
            if (got == 0)
                return 0;
            count[leave[i]] = got;
        }
        r.listed = stay;
    }
    return r.bit;
}

static size_t count_set_bits(const struct counted_set *set, uint64_t bit, size_t n)
{
    size_t ones = 0;
    for (; n > 0; bit += 64) {
        unsigned width = n < 64 ? (unsigned)n : 64;
        ones += (size_t)__builtin_popcountll(counted_bits(set, bit, width));
        n -= width;
    }
    return ones;
}

/* Changes *i from the index of an entry to its place in the list, and advances past the list's
 * indexes. False: the entry is not listed. */
static bool find_listed(struct reader *r, size_t n, size_t *i)
{
    if (r->form == COUNTED_ALL)
        return true;
    if (r->form == COUNTED_BITMAP) {
        bool listed = counted_bits(r->set, r->bit + *i, 1);
        r->listed = count_set_bits(r->set, r->bit, n);
        *i = count_set_bits(r->set, r->bit, *i);
        r->bit += n;
        return listed;
    }
    unsigned width = number_width(n);
    uint64_t first = r->bit;
    r->bit += r->listed * width;
    for (size_t place = 0; place < r->listed; place++)
        if (counted_bits(r->set, first + place * width, width) == *i) {
            *i = place;
            return true;
        }
    return false;
}

uint64_t counted_get_count(const struct counted_set *set, uint64_t bit, uint64_t end, size_t n,
                           size_t i)
{
    struct reader r = {.set = set, .bit = bit, .end = end};
    if (!begin_reading(&r, n))
        return 0;
    if (!find_listed(&r, n, &i))
        return 1;
    for (unsigned c = 0; c <= 63 && c + r.order <= 64 && has_bits(&r, r.listed); c++) {
        unsigned width = c + r.order;
        size_t stay = count_set_bits(set, r.bit, r.listed), before = count_set_bits(set, r.bit, i);
        uint64_t leaving = r.listed - stay, values = r.bit + r.listed;
        bool stays = counted_bits(set, r.bit + i, 1);
        r.bit = values;
        if (!has_bits(&r, leaving * width))
            return 0;
        if (!stays)
            return count_from(&r, counted_bits(set, values + (i - before) * width, width), c);
        r.bit += leaving * width;
        r.listed = stay;
        i = before;
    }
    return 0;
}
