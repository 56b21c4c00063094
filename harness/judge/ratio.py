"""From raw block times to a speedup with its interval: pure functions, times in seconds.

The score of a block of N calls is (T(N) − c)/N, with c the constant of the null kernel in the same protocol; never a
difference of two block lengths, which a candidate can arrange. Candidate and opponent alternate in pairs of blocks;
an instance (one fresh process of each side) gives one number, the median log ratio of its pairs; the interval comes
from Student's t over instances, because every process carries a bias of its own that its blocks share.

A ratio is always time of the opponent ÷ time of the candidate: above 1 the candidate is faster.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from functools import lru_cache

from harness.spec.verdict import Estimate

CONFIDENCE = 0.95
NO_BOUND = 1e9  # an end of an interval that the data leave open (one instance); keeps records free of infinities
NOISY_HALF_WIDTH = 0.03
NOISY_SHARE = 0.1
AA_TOLERANCE = 0.02
LAUNCH_BOUND_S = 20e-6
LAUNCH_BOUND_NULLS = 5.0
_SMALLEST_BLOCK_S = 1e-9
_SINGLE_CALL_SHARE = 1 / 16


def calls_per_block(
    t_hat: float, c: float, *, min_seconds: float = 8e-3, low: int = 8, high: int = 100_000
) -> int:
    """N = clamp(⌈max(min_seconds, 50·c)/t_hat⌉, low, high): long against the null's constant c and its jitter.

    t_hat: estimated seconds per call of the slower side; not positive gives `high`.
    """
    wanted = max(min_seconds, 50 * c)
    if t_hat * high <= wanted:
        return high
    return max(low, math.ceil(wanted / t_hat))


def vary(n: int, rng: random.Random) -> int:
    """A block length around n: uniform on n/2 … 3n/2 (mean n), and in one of 16 draws a single call.

    Contestants cannot pad, batch or skip by a block length they cannot foresee, and the lengths' spread carries the
    fit of a + b·N. The result follows from rng alone.
    """
    if rng.random() < _SINGLE_CALL_SHARE:
        return 1
    reach = n // 2
    return max(1, rng.randint(n - reach, n + reach))


def per_call(seconds: float, calls: int, c: float) -> float:
    """(T(N) − c)/N in seconds; a block shorter than the null's constant counts as one nanosecond, so it has a log."""
    return max(seconds - c, _SMALLEST_BLOCK_S) / calls


def fit_line(ns: Sequence[int], ts: Sequence[float]) -> tuple[float, float]:
    """(a, b) of T(N) ≈ a + b·N, seconds: the weighted least absolute deviations, which outliers cannot move.

    A block's noise grows with its length on top of a constant share, so short blocks weigh more. Iteratively
    reweighted least squares (Schlossmacher 1973, J. Am. Stat. Assoc. 68, 857). With one distinct length there
    is no intercept to see: a = 0. Raises ValueError without blocks or with sequences of different lengths.
    """
    if len(ns) != len(ts) or not ns:
        raise ValueError(f"a line needs as many times as lengths and at least one: got {len(ns)} and {len(ts)}")
    if len(set(ns)) == 1:
        return 0.0, statistics.median(ts) / ns[0]
    middle = statistics.median(ts)
    noise = [0.05 * middle + t for t in ts]
    floor = 1e-9
    weights = [1 / s**2 for s in noise]
    a = b = 0.0
    for _ in range(100):
        total = math.fsum(weights)
        mean_n = math.fsum(w * n for w, n in zip(weights, ns)) / total
        mean_t = math.fsum(w * t for w, t in zip(weights, ts)) / total
        spread = math.fsum(w * (n - mean_n) ** 2 for w, n in zip(weights, ns))
        if spread == 0:
            break
        previous = (a, b)
        b = math.fsum(w * (n - mean_n) * (t - mean_t) for w, n, t in zip(weights, ns, ts)) / spread
        a = mean_t - b * mean_n
        if max(abs(a - previous[0]), abs(b - previous[1]) * mean_n) <= 1e-12 * middle:
            break
        weights = [1 / (s**2 * max(abs(t - a - b * n) / s, floor)) for s, n, t in zip(noise, ns, ts)]
    return a, b


def instance_log_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Median over pairs of ln(opponent/candidate); pairs: (opponent, candidate) seconds per call, both positive.

    Raises ValueError without pairs.
    """
    if not pairs:
        raise ValueError("an instance needs at least one pair of blocks")
    return statistics.median(math.log(opponent / candidate) for opponent, candidate in pairs)


def balanced(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Neighbouring pairs merged by their geometric mean: an AB with the BA that follows it.

    Whoever goes first finds caches and threads as the judge's fill has left them. That is worth up to a third of a short
    block, alternates in sign, and would leave the median of single pairs anywhere between the two. A last odd pair is
    dropped unless it is the only one.
    """
    merged = [
        (math.sqrt(a[0] * b[0]), math.sqrt(a[1] * b[1])) for a, b in zip(pairs[0::2], pairs[1::2])
    ]
    return merged or list(pairs)


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """(mean, low, high): Student's t interval for the mean; open (−inf, inf) with a single value.

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    mean = statistics.fmean(values)
    if len(values) == 1:
        return mean, -math.inf, math.inf
    half = t_quantile(len(values) - 1, confidence) * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


@lru_cache(maxsize=256)
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t: P(|t| ≤ result) = confidence, with `freedom` degrees of freedom."""
    from scipy.special import stdtrit  # a tenth of the import time of scipy.stats

    return float(stdtrit(freedom, 0.5 + confidence / 2))


def estimate(instance_log_ratios: Sequence[float]) -> Estimate:
    """The ratio and its 95 % interval from one log ratio per instance.

    One instance gives no interval: its ends are 0 and NO_BOUND. Raises ValueError without instances.
    """
    return _estimate(*t_interval(instance_log_ratios), n=len(instance_log_ratios))


def screen_estimate(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """The ratio of a single instance, with the spread of its own pairs as interval: for a screen, never a score.

    The interval is that of the median by order statistics (at least 95 %, whatever the distribution; the extremes
    where there are fewer than six pairs; open for one). It knows nothing of the process's own bias, hence n = 1.
    """
    logs = sorted(math.log(opponent / candidate) for opponent, candidate in pairs)
    middle = instance_log_ratio(pairs)
    count = len(logs)
    if count == 1:
        return _estimate(middle, -math.inf, math.inf, n=1)
    rank, tail = 0, 0.5**count  # tail: the probability that at most `rank` pairs lie below the true median
    while tail <= (1 - CONFIDENCE) / 2:
        rank += 1
        tail += math.comb(count, rank) * 0.5**count
    rank = max(rank, 1)
    return _estimate(middle, logs[rank - 1], logs[count - rank], n=1)


def derived(paired: Estimate, ratio: Estimate) -> Estimate:
    """The ratio over the opponent that was not paired: `paired` × (its time ÷ the paired opponent's time).

    The two are independent measurements: the half-widths of the logs add in quadrature, side by side.
    """
    value = math.log(paired.value) + math.log(ratio.value)
    below = math.hypot(_below(paired), _below(ratio))
    above = math.hypot(_above(paired), _above(ratio))
    return _estimate(value, value - below, value + above, n=min(paired.n, ratio.n), is_derived=True)


def scaled(e: Estimate, factor: float) -> Estimate:
    """`e` times a factor that is known exactly: 1 leaves it as it is."""
    if factor == 1.0:
        return e
    return e.model_copy(update={"value": e.value * factor, "low": e.low * factor, "high": e.high * factor})


def faster_of(vs_eager: Estimate | None, vs_compile: Estimate | None) -> Estimate | None:
    """The ratio over the faster opponent: least value, least lower and least upper end; None if both are."""
    known = [e for e in (vs_eager, vs_compile) if e is not None]
    if not known:
        return None
    least = min(known, key=lambda e: e.value)
    return Estimate(
        value=least.value,
        low=min(e.low for e in known),
        high=min(e.high for e in known),
        n=min(e.n for e in known),
        derived=least.derived,
    )


def geometric_mean(estimates: Sequence[Estimate]) -> Estimate:
    """The geometric mean over cases with a combined interval: the cases' logs averaged, √(Σh²)/k as its half-width.

    h are the half-widths of the k cases' t intervals, lower and upper ends apart. Each h already holds the t quantile
    of its own few instances, larger than that of a pooled estimate, so the result is on the wide side for independent
    cases. n is the smallest. Raises ValueError without estimates.
    """
    if not estimates:
        raise ValueError("a geometric mean needs at least one estimate")
    k = len(estimates)
    value = math.fsum(math.log(e.value) for e in estimates) / k
    below = math.hypot(*(_below(e) for e in estimates)) / k
    above = math.hypot(*(_above(e) for e in estimates)) / k
    n, is_derived = min(e.n for e in estimates), any(e.derived for e in estimates)
    return _estimate(value, value - below, value + above, n=n, is_derived=is_derived)


def half_width(e: Estimate) -> float:
    """Half the width of the interval in log terms: 0.03 is about ±3 %; inf where an end is open."""
    return math.inf if e.low <= 0 or e.high >= NO_BOUND else 0.5 * math.log(e.high / e.low)


def is_noisy(e: Estimate, aa: float | None = None, asked: float = NOISY_HALF_WIDTH) -> bool:
    """Whether no figure may be given: half-width above max(3 %, a tenth of |ln s|), or the A/A control off by over 2 %.

    asked: the half-width that was aimed at; whoever asks for less precision than 3 % gets a figure when it is reached.
    aa: the ratio that the session's control, a kernel against itself, came out at.
    """
    allowed = AA_TOLERANCE if asked <= NOISY_HALF_WIDTH else asked
    wide = half_width(e) > max(NOISY_HALF_WIDTH, asked, NOISY_SHARE * abs(math.log(e.value)))
    return wide or (aa is not None and abs(aa - 1) > allowed)


def is_launch_bound(t: float, c: float) -> bool:
    """Whether a call takes less than 5 null calls or 20 µs: then launching is measured, not computing.

    t: seconds per call. c: seconds of one null *call* (b of the null's a + b·N), not the constant of a block.
    """
    return t < max(LAUNCH_BOUND_NULLS * c, LAUNCH_BOUND_S)


def skip_detectable(checked: int, calls: int) -> float:
    """The share p of skipped calls that would have been found with 95 % probability: (1 − p)^checked = 0.05.

    1 when nothing was checked; one call's share when all were.
    """
    if checked <= 0:
        return 1.0
    if checked >= calls:
        return 1 / checked
    return 1 - (1 - CONFIDENCE) ** (1 / checked)


def _below(e: Estimate) -> float:
    return math.log(e.value / e.low) if e.low > 0 else math.inf


def _above(e: Estimate) -> float:
    return math.log(e.high / e.value) if e.high < NO_BOUND else math.inf


def _estimate(mean: float, low: float, high: float, *, n: int, is_derived: bool = False) -> Estimate:
    top = math.log(NO_BOUND)
    return Estimate(
        value=math.exp(max(-top, min(mean, top))),
        low=0.0 if low < -top else math.exp(low),
        high=NO_BOUND if high > top else math.exp(high),
        n=n,
        derived=is_derived,
    )
