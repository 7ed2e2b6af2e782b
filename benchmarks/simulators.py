"""Real simulators with inputs in the unit cube: Cantera, CoolProp, PyBaMM, and solvers of equations by SciPy and NumPy.

No choice in steep was made by looking at them. They need ``pip install cantera CoolProp pybamm``.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.integrate import odeint

from problems import Problem, scaled


@cache
def gas(mechanism):
    import cantera

    return cantera.Solution(mechanism)


def _burned(mechanism, fuel, minor, temperature, ratio, log_pressure, log_time):
    """Temperature and share of a species after a time at constant pressure, in air (Cantera)."""
    import cantera

    mixture = gas(mechanism)
    mixture.TP = temperature, 10**log_pressure * cantera.one_atm
    mixture.set_equivalence_ratio(ratio, fuel, "O2:1, N2:3.76")
    reactor = cantera.IdealGasConstPressureReactor(mixture, clone=False)
    cantera.ReactorNet([reactor]).advance(10**log_time)
    return reactor.T, mixture[minor].X[0]


def ignition_of_hydrogen(U):
    """Hydrogen in air: 10 species, 1 ms a run."""
    at = scaled(U, [(1000, 1400), (0.3, 2.0), (-0.3, 1.0), (-6, -3)])
    return np.array([_burned("h2o2.yaml", "H2", "OH", *row) for row in at.T])


def ignition_of_methane(U):
    """Methane in air by GRI-Mech 3.0: 53 species, 50 ms a run."""
    at = scaled(U, [(1200, 1800), (0.5, 2.0), (0.0, 1.3), (-5, -2)])
    return np.array([_burned("gri30.yaml", "CH4", "CO", *row) for row in at.T])


def carbon_dioxide(U):
    """Density and enthalpy of carbon dioxide next to its critical point, liquid and gas (CoolProp)."""
    from CoolProp.CoolProp import PropsSI

    temperature, pressure = scaled(U, [(285, 350), (5e6, 12e6)])
    return np.column_stack([PropsSI(name, "T", temperature, "P", pressure, "CO2") for name in ("D", "H")])


@cache
def cell():
    import pybamm

    values = pybamm.ParameterValues("Chen2020")
    names = ("Current function [A]", "Ambient temperature [K]", "Negative particle diffusivity [m2.s-1]")
    values.update(dict.fromkeys(names, "[input]"))
    return pybamm.Simulation(pybamm.lithium_ion.SPMe(), parameter_values=values), names


def battery(U):
    """Voltage of a lithium-ion cell after a time of discharge, at least 2.5 V, where it stops (PyBaMM, SPMe)."""
    simulation, names = cell()
    found = []
    for current, temperature, log_diffusivity, when in scaled(U, [(2, 15), (268, 318), (-14.5, -13), (30, 1800)]).T:
        inputs = dict(zip(names, (current, temperature, 10**log_diffusivity), strict=True))
        found.append(simulation.solve([0, when], inputs=inputs)["Voltage [V]"].entries[-1])
    return np.array(found)


def van_der_pol(U):
    """Van der Pol's stiff oscillator at a time, for a stiffness and a start (LSODA of SciPy)."""
    found = []
    for mu, start, when in scaled(U, [(1, 15), (0.5, 2.5), (0.5, 8)]).T:
        slope = lambda s, t, m=mu: (s[1], m * (1 - s[0] ** 2) * s[1] - s[0])  # noqa: E731
        found.append(odeint(slope, (start, 0.0), (0, when), mxstep=20_000)[-1, 0])
    return np.array(found)


def allen_cahn(U):
    """A reaction and diffusion on a line, u_t = D u_xx + 5 (u − u³), by finite differences: u at a place and a time."""
    log_d, height, place, when = scaled(U, [(-3.0, -1.5), (0.2, 1.0), (0.0, 1.0), (0.05, 1.0)])
    n, grid = 101, np.linspace(0, 1, 101)
    u = height[:, None] * np.cos(3 * np.pi * grid) + 0.1 * np.sin(2 * np.pi * grid)
    n_steps = 800
    step = (when / n_steps)[:, None]
    for _ in range(n_steps):
        padded = np.pad(u, ((0, 0), (1, 1)), mode="reflect")
        bend = (padded[:, 2:] - 2 * u + padded[:, :-2]) * (n - 1) ** 2
        u = u + step * (10 ** log_d[:, None] * bend + 5 * (u - u**3))
    return np.array([np.interp(x, grid, row) for x, row in zip(place, u, strict=True)])


SIMULATORS = {
    problem.name: problem
    for problem in [
        Problem("ignition_of_hydrogen", ignition_of_hydrogen, 4, 200, "steep"),
        Problem("carbon_dioxide", carbon_dioxide, 2, 100, "steep"),
        Problem("van_der_pol", van_der_pol, 3, 150, "steep"),
        Problem("allen_cahn", allen_cahn, 4, 200, "steep"),
        Problem("ignition_of_methane", ignition_of_methane, 4, 200, "steep"),
        Problem("battery", battery, 4, 200, "steep"),
    ]
}
