/* Runs the exported detector on generated readings and prints one character per tick: the choice, or '!' at an
 * alarm. The same program runs on the host, on emulated Cortex-M boards and on an emulated AVR. */
#include "mfbocd.h"

#define TICKS 240

#ifdef __AVR__
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>

static void print(char c)
{
    UCSR0B |= _BV(TXEN0);
    while (!(UCSR0A & _BV(UDRE0)))
        ;
    UDR0 = (uint8_t)c;
}

static void finish(void)
{
    cli();
    sleep_enable();
    sleep_cpu(); /* ends the simulation */
}
#else
#include <stdio.h>

static void print(char c) { putchar(c); }
static void finish(void) {}
#endif

static mfbocd_t detector;

int main(void)
{
    uint32_t noise = 1;
    int t, j, f;
    mfbocd_init(&detector);
    for (t = 0; t < TICKS; t++) {
        mfbocd_real x[MFBOCD_FIDELITIES];
        for (j = 0; j < MFBOCD_FIDELITIES; j++) {
            noise = noise * UINT32_C(1664525) + UINT32_C(1013904223);
            x[j] = (mfbocd_real)(noise >> 20) * MFBOCD_R(1.0 / 1024) - 2 + (t < TICKS / 2 ? 0 : 4);
        }
        f = mfbocd_choose(&detector);
        print(mfbocd_update(&detector, x[f], f).alarm ? '!' : (char)('0' + f));
    }
    print('\n');
    finish();
    return 0;
}
