/* The exported detector behind plain functions: a shared library for the tests. */
#include "mfbocd.h"

static mfbocd_t d;

int precision(void) { return (int)sizeof(mfbocd_real); }
int state_bytes(void) { return (int)sizeof d; }
void start(void) { mfbocd_init(&d); }

/* Advance by n ticks with rows of one reading per fidelity. given[t] is the fidelity to read, or -2 for the chosen
 * one. Fills in the choices and, per tick: mean, run length, P(change), alarm, changed at, confidence. */
void run(int n, const double *x, const int *given, int *choice, double *out)
{
    int t;
    for (t = 0; t < n; t++, out += 6) {
        const int chosen = mfbocd_choose(&d), f = given[t] == -2 ? chosen : given[t];
        const mfbocd_step_t s = mfbocd_update(&d, (mfbocd_real)x[t * MFBOCD_FIDELITIES + (f < 0 ? 0 : f)], f);
        choice[t] = chosen;
        out[0] = (double)s.mean;
        out[1] = (double)s.run_length;
        out[2] = (double)s.p_change;
        out[3] = (double)s.alarm;
        out[4] = (double)s.changed_at;
        out[5] = (double)s.confidence;
    }
}

double spent(void) { return (double)mfbocd_spent(&d); }
double log_evidence(void) { return (double)d.log_evidence.value; }
double p_of_row(int i) { return i < d.rows ? (double)(d.row[i].weight / d.total) : -1.0; }

#if MFBOCD_POLICY != MFBOCD_ALWAYS
void gains(double *out)
{
    mfbocd_real gain[MFBOCD_FIDELITIES];
    int j;
    mfbocd_gains(&d, gain);
    for (j = 0; j < MFBOCD_FIDELITIES; j++)
        out[j] = (double)gain[j];
}
#endif

#if defined(MFBOCD_SAVE) && MFBOCD_SAVE
unsigned saved_bytes(void) { return (unsigned)MFBOCD_SAVED_BYTES; }
unsigned save(unsigned char *out, unsigned room) { return mfbocd_save(&d, out, room); }
int load(const unsigned char *data, unsigned size) { return mfbocd_load(&d, data, size); }
#endif
