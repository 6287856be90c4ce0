/* Random readings, fidelities and saved states. Aborts if a number is not finite or out of range; the sanitizers
 * find the rest. Arguments: seed, cases. */
#include <stdio.h>
#include <stdlib.h>

#include "mfbocd.h"

static uint64_t state;

static uint32_t random32(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33);
}

static mfbocd_real reading(void)
{
    static const double nasty[] = {0.0,  -0.0,  1.0,   2.0,       0.5,  1e30, -1e30,
                                   3e38, -3e38, 1e-40, 8388608.0, 1e15, 7.0,  100.0};
    switch (random32() % 8) {
    case 0:
        return (mfbocd_real)nasty[random32() % (sizeof nasty / sizeof *nasty)];
    case 1:
        return (mfbocd_real)NAN;
    case 2:
        return (mfbocd_real)(random32() % 2 ? INFINITY : -INFINITY);
    case 3:
        return (mfbocd_real)(random32() % 5);
    case 4:
        return (mfbocd_real)(random32() % 2);
    default:
        return (mfbocd_real)((double)random32() / 4e8 - 2.5);
    }
}

static void check(const mfbocd_t *d, const mfbocd_step_t *s)
{
    const int f = mfbocd_choose(d);
    if (f < 0 || f >= MFBOCD_FIDELITIES || d->rows < 1 || d->rows > MFBOCD_K || d->best >= d->rows ||
        !mfbocd_finite(s->mean) || !mfbocd_finite(d->total) || !(d->total > 0) || !(s->p_change >= 0) ||
        !(s->p_change <= 1) || !mfbocd_finite(d->log_evidence.value) || (s->alarm && s->changed_at > s->tick)) {
        fprintf(stderr, "tick %lu: choice %d, rows %d, mean %g, total %g, P(change) %g, log evidence %g\n",
                (unsigned long)s->tick, f, d->rows, (double)s->mean, (double)d->total, (double)s->p_change,
                (double)d->log_evidence.value);
        abort();
    }
}

/* Save, change some bytes, repair the checksum, load: accepted or not, the stream must go on. */
static void reload(mfbocd_t *d)
{
    static uint8_t bytes[MFBOCD_SAVED_BYTES];
    uint32_t size = mfbocd_save(d, bytes, sizeof bytes), prefix = sizeof(MFBOCD_PREFIX) + 4, i, crc = 0xFFFFFFFFu;
    int changes = (int)(random32() % 4);
    if (size == 0)
        abort();
    for (; changes > 0; changes--) {
        const uint32_t at = random32() % 4 ? prefix + random32() % (size - 4 - prefix) : random32() % size;
        bytes[at] = (uint8_t)(random32() % 3 ? random32() : bytes[at] ^ 1u << random32() % 8);
    }
    if (random32() % 8 == 0)
        size = random32() % (size + 1);
    for (i = 0; i + 4 < size; i++)
        crc = mfbocd_crc_byte(crc, bytes[i]);
    for (i = 0; size >= 4 && i < 4; i++)
        bytes[size - 4 + i] = (uint8_t)((crc ^ 0xFFFFFFFFu) >> (8 * i));
    mfbocd_load(d, bytes, size);
}

int main(int argc, char **argv)
{
    static mfbocd_t d;
    long i, cases = argc > 2 ? atol(argv[2]) : 1000;
    mfbocd_step_t s;
    state = (uint64_t)(argc > 1 ? atol(argv[1]) : 1);
    mfbocd_init(&d);
    for (i = 0; i < cases; i++) {
        if (random32() % 256 == 0)
            reload(&d);
        if (random32() % 4096 == 0)
            mfbocd_init(&d);
        s = mfbocd_update(&d, reading(), (int)(random32() % (MFBOCD_FIDELITIES + 4)) - 2);
        check(&d, &s);
    }
    printf("%ld cases\n", cases);
    return 0;
}
