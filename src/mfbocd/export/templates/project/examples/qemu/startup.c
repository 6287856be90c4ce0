/* Start of a Cortex-M3 or M4F on QEMU's mps2-an385 and mps2-an386 boards; newlib's semihosting does the rest. */
#include <stdint.h>

extern uint32_t mps2_stack_top;
extern void _start(void);

void mps2_reset(void)
{
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: switch the FPU on */
#endif
    _start();
}

static void stop(void)
{
    for (;;)
        ;
}

__attribute__((section(".vectors"), used)) static const struct {
    void *stack;
    void (*handler[3])(void);
} vectors = {&mps2_stack_top, {mps2_reset, stop, stop}};
