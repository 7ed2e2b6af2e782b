"""qNIPV of BoTorch as a design: runs that leave the least variance of a Gaussian process over the domain.

The process is BoTorch's default (one length scale an input) and the acquisition function its
``qNegIntegratedPosteriorVariance`` over 128 Sobol points. A round is one joint optimisation of all its runs; six rounds
of ten steps of L-BFGS, so that a design of 300 runs takes a quarter of a minute of one core. Of several outputs
the first is modelled: the variance left does not depend on the labels but through the length scales.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import qmc

N_DOMAIN = 128
ROUNDS = 6
STEPS = 10


def fitted(X, y):
    """BoTorch's process through some runs, labels standardised and taken as exact."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    labels = torch.tensor((y - y.mean()) / (y.std() + 1e-12), dtype=torch.float64)[:, None]
    points = torch.tensor(X, dtype=torch.float64)
    model = SingleTaskGP(points, labels, train_Yvar=torch.full_like(labels, 1e-6), outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": 50}})
    return model


def left_variance(model, domain):
    """The acquisition function: minus the mean variance over ``domain`` once some points are run."""
    import torch
    from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance

    return qNegIntegratedPosteriorVariance(model, torch.tensor(domain, dtype=torch.float64))


def next_runs(model, domain, size, seed, steps=STEPS):
    """The ``size`` runs that leave the least variance together."""
    import torch
    from botorch.optim import optimize_acqf

    torch.manual_seed(seed)
    box = torch.stack([torch.zeros(domain.shape[1]), torch.ones(domain.shape[1])]).to(torch.float64)
    found, _ = optimize_acqf(
        left_variance(model, domain), box, q=size, num_restarts=1, raw_samples=4, options={"maxiter": steps}
    )
    return found.detach().numpy()


def least_variance(function, start, n_runs, seed):
    """``start``, then rounds of runs that leave the least variance."""
    d, X = start.shape[1], start
    y = function(X).reshape(len(X), -1)
    ends = np.unique(np.round(np.linspace(len(X), n_runs, ROUNDS + 1)).astype(int))[1:]
    for number, end in enumerate(ends):
        domain = qmc.Sobol(d, rng=np.random.default_rng([seed, number])).random(N_DOMAIN)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on scaling and on optimisers that stop early
            fresh = next_runs(fitted(X, y[:, 0]), domain, end - len(X), 100 * seed + number)
        X, y = np.vstack([X, fresh]), np.vstack([y, function(fresh).reshape(len(fresh), -1)])
    return X
