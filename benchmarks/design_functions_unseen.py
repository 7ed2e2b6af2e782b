"""The half of the test functions that no design was developed on: run once, after every choice was made.

From the literature of adaptive designs (GUESS, TEAD), of uncertainty quantification (Surjanovic and Bingham's list)
and of integration (Genz); steep ones, wavy ones, and some that are not steep anywhere. As in ``problems.py`` each takes
points of the unit cube.
"""

from __future__ import annotations

import numpy as np

from problems import Problem, scaled


def gramacy_lee(U):
    """Gramacy and Lee 2012: waves that die out, then a slope."""
    (x,) = scaled(U, [(0.5, 2.5)])
    return np.sin(10 * np.pi * x) / (2 * x) + (x - 1) ** 4


def humps(U):
    """Two peaks of different width."""
    (x,) = scaled(U, [(0, 2)])
    return 1 / ((x - 0.3) ** 2 + 0.01) + 1 / ((x - 0.9) ** 2 + 0.04) - 6


def forrester(U):
    x = U[:, 0]
    return (6 * x - 2) ** 2 * np.sin(12 * x - 4)


def currin(U):
    """Currin and others 1988: steep along one face."""
    x, y = U.T
    factor = 1 - np.exp(-1 / (2 * np.maximum(y, 1e-12)))
    return factor * (2300 * x**3 + 1900 * x**2 + 2092 * x + 60) / (100 * x**3 + 500 * x**2 + 4 * x + 20)


def bump(U):
    """Gramacy and Lee 2008: all that happens is in one quarter of the domain."""
    x, y = scaled(U, [(-2, 6)] * 2)
    return x * np.exp(-(x**2) - y**2)


def camel(U):
    """The six-hump camel."""
    x, y = scaled(U, [(-2, 2), (-1, 1)])
    return (4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (4 * y**2 - 4) * y**2


def lim(U):
    """Lim and others 2002, without a steep place."""
    x, y = U.T
    return ((30 + 5 * x * np.sin(5 * x)) * (4 + np.exp(-5 * y)) - 100) / 6


def circular_front(U):
    """A ring: steep at one distance from a corner."""
    return np.arctan(20 * (np.hypot(U[:, 0], U[:, 1]) - 0.7))


def hartmann_3(U):
    weights = np.array([1.0, 1.2, 3.0, 3.2])
    scales = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
    places = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
    return -np.exp(-(((U[:, None] - places) ** 2) * scales).sum(axis=2)) @ weights


def curved(U):
    """Dette and Pepelyshev 2010, three inputs."""
    x, y, z = U.T
    return 4 * (x - 2 + 8 * y - 8 * y**2) ** 2 + (3 - 4 * y) ** 2 + 16 * np.sqrt(z + 1) * (2 * z - 1) ** 2


def ignition(U):
    """A reaction that runs away above a threshold set by two other inputs."""
    temperature, pressure, mixture = scaled(U, [(0, 1), (0.5, 1.5), (0, 1)])
    delay = np.exp(4 * (0.6 - temperature) * pressure) * (1 + 0.5 * (mixture - 0.4) ** 2)
    return 1 / (1 + np.exp(10 * (delay - 0.8)))


def park(U):
    """Park 1991, the first of two."""
    a, b, c, d = np.maximum(U.T, 1e-9)
    return a / 2 * (np.sqrt(1 + (b + c**2) * d / a**2) - 1) + (a + 3 * d) * np.exp(1 + np.sin(c))


def product_peak(U):
    """Genz's product peak in four dimensions."""
    return np.prod(1 / (0.2**2 + (U - np.array([0.3, 0.6, 0.5, 0.4])) ** 2) * 0.2**2, axis=1)


def kinks(U):
    """Genz's continuous integrand in five dimensions: a kink across each input."""
    rates, places = np.array([4.0, 3.0, 2.0, 1.0, 0.5]), np.array([0.4, 0.6, 0.3, 0.7, 0.5])
    return np.exp(-(np.abs(U - places) * rates).sum(axis=1))


def burgers(U):
    """Burgers' equation, two fronts that merge: place, time, viscosity and the heights of both."""
    x, t, log_viscosity, left, middle = scaled(U, [(0, 1), (0, 1), (np.log(0.02), np.log(0.2)), (0.8, 1.4), (0.2, 0.6)])
    width = 4 * np.exp(log_viscosity)
    first = (left - middle) / (1 + np.exp((left - middle) * (x - 0.15 - (left + middle) / 2 * t) / width * 4))
    second = middle / (1 + np.exp(middle * (x - 0.45 - middle / 2 * t) / width * 4))
    return first + second


def hartmann_6(U):
    weights = np.array([1.0, 1.2, 3.0, 3.2])
    scales = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    )
    places = 1e-4 * np.array(
        [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
         [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]
    )  # fmt: skip
    return -np.exp(-(((U[:, None] - places) ** 2) * scales).sum(axis=2)) @ weights


def piston(U):
    """The time of one cycle of a piston (Kenett and Zacks 1998), seven inputs, not steep."""
    mass, area, volume, spring, pressure, ambient, filling = scaled(
        U, [(30, 60), (0.005, 0.02), (0.002, 0.01), (1000, 5000), (90000, 110000), (290, 296), (340, 360)]
    )
    force = pressure * area + 19.62 * mass - spring * volume / area
    ratio = pressure * volume / filling
    height = area / (2 * spring) * (np.sqrt(force**2 + 4 * spring * ratio * ambient) - force)
    return 2 * np.pi * np.sqrt(mass / (spring + area**2 * ratio * ambient / height**2))


def detpep_8(U):
    """Dette and Pepelyshev 2010, eight inputs, some of which matter little."""
    a, b, c = U[:, 0], U[:, 1], U[:, 2]
    head = 4 * (a - 2 + 8 * b - 8 * b**2) ** 2 + (3 - 4 * b) ** 2 + 16 * np.sqrt(c + 1) * (2 * c - 1) ** 2
    tail = [i * np.log1p(U[:, 2 : i + 1].sum(axis=1)) for i in range(3, 8)]
    return head + np.sum(tail, axis=0)


def wing_weight(U):
    """The weight of a wing (Forrester and others 2008), ten inputs, not steep."""
    sw, wfw, a, angle, q, taper, tc, nz, wdg, wp = scaled(
        U,
        [(150, 200), (220, 300), (6, 10), (-10, 10), (16, 45), (0.5, 1), (0.08, 0.18), (2.5, 6), (1700, 2500),
         (0.025, 0.08)],
    )  # fmt: skip
    cosine = np.cos(np.deg2rad(angle))
    return (
        0.036 * sw**0.758 * wfw**0.0035 * (a / cosine**2) ** 0.6 * q**0.006 * taper**0.04
        * (100 * tc / cosine) ** -0.3 * (nz * wdg) ** 0.49 + sw * wp
    )  # fmt: skip


UNSEEN = {
    problem.name: problem
    for problem in [
        Problem("gramacy_lee", gramacy_lee, 1, 32, "steep"),
        Problem("humps", humps, 1, 24, "steep"),
        Problem("forrester", forrester, 1, 16, "smooth"),
        Problem("currin", currin, 2, 100, "steep"),
        Problem("bump", bump, 2, 100, "steep"),
        Problem("camel", camel, 2, 100, "smooth"),
        Problem("lim", lim, 2, 60, "smooth"),
        Problem("circular_front", circular_front, 2, 120, "steep"),
        Problem("hartmann_3", hartmann_3, 3, 150, "smooth"),
        Problem("curved", curved, 3, 120, "smooth"),
        Problem("ignition", ignition, 3, 160, "steep"),
        Problem("park", park, 4, 160, "smooth"),
        Problem("product_peak", product_peak, 4, 200, "steep"),
        Problem("kinks", kinks, 5, 250, "high"),
        Problem("burgers", burgers, 5, 250, "high"),
        Problem("hartmann_6", hartmann_6, 6, 300, "high"),
        Problem("piston", piston, 7, 250, "high"),
        Problem("detpep_8", detpep_8, 8, 300, "high"),
        Problem("wing_weight", wing_weight, 10, 300, "high"),
    ]
}
