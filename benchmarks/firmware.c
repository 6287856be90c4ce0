/* Instructions and stack of one exported detector on an emulated Cortex-M: `python -m benchmarks.firmware`.
 *
 * With -icount shift=0 QEMU's clock advances 1 ns per instruction, and the boards' SysTick counts at 25 MHz, so one
 * step of SysTick is 40 instructions; each number is the mean over many calls. With -DSIZE_ONLY the program is only
 * the detector's loop, for the size of its code. */
#include "mfbocd.h"

static mfbocd_t detector;

#ifdef SIZE_ONLY

volatile mfbocd_real sensor;
volatile int alarms;

void _start(void)
{
    mfbocd_init(&detector);
    for (;;) {
        const int f = mfbocd_choose(&detector);
        alarms += mfbocd_update(&detector, sensor, f).alarm;
    }
}

#else

#include <stdio.h>

#define CALLS 64
#define PER_STEP 40u
#define PAINTED 8192
#define SYSTICK ((volatile uint32_t *)0xE000E010) /* control, reload, current */

static uint32_t noise = 1;
static volatile int sink;

static mfbocd_real reading(void)
{
    noise = noise * 1664525u + 1013904223u;
#if MFBOCD_FAMILY == MFBOCD_BERNOULLI
    return (mfbocd_real)(noise >> 31);
#elif MFBOCD_FAMILY == MFBOCD_POISSON
    return (mfbocd_real)(noise >> 29);
#elif MFBOCD_MAPPED /* of a logarithm, so positive */
    return (mfbocd_real)(noise >> 8) * MFBOCD_R(1.0 / 4194304) + MFBOCD_R(0.5);
#else
    return (mfbocd_real)(noise >> 8) * MFBOCD_R(1.0 / 4194304) - 2;
#endif
}

__attribute__((noinline)) static void choose(void) { sink = mfbocd_choose(&detector); }
__attribute__((noinline)) static void update(void)
{
    sink = mfbocd_update(&detector, reading(), (int)(noise >> 16) % MFBOCD_FIDELITIES).alarm;
}
__attribute__((noinline)) static void nothing(void) { sink = 0; }

static uint32_t instructions(void (*call)(void))
{
    uint64_t steps = 0; /* of each call separately: the counter has 24 bits */
    int i;
    for (i = 0; i < CALLS; i++) {
        const uint32_t begin = SYSTICK[2];
        call();
        steps += (begin - SYSTICK[2]) & 0xFFFFFFu;
    }
    return (uint32_t)(steps * PER_STEP / CALLS);
}

/* Bytes of stack below the caller: fill them, call, and look for the deepest byte that changed. */
__attribute__((noinline)) static void paint(unsigned char *top)
{
    volatile unsigned char *p;
    for (p = top - PAINTED; p < top - 64; p++) /* 64: the frame of this function */
        *p = 0xA5;
}

__attribute__((noinline)) static unsigned stack_of(void (*call)(void))
{
    unsigned char here;
    unsigned char *volatile top = &here;
    unsigned used;
    paint(top);
    call();
    for (used = PAINTED; used > 64 && top[-(int)used] == 0xA5; used--)
        ;
    return used;
}

int main(void)
{
    int i;
    uint32_t base;
    SYSTICK[1] = 0xFFFFFFu;
    SYSTICK[2] = 0;
    SYSTICK[0] = 5;
    mfbocd_init(&detector);
    for (i = 0; i < 4 * MFBOCD_K; i++)
        update();
    base = instructions(nothing);
    printf("%u %u %u %u %u\n", (unsigned)(instructions(choose) - base), (unsigned)(instructions(update) - base),
           (unsigned)sizeof detector, stack_of(choose), stack_of(update));
    return 0;
}

#endif
