"""Every format of the store that was ever written opens, and goes on."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from steep.campaign import Campaign
from steep.campaign.journal import FREQUENT
from steep.campaign.schema import VERSION

STORES = sorted((Path(__file__).parent / "stores").glob("format-*.db"))


def test_there_is_a_store_of_every_version():
    versions = [struct.unpack(">i", path.read_bytes()[60:64])[0] for path in STORES]
    assert sorted(set(versions)) == list(range(1, VERSION + 1))


@pytest.fixture(params=STORES, ids=[path.stem for path in STORES])
def store(request, tmp_path):
    path = tmp_path / request.param.name
    shutil.copy(request.param, path)
    return path, json.loads(request.param.with_suffix(".json").read_text())


def test_a_store_of_any_format_holds_what_was_written(store):
    path, content = store
    with Campaign(storage=path) as campaign:
        assert list(campaign.box.names) == content["names"]
        assert [list(axis.key()) for axis in campaign.box.axes] == content["axes"]
        assert list(campaign.outputs) == content["outputs"]
        np.testing.assert_array_equal(campaign.X, content["X"])
        np.testing.assert_array_equal(campaign.y, content["y"])
        np.testing.assert_array_equal(campaign.pending, content["pending"])
        assert campaign.n_done == content["n_done"]
        assert sorted(set(campaign.failures().run)) == content["failed"]
        assert campaign.n_failed == len(content["failed"])
        assert set(campaign.to_dataframe().material) <= {"steel", "copper", "zinc"}
        expected = ["forgotten", "corrected", "widened"] if content.get("leased") else []
        assert campaign.events().kind.tolist() == expected


def test_a_store_of_any_format_goes_on(store):
    path, content = store
    with Campaign(storage=path) as campaign:
        leased = campaign.ask(3, lease="1 h")
        asked = content.get("asked", content["pending"])
        np.testing.assert_array_equal(campaign.box.encode(leased.iloc[:, 1:-1].to_dict("records")), asked)
        campaign.tell(run=leased.run, y=np.ones((3, 2)))
        assert campaign.retry_failures() == len(content["failed"])
        campaign.run(lambda u0, k, n, material: {"a": u0, "b": float(n)}, 44)
        assert (campaign.n_failed, len(campaign.pending)) == (0, len(content.get("leased", [])))


@pytest.mark.parametrize("name", FREQUENT)
def test_frequent_statements_are_quick_in_a_store_of_any_format(store, name):
    with Campaign(storage=store[0]) as campaign:
        statement = FREQUENT[name]
        plan = campaign.journal._rows(f"EXPLAIN QUERY PLAN {statement}", (0,) * statement.count("?"))
        assert not [row[-1] for row in plan if row[-1].startswith("SCAN") and "INDEX" not in row[-1]]
