import pytest

from campaign_simulators import BOUNDS
from steep.campaign import Campaign


@pytest.fixture
def storage(tmp_path):
    return tmp_path / "campaign.db"


@pytest.fixture
def campaign(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        yield campaign
