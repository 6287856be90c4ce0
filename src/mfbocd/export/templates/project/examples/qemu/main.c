/* Reads CSV rows from standard input, one column per fidelity in the order of the configuration, and wakes only the
 * chosen column. The header line is skipped; an empty cell is a missing reading. Prints one line per alarm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mfbocd.h"

static mfbocd_t detector;

/* The number in column `index`, NAN if the cell is empty. */
static mfbocd_real cell(const char *line, int index)
{
    char *end;
    double value;
    for (; index > 0; index--) {
        line = strchr(line, ',');
        if (!line)
            return (mfbocd_real)NAN;
        line++;
    }
    value = strtod(line, &end);
    return end == line ? (mfbocd_real)NAN : (mfbocd_real)value;
}

int main(void)
{
    char line[512];
    unsigned long reads[MFBOCD_FIDELITIES] = {0}, ticks = 0;
    int f;
    mfbocd_init(&detector);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        mfbocd_step_t step;
        f = mfbocd_choose(&detector);
        step = mfbocd_update(&detector, cell(line, f), f);
        reads[f]++;
        ticks++;
        if (step.alarm)
            printf("tick %lu: changed at %lu, P = %.3f\n", (unsigned long)step.tick, (unsigned long)step.changed_at,
                   (double)step.confidence);
    }
    printf("%lu ticks, spent %g; readings:", ticks, (double)mfbocd_spent(&detector));
    for (f = 0; f < MFBOCD_FIDELITIES; f++)
        printf(" %lu", reads[f]);
    printf("\n");
    return 0;
}
