/* Little-endian bytes and doubles, assembled from integers: `double` may have 32 bits. Part of mfbocd. */
#ifndef MFBOCD_BYTES_H
#define MFBOCD_BYTES_H

#include "mfbocd_math.h"

typedef struct {
    uint8_t *out;      /* written to, if not NULL */
    const uint8_t *in; /* read from, or compared with */
    uint32_t at, size;
    uint32_t crc;
    uint8_t failed;
} mfbocd_bytes_t;

static inline mfbocd_bytes_t mfbocd_bytes(uint8_t *out, const uint8_t *in, uint32_t size)
{
    mfbocd_bytes_t b;
    b.out = out;
    b.in = in;
    b.at = 0;
    b.size = size;
    b.crc = 0xFFFFFFFFu;
    b.failed = 0;
    return b;
}

static inline uint32_t mfbocd_crc_byte(uint32_t crc, uint8_t byte)
{
    int k;
    crc ^= byte;
    for (k = 0; k < 8; k++)
        crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    return crc;
}

/* Write a byte, or compare it with the next one. */
static inline void mfbocd_put_byte(mfbocd_bytes_t *b, uint8_t byte)
{
    if (b->at >= b->size) {
        b->failed = 1;
        return;
    }
    if (b->out)
        b->out[b->at] = byte;
    else if (b->in[b->at] != byte)
        b->failed = 1;
    b->at++;
    b->crc = mfbocd_crc_byte(b->crc, byte);
}

static inline void mfbocd_put_u32(mfbocd_bytes_t *b, uint32_t value)
{
    int k;
    for (k = 0; k < 4; k++)
        mfbocd_put_byte(b, (uint8_t)(value >> (8 * k)));
}

static inline void mfbocd_put_bits(mfbocd_bytes_t *b, uint64_t bits)
{
    mfbocd_put_u32(b, (uint32_t)bits);
    mfbocd_put_u32(b, (uint32_t)(bits >> 32));
}

static inline uint64_t mfbocd_get_bits(mfbocd_bytes_t *b)
{
    uint64_t bits = 0;
    int k;
    if (b->size - b->at < 8) {
        b->failed = 1;
        return 0;
    }
    for (k = 0; k < 8; k++)
        bits |= (uint64_t)b->in[b->at + (uint32_t)k] << (8 * k);
    b->at += 8;
    return bits;
}

/* The bits of a whole number as a double; -1 is written as such. */
static inline uint64_t mfbocd_bits_of_whole(int64_t value)
{
    uint64_t mantissa = value < 0 ? (uint64_t)-value : (uint64_t)value;
    uint64_t exponent = 1075;
    if (value == 0)
        return 0;
    for (; mantissa < (UINT64_C(1) << 52); exponent--)
        mantissa <<= 1;
    for (; mantissa >= (UINT64_C(1) << 53); exponent++)
        mantissa >>= 1;
    return (value < 0 ? UINT64_C(1) << 63 : 0) | exponent << 52 | (mantissa & ((UINT64_C(1) << 52) - 1));
}

/* The whole number that a double holds, from -1 to 2^53; anything else fails. */
static inline int64_t mfbocd_get_whole(mfbocd_bytes_t *b)
{
    const uint64_t bits = mfbocd_get_bits(b);
    const int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
    const uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    if (bits << 1 == 0)
        return 0;
    if (bits == mfbocd_bits_of_whole(-1))
        return -1;
    if (bits >> 63 || exponent < 0 || exponent > 53 || (exponent < 52 && mantissa << (12 + exponent))) {
        b->failed = 1;
        return 0;
    }
    return exponent == 53 ? (int64_t)mantissa << 1 : (int64_t)(mantissa >> (52 - exponent));
}

#if MFBOCD_DOUBLE
static inline uint64_t mfbocd_bits_of(double value)
{
    union { double value; uint64_t bits; } both;
    both.value = value;
    return both.bits;
}

static inline mfbocd_real mfbocd_get_real(mfbocd_bytes_t *b, int shift)
{
    union { double value; uint64_t bits; } both;
    both.bits = mfbocd_get_bits(b);
    (void)shift;
    if (!mfbocd_finite(both.value))
        b->failed = 1;
    return b->failed ? 0 : both.value;
}
#else
static inline uint64_t mfbocd_bits_of(float value)
{
    union { float value; uint32_t bits; } both;
    uint64_t exponent;
    both.value = value;
    exponent = both.bits >> 23 & 0xFF;
    if (exponent == 0) /* zero, or too small to matter */
        return 0;
    return (uint64_t)(both.bits >> 31) << 63 | (exponent + 896) << 52 | (uint64_t)(both.bits & 0x7FFFFF) << 29;
}

/* A double as a float, divided by 2^shift: weights may be far outside the range of a float. */
static inline mfbocd_real mfbocd_get_real(mfbocd_bytes_t *b, int shift)
{
    union { float value; uint32_t bits; } both;
    const uint64_t bits = mfbocd_get_bits(b);
    const int exponent = (int)(bits >> 52 & 0x7FF) - 896 - shift;
    both.bits = (uint32_t)(bits >> 63) << 31;
    if ((bits >> 52 & 0x7FF) == 0x7FF || exponent >= 254)
        b->failed = 1;
    else if ((bits >> 52 & 0x7FF) != 0 && exponent > 0) /* the sum rounds to nearest, also into the exponent */
        both.bits |= ((uint32_t)exponent << 23 | (uint32_t)(bits >> 29 & 0x7FFFFF)) + (uint32_t)(bits >> 28 & 1);
    return b->failed ? 0 : both.value;
}
#endif

static inline void mfbocd_put_whole(mfbocd_bytes_t *b, int64_t value)
{
    mfbocd_put_bits(b, mfbocd_bits_of_whole(value));
}

static inline void mfbocd_put_real(mfbocd_bytes_t *b, mfbocd_real value) { mfbocd_put_bits(b, mfbocd_bits_of(value)); }

#endif
