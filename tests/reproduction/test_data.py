"""Data sets: checksums, clear rejections, stand-ins."""

import gzip
import io
import tarfile
import urllib.request

import numpy as np
import pytest

from reproduction import data as module
from reproduction.data import CHECKSUMS, Data, StandIns, _sha256
from steep.exceptions import StorageError


def known(monkeypatch, folder, name, content):
    """Put a small file in place, and make its checksum the published one."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    monkeypatch.setitem(CHECKSUMS, name, (_sha256(path),))


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def test_mnist_is_read_from_its_published_format(tmp_path, monkeypatch):
    images, labels = np.arange(2 * 28 * 28).reshape(2, 28, 28) % 256, np.array([3, 4])
    for part in ("train", "t10k"):
        known(monkeypatch, tmp_path, f"mnist/{part}-images-idx3-ubyte.gz", idx(images))
        known(monkeypatch, tmp_path, f"mnist/{part}-labels-idx1-ubyte.gz", idx(labels))
    found = Data(tmp_path).mnist()
    np.testing.assert_array_equal(found.x_train, images)
    np.testing.assert_array_equal(found.y_test, labels)


def test_cifar10_is_read_from_its_published_archive(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    rows = {name: generator.integers(0, 256, (2, 3073), dtype=np.uint8) for name in
            [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]}  # fmt: skip
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in rows.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = content.nbytes
            archive.addfile(entry, io.BytesIO(content.tobytes()))
    known(monkeypatch, tmp_path, "cifar10/cifar-10-binary.tar.gz", packed.getvalue())
    found = Data(tmp_path).cifar10()
    assert found.x_train.shape == (10, 32, 32, 3)
    first = rows["data_batch_1"][0]
    assert found.y_train[0] == first[0]
    assert found.x_train[0, 5, 7, 2] == first[1 + 2 * 1024 + 5 * 32 + 7]


def test_a_damaged_file_is_refused_by_its_checksum_and_kept(tmp_path):
    path = tmp_path / "boston" / "boston_house_prices.csv"
    path.parent.mkdir()
    path.write_text("506,13\nnonsense\n")
    with pytest.raises(StorageError, match=r"SHA-256 .*delete it and fetch it again") as caught:
        Data(tmp_path).boston()
    assert "\n" not in str(caught.value)
    assert path.read_text().endswith("nonsense\n")


@pytest.mark.parametrize(("call", "says"), [
    (lambda data: data.mnist(), r"mnist/train-images-idx3-ubyte.gz is not in .*fetch it from https://"),
    (lambda data: data.cifar10(), r"cifar-10-binary.tar.gz is not in .*fetch it from https://"),
    (lambda data: data.boston(), r"boston_house_prices.csv is not in .*fetch it from https://"),
    (lambda data: data.glue("RTE"), r"cls_features_tinybert-4l-312d-ner.npz is not in .*reproduction-data.md"),
])  # fmt: skip
def test_missing_data_say_what_to_fetch_and_where_to_put_it(tmp_path, call, says):
    with pytest.raises(StorageError, match=says) as caught:
        call(Data(tmp_path))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_offline_downloads_say_so(tmp_path, monkeypatch):
    monkeypatch.setitem(module.SOURCES, "boston/boston_house_prices.csv", (tmp_path / "gone").as_uri())
    with pytest.raises(StorageError, match=r"cannot be downloaded .*fetch it from file"):
        Data(cache=tmp_path).boston()


def test_downloads_are_kept_in_the_cache_and_checked(tmp_path, monkeypatch):
    rows = [",".join(str(float(column)) for column in range(14))] * 3
    source = tmp_path / "source.csv"
    source.write_text('3,13\n"A","B"\n' + "\n".join(rows) + "\n")
    monkeypatch.setitem(module.SOURCES, "boston/boston_house_prices.csv", source.as_uri())
    monkeypatch.setitem(CHECKSUMS, "boston/boston_house_prices.csv", (_sha256(source),))
    X, y = Data(cache=tmp_path / "cache").boston()
    assert X.shape == (3, 13)
    assert y.tolist() == [13.0] * 3
    monkeypatch.setattr(urllib.request, "urlopen", None)  # a second reading asks no one
    assert Data(cache=tmp_path / "cache").boston()[0].shape == (3, 13)


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STEEP_DATA", str(tmp_path))
    with pytest.raises(StorageError, match=str(tmp_path)):
        Data().boston()


def test_stand_ins_have_the_shapes_of_the_real_sets():
    data = StandIns()
    assert data.mnist().x_train.shape[1:] == (28, 28)
    assert data.cifar10().x_train.shape[1:] == (32, 32, 3)
    assert data.cifar10().x_train.dtype == np.uint8
    assert set(np.unique(data.glue("RTE").y_train)) == {0, 1}
    assert data.glue("STS-B").y_train.dtype.kind == "f"
