"""Print the polynomial coefficients in csrc/tbs/math.h and csrc/host/vectors.h: `python derive_polynomials.py` (needs
mpmath).

Weighted minimax fits by the Remez exchange algorithm (Remez 1934). Where a polynomial is evaluated in
float32, its coefficients are rounded one by one, lowest power first, and the rest is fitted again, so that a
later coefficient absorbs an earlier one's rounding error. Every fit is of relative error.
"""

import struct

import mpmath
from mpmath import mp, mpf

mp.dps = 40


def remez(target, weight, powers, low, high, rounds=12, grid=1500):
    """Coefficients c that minimise max |weight(t) (target(t) - sum c[p] t**p)| on [low, high]."""
    count = len(powers) + 1
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle - half * mpmath.cos(mpmath.pi * i / (count - 1)) for i in range(count)]
    points = [middle - half * mpmath.cos(mpmath.pi * (i + mpf(1) / 2) / grid) for i in range(grid)]
    targets, weights = [target(t) for t in points], [weight(t) for t in points]
    for _ in range(rounds):
        rows = [[t**p for p in powers] + [(-1) ** i / weight(t)] for i, t in enumerate(nodes)]
        coefficients = list(mpmath.lu_solve(mp.matrix(rows), mp.matrix([target(t) for t in nodes])))[:-1]
        errors = [
            w * (y - sum(c * t**p for c, p in zip(coefficients, powers, strict=True)))
            for t, y, w in zip(points, targets, weights, strict=True)
        ]
        peaks = []  # the largest error of each run of one sign
        for i, error in enumerate(errors):
            if peaks and (errors[peaks[-1]] > 0) == (error > 0):
                peaks[-1] = max(peaks[-1], i, key=lambda j: abs(errors[j]))
            else:
                peaks.append(i)
        while len(peaks) > count:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < count:
            break
        new_nodes = [points[i] for i in peaks]
        if new_nodes == nodes:
            break
        nodes = new_nodes
    return coefficients, max(abs(e) for e in errors)


def to_f32(value):
    return mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def fit(name, target, weight, powers, low, high, f32=False):
    low, high = mpf(low), mpf(high)
    fixed = {}
    coefficients, error = remez(target, weight, powers, low, high)
    while f32 and len(fixed) < len(powers):
        fixed[powers[len(fixed)]] = to_f32(coefficients[0])
        rest = powers[len(fixed) :]
        if not rest:
            coefficients = list(fixed.values())
            break

        def remainder(t):
            return target(t) - sum(c * t**p for p, c in fixed.items())

        coefficients, error = remez(remainder, weight, rest, low, high)
    print(f"{name} on [{float(low):.6g}, {float(high):.6g}], relative error 2^{float(mpmath.log(error, 2)):.1f}")
    for power, c in zip(powers, coefficients, strict=True):
        print(f"    t^{power:<2} {float(c).hex()}{'f' if f32 else ''}")


def parts(name, value, count, f32=False):
    """Split a constant into a sum of `count` floats of the working precision."""
    pieces = []
    for _ in range(count):
        piece = to_f32(value) if f32 else mpf(float(value))
        pieces.append(float(piece).hex())
        value -= piece
    print(name, *pieces)


def over_argument(function):
    """function(sqrt t) / sqrt t, continued to 1 at zero."""
    return lambda t: function(mpmath.sqrt(t)) / mpmath.sqrt(t) if t else mpf(1)


def ratio(function):
    """function(t) / t, continued to 1 at zero."""
    return lambda t: function(t) / t if t else mpf(1)


def minus_one(function):
    return lambda t: function(t) - 1


def inverse(function):
    return lambda t: 1 / function(t)


def main():
    sine, cosine = over_argument(mpmath.sin), lambda t: mpmath.cos(mpmath.sqrt(t))
    reach = mpf("0.82") ** 2  # beyond pi/4: the rounding of x 2/pi matters when x is large
    fit("sin, f32: sin(r)/r - 1, t = r^2", minus_one(sine), inverse(sine), [1, 2, 3], 0, reach, f32=True)
    fit(
        "cos, f32: cos(r) - 1 + t/2, t = r^2",
        lambda t: cosine(t) - 1 + t / 2,
        inverse(cosine),
        [2, 3, 4],
        0,
        reach,
        f32=True,
    )
    fit("sin, f64: sin(r)/r - 1, t = r^2", minus_one(sine), inverse(sine), [1, 2, 3, 4], 0, reach)
    fit("cos, f64: cos(r) - 1, t = r^2", minus_one(cosine), inverse(cosine), [1, 2, 3, 4, 5], 0, reach)
    exponential = ratio(mpmath.expm1)
    fit("expm1: expm1(t)/t - 1", minus_one(exponential), inverse(exponential), list(range(1, 8)), "-0.3466", "0.3466")
    power = ratio(lambda t: mpmath.expm1(t * mpmath.log(2)))
    fit("tanh in csrc/host/vectors.h: (2^t - 1)/t", power, inverse(power), list(range(5)), "-0.5", "0.5", f32=True)
    logarithm = ratio(mpmath.log1p)
    fit(
        "log: log1p(t)/t - 1",
        minus_one(logarithm),
        inverse(logarithm),
        list(range(1, 15)),
        mpmath.sqrt(mpf(1) / 2) - 1,
        mpmath.sqrt(2) - 1,
    )
    arc = over_argument(mpmath.atan)
    fit("atan: atan(r)/r - 1, t = r^2", minus_one(arc), inverse(arc), list(range(1, 13)), 0, 1)
    parts("pi/2, f32:", mpmath.pi / 2, 3, f32=True)
    parts("pi/2, f64:", mpmath.pi / 2, 2)
    parts("2/pi, f32:", 2 / mpmath.pi, 1, f32=True)
    parts("ln 2, f64:", mpmath.log(2), 1)
    parts("1/ln 2, f64:", 1 / mpmath.log(2), 1)


if __name__ == "__main__":
    main()
