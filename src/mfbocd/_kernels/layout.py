"""Where each number lives in the two flat arrays every kernel receives.

``state`` belongs to one stream and changes at every tick: a header, then one column of ``state[CAP]`` numbers
each for the weight, the start tick and every statistic of the hypotheses. Hypotheses stay in order of their start,
oldest first, so a new one is appended and nothing moves. Rows past the last have weight 0 and finite, meaningless
statistics. A second table of the same form, with its own header and KEPT rows, follows: hypotheses that pruning
dropped but alarms may still need (`dropped`). One flat array has half the call overhead of separate ones, and a fleet
is a matrix whose rows are states.

``setup`` never changes and is shared by the streams of a fleet: alarm, pruning, the model's parameters, hazard.
"""

from __future__ import annotations

# --- state -------------------------------------------------------------------------------------------------
COUNT = 0  # number of hypotheses
TICK = 1  # index of the last tick, -1 before the first
TOTAL = 2  # sum of the weight column: weights are kept unnormalized until the next tick
EVIDENCE = 3  # log p(x_1..x_t), without SLOPES
CAP = 4  # capacity of a column
LIMIT = 5  # prune once COUNT exceeds this
SEED = 6
MAP_INDEX = 7  # index of the heaviest hypothesis
FIRED = 8  # tick of the last alarm, -1 if none
MEAN = 9  # E[x_{t+1}]; MEAN .. CONFIDENCE is the report of a tick
RUN = 10  # MAP run length
P_CHANGE = 11  # P(change within the alarm's window)
ALARM = 12  # 1 at the tick an alarm fires
CHANGED_AT = 13  # tick of the last reported change, -1 if none
CONFIDENCE = 14  # probability of the change that the last alarm reported
COLUMNS = 15
RISE = 16  # odds of a jump up by AT_LEAST, 0 if the alarm has no smallest change
FALL = 17  # odds of a jump down
ARMED = 18  # 1 if the next alarm may fire, for an alarm with a smallest change
DROPPED = 19  # number of dropped hypotheses that are kept, all older than the first of the others
SLOPES = 20  # log of the slopes of the maps before the model (`models.mapped`), which belongs to log p(x_1..x_t)
HEAD = 24  # a multiple of 8 keeps the columns aligned
REPORT = slice(MEAN, CONFIDENCE + 1)
FIELDS = CONFIDENCE + 1 - MEAN

WEIGHT, BIRTH, STATS = 0, 1, 2  # columns; the model's statistics start at STATS
KEPT = 4  # most dropped hypotheses that are kept
# If the hazard is learned, the last columns hold P(candidate | hypothesis), one column per candidate.

# --- setup -------------------------------------------------------------------------------------------------
WITHIN = 0  # alarm window in ticks
THRESHOLD = 1  # alarm level; above 1 it never fires
EPS = 2  # drop hypotheses below this probability; 0 keeps all
MOST = 3  # largest number of hypotheses; 0 means unbounded
SLACK = 4  # ticks between prunings
RESAMPLE = 5  # 1: stratified optimal resampling, 0: keep the heaviest
PARAMS = 6  # number of model parameters at FIRST; the hazard table follows them
HAZARDS = 7  # its length
LEARNED = 8  # number of candidates if the hazard is learned (the table holds them and their prior), else 0
# Alarms with options (`alarm`); THRESHOLD is then above 1, and these decide.
LEVEL = 9  # their threshold; 0 for an alarm without options
DIRECTION = 10  # 1 up, -1 down, 0 both
AT_LEAST = 11  # smallest relevant change, in the model's units; 0 if not given
KNOWN = 12  # 1 if the level before a change is known
BEFORE = 13  # that level, in the model's units
ORIGIN = 14  # the model's units: (x - ORIGIN) / UNIT
UNIT = 15
FIRST = 16

LANES = 32  # stride of a vectorized, unrolled loop; columns are padded to it, since leftover rows are 5x slower
TINY = 1e-200  # smaller weights are set to 0: subnormals are slow and negligible

# --- gains ---------------------------------------------------------------------------------------------------
RUN_LENGTH, JOINT, VARIANCE, CHANGE = 0, 1, 2, 3  # kinds of gain
