/* Reads a CSV table from standard input and wakes only the chosen sensor: the columns are found by the names of the
 * fidelities in the header line. An empty cell is a missing reading. Prints one line per alarm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mfbocd.h"

static mfbocd_t detector;

/* The start of column `index` of a line, NULL if there are fewer. */
static const char *column(const char *line, int index)
{
    for (; line && index > 0; index--) {
        line = strchr(line, ',');
        line = line ? line + 1 : NULL;
    }
    return line;
}

/* The index of the column with this name, -1 if there is none. */
static int find(const char *header, const char *name)
{
    const size_t length = strlen(name);
    int index;
    for (index = 0; column(header, index); index++)
        if (!strncmp(column(header, index), name, length) && strchr(",\r\n", column(header, index)[length]))
            return index;
    return -1;
}

/* The number in a column, NAN if the cell is empty. */
static mfbocd_real cell(const char *line, int index)
{
    const char *start = column(line, index);
    char *end = NULL;
    const double value = start ? strtod(start, &end) : 0.0;
    return end == start ? (mfbocd_real)NAN : (mfbocd_real)value;
}

int main(void)
{
    char line[512];
    unsigned long reads[MFBOCD_FIDELITIES] = {0}, ticks = 0;
    int where[MFBOCD_FIDELITIES], f;
    mfbocd_init(&detector);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    for (f = 0; f < MFBOCD_FIDELITIES; f++) {
        where[f] = find(line, MFBOCD_NAME[f]);
        if (where[f] < 0 && MFBOCD_ZETA[f] > 0) {
            printf("the table has no column %s\n", MFBOCD_NAME[f]);
            return 1;
        }
    }
    while (fgets(line, sizeof line, stdin)) {
        mfbocd_step_t step;
        f = mfbocd_choose(&detector);
        step = mfbocd_update(&detector, cell(line, where[f]), f);
        reads[f]++;
        ticks++;
        if (step.alarm)
            printf("tick %lu: changed at %lu, P = %.3f\n", (unsigned long)step.tick, (unsigned long)step.changed_at,
                   (double)step.confidence);
    }
    printf("%lu ticks, spent %g; readings:", ticks, (double)mfbocd_spent(&detector));
    for (f = 0; f < MFBOCD_FIDELITIES; f++)
        printf(" %s %lu", MFBOCD_NAME[f], reads[f]);
    printf("\n");
    return 0;
}
