import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steep import Rescaling, rescale
from steep.exceptions import InputError, InputTypeError
from steep.rescaling import rescale_pairs

variations = hnp.arrays(float, st.integers(1, 30), elements=st.floats(0, 1e6))
ratios = st.floats(1e-3, 1e3)
methods = st.sampled_from(["minmax", "max"])


@given(v=variations, m=ratios, method=methods)
def test_weights_stay_between_one_and_the_ratio(v, m, method):
    w = rescale(v, weight_ratio=m, rescaling=Rescaling(method, normalize=None))
    assert (w >= min(1, m) * (1 - 1e-12)).all()
    assert (w <= max(1, m) * (1 + 1e-12)).all()


@given(v=variations, m=ratios, method=methods)
def test_a_ratio_and_its_inverse_mirror_each_other(v, m, method):
    w, mirrored = (rescale(v, weight_ratio=r, rescaling=Rescaling(method, normalize=None)) for r in (m, 1 / m))
    np.testing.assert_allclose(w * mirrored, 1, rtol=1e-9)


@given(v=variations, m=ratios, method=methods)
def test_weights_follow_the_order_of_variation(v, m, method):
    w = rescale(v, weight_ratio=m, rescaling=Rescaling(method))
    steps = np.diff(w[np.argsort(v)])
    assert (steps >= -1e-12).all() if m >= 1 else (steps <= 1e-12).all()


@given(v=variations, m=ratios)
def test_normalisation_sets_the_mean_or_the_sum(v, m):
    assert rescale(v, weight_ratio=m).mean() == pytest.approx(1)
    assert rescale(v, weight_ratio=m, rescaling=Rescaling(normalize="sum")).sum() == pytest.approx(1)


# Not so small that the unit would take digits away.
ordinary = hnp.arrays(float, st.integers(1, 30), elements=st.just(0.0) | st.floats(1e-200, 1e6))


@given(v=ordinary, scale=st.floats(1e-3, 1e3))
def test_weights_ignore_the_unit_of_variation(v, scale):
    np.testing.assert_allclose(rescale(v * scale), rescale(v), rtol=1e-6)


@given(v=variations)
def test_ratio_one_is_exactly_equal_weights(v):
    assert (rescale(v, weight_ratio=1) == 1.0).all()


@pytest.mark.parametrize("value", [0.0, 3.7])
@pytest.mark.parametrize("method", ["minmax", "max"])
def test_constant_variation_is_exactly_equal_weights(value, method):
    assert (rescale(np.full(7, value), rescaling=Rescaling(method)) == 1.0).all()


def test_the_largest_weight_is_the_ratio_times_the_smallest():
    w = rescale([0.2, 0.5, 0.9], weight_ratio=40)
    assert w.max() / w.min() == pytest.approx(40)


def test_dividing_by_the_maximum_alone_keeps_the_smallest_above_one():
    assert rescale([1.0, 2.0], weight_ratio=3, rescaling=Rescaling("max", normalize=None)).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("m", [1e-100, 1e-20, 1e20, 1e100])
@pytest.mark.parametrize("normalize", ["mean", "sum", None])
@pytest.mark.parametrize("top", [1.0, 1e300, 5e-324])
def test_weights_are_finite_and_in_order_for_every_ratio(m, normalize, top):
    w = rescale(np.array([0.0, 0.25, 0.5, 1.0]) * top, weight_ratio=m, rescaling=Rescaling(normalize=normalize))
    assert np.isfinite(w).all()
    assert w.max() > 0
    assert (np.diff(w) >= 0).all() if m > 1 else (np.diff(w) <= 0).all()
    if normalize:
        assert (w.mean() if normalize == "mean" else w.sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("v", "kwargs", "error", "message"),
    [
        ([0.0, -1.0], {}, InputError, r"variation\[1\] is -1; expected values ≥ 0"),
        ([0.0, np.nan], {}, InputError, "variation contains NaN"),
        ([], {}, InputError, "variation has 0 values"),
        ([[1.0], [1.0, 2.0]], {}, InputError, "variation is not numeric"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), {}, InputError, "variation is masked at 1 of 2"),
        ([10**400, 1], {}, InputError, "variation is not numeric"),
        ([0.0, 1.0], {"weight_ratio": 10**400}, InputError, "weight_ratio=1000.* is out of range"),
        ([[0.0], [1.0]], {}, InputError, r"variation has shape \(2, 1\); expected \(2,\)"),
        ([0.0, 1.0], {"weight_ratio": 0}, InputError, "weight_ratio=0 is out of range; expected a finite number > 0"),
        ([0.0, 1.0], {"weight_ratio": np.inf}, InputError, "weight_ratio=inf"),
        ([0.0, 1.0], {"weight_ratio": "40"}, InputTypeError, "weight_ratio='40' is a str"),
        ([0.0, 1.0], {"rescaling": "max"}, InputTypeError, "rescaling='max' is a str; expected a steep.Rescaling"),
    ],
)
def test_bad_input_is_refused(v, kwargs, error, message):
    with pytest.raises(error, match=message):
        rescale(v, **kwargs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "rank"}, "method='rank' is unknown; expected one of 'minmax', 'max'"),
        ({"normalize": "max"}, "normalize='max' is unknown"),
        ({"clip": 0.0}, "clip=0.0 is out of range"),
    ],
)
def test_bad_rescalings_are_rejected_at_once(options, message):
    with pytest.raises(InputError, match=message):
        Rescaling(**options)


def test_pairs_of_variation_and_ratio_are_rescaled_as_each_alone():
    rng = np.random.default_rng(0)
    variations = [rng.random(50), np.zeros(50), rng.exponential(size=50)]
    pairs = [(2, 0.01), (0, 40.0), (1, 3.0), (2, 1.0), (0, 0.3)]
    found = rescale_pairs(variations, pairs, Rescaling(clip=0.9))
    for row, (place, ratio) in zip(found, pairs, strict=True):
        np.testing.assert_allclose(
            row, rescale(variations[place], weight_ratio=ratio, rescaling=Rescaling(clip=0.9)), rtol=1e-12
        )
