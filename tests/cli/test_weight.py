import base64
import json
import random
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from steep import Rescaling, VarianceWeighted, VarianceWeightedCV, sample_weights
from steep.cli import main


def weight(table, *arguments):
    return main(["weight", str(table), *map(str, arguments)])


def weights_in(path, column="sample_weight"):
    return pd.read_csv(path)[column].to_numpy()


def test_weight_adds_the_weights_as_a_column(table, points, kinds, capsys):
    assert weight(table, "--target", "kind", "--weight-ratio", "10", "--n-neighbors", "9") == 0
    output = table.with_name("iris-weighted.csv")
    expected = sample_weights(points, kinds, weight_ratio=10, n_neighbors=9)
    np.testing.assert_allclose(weights_in(output), expected)
    before, after = table.read_text().splitlines(), output.read_text().splitlines()
    assert [line.rpartition(",")[0] for line in after] == before
    printed = capsys.readouterr()
    assert "150 samples weighted from" in printed.out
    assert "iris.csv: 150 rows, CSV separated by ',', UTF-8" in printed.out
    assert "target 'kind' read as 3 classes (s 50, ve 50, vi 50)" in printed.out
    assert printed.err == ""


def test_long_and_short_flags_mean_the_same(table, tmp_path):
    long, short = tmp_path / "long.csv", tmp_path / "short.csv"
    options = ["--target", "kind", "--drop", "a", "--task", "classification"]
    assert weight(table, *options, "--n-neighbors", "9", "--weight-ratio", "3", "--output", long) == 0
    assert weight(table, *options, "-k", "9", "-m", "3", "-o", short) == 0
    assert long.read_text() == short.read_text()


@pytest.fixture
def line(tmp_path):
    """A noisy line, for which equal weights are right."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0] + rng.normal(size=120))
    frame.to_csv(tmp_path / "line.csv", index=False)
    return tmp_path / "line.csv"


def test_without_a_ratio_weights_are_chosen_by_evidence(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(120, 2))
    y = 5.0 * (X[:, 0] > 0.8) + 0.1 * rng.normal(size=120)  # a step that no line follows
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    score = "max_error"
    assert weight(tmp_path / "t.csv", "--target", "y", "-k", "5", "--scoring", score) == 0
    model = make_pipeline(StandardScaler(), Ridge())
    search = VarianceWeightedCV(model, scoring=score, n_neighbors=(5,), random_state=0).fit(X, y)
    assert search.best_params_["weight_ratio"] != 1
    np.testing.assert_allclose(weights_in(tmp_path / "t-weighted.csv"), search.sample_weight_)
    assert str(search.verdict_) in capsys.readouterr().out


def test_equal_weights_are_written_when_they_win(line, capsys):
    assert weight(line, "--target", "y", "-k", "5", "-o", line.with_name("w.csv")) == 0
    assert "\nEqual weights are kept" in capsys.readouterr().out
    assert (weights_in(line.with_name("w.csv")) == 1).all()


def test_dropped_columns_are_left_out_of_the_search(table, points):
    output = table.parent / "w.csv"
    assert weight(table, "--target", "a", "--drop", "kind", "-m", "40", "-o", output) == 0
    np.testing.assert_allclose(weights_in(output), sample_weights(points[:, 1:], points[:, 0]))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_text_of_the_table_is_not_touched(tmp_path, end):
    rng = np.random.default_rng(0)
    rows = [f'{i:05d},NA,"x, ""y""\n{i}",{rng.normal():.12f},{rng.integers(2)}' for i in range(30, 60)]
    table = tmp_path / "t.csv"
    table.write_bytes(end.join(['id,"no te",text,x,y', *rows, ""]).encode())
    drop = ["--drop", "id", "--drop", "no te", "--drop", "text"]
    assert weight(table, "--target", "y", "-k", "5", "-m", "3", *drop, "-o", tmp_path / "w.csv") == 0
    written = (tmp_path / "w.csv").read_bytes().decode()
    weights = weights_in(tmp_path / "w.csv")
    expected = ['id,"no te",text,x,y,sample_weight']
    expected += [f"{row},{weight!r}" for row, weight in zip(rows, weights.tolist(), strict=True)]
    assert written == end.join([*expected, ""])


@pytest.mark.parametrize(
    ("name", "options"), [("w.txt", []), ("w.csv", ["--only"]), ("w.npy", []), ("w.parquet", ["--only"])]
)
def test_weights_alone_go_to_a_file_of_their_own(table, points, kinds, name, options):
    output = table.parent / name
    assert weight(table, "--target", "kind", "-m", "10", "-o", output, *options) == 0
    if name == "w.npy":
        written = np.load(output)
    elif name == "w.parquet":
        written = pd.read_parquet(output)["sample_weight"].to_numpy()
    else:
        assert output.read_text().splitlines()[0] == "sample_weight"
        written = np.loadtxt(output, skiprows=1)
    np.testing.assert_allclose(written, sample_weights(points, kinds, weight_ratio=10))


def test_the_table_itself_is_written_only_by_force(table, capsys):
    before = table.read_text()
    link = table.with_name("link.csv")
    link.symlink_to(table)
    for output in (table, link):
        assert weight(table, "--target", "kind", "-m", "3", "-o", output) == 2
        assert "is the table itself; need another file; name one, or pass --force" in capsys.readouterr().err
        assert table.read_text() == before
    assert weight(table, "--target", "kind", "-m", "3", "-o", link, "--force") == 0
    assert link.is_symlink()
    assert [line.rpartition(",")[0] for line in table.read_text().splitlines()] == before.splitlines()


def test_a_target_called_sample_weight_is_never_overwritten(table, capsys):
    named = table.with_name("named.csv")
    named.write_text(table.read_text().replace("kind", "sample_weight"))
    for force in ([], ["--force"]):
        assert weight(named, "--target", "sample_weight", "-m", "3", *force) == 2
        assert "pass --weight-column NAME" in capsys.readouterr().err
    assert weight(named, "--target", "sample_weight", "-m", "3", "--weight-column", "w") == 0
    weighted = pd.read_csv(named.with_name("named-weighted.csv"))
    assert weighted["sample_weight"].tolist() == pd.read_csv(table)["kind"].tolist()
    assert len(weighted["w"]) == 150


def test_old_weights_are_no_feature_and_are_replaced_only_by_force(table, points, kinds, capsys):
    assert weight(table, "--target", "kind", "-m", "3") == 0
    again = table.with_name("iris-weighted.csv")
    expected = sample_weights(points, kinds, weight_ratio=10)
    capsys.readouterr()
    assert weight(again, "--target", "kind", "-m", "10") == 2
    assert "has a column 'sample_weight' already; pass another --weight-column NAME" in capsys.readouterr().err
    output = table.with_name("w.csv")
    assert weight(again, "--target", "kind", "-m", "10", "--weight-column", "new", "-o", output) == 0
    np.testing.assert_allclose(weights_in(output, "new"), expected)
    assert "'sample_weight' holds weights and is not used as a feature" in capsys.readouterr().err
    assert weight(again, "--target", "kind", "-m", "10", "--force", "-o", output) == 0
    np.testing.assert_allclose(weights_in(output), expected)
    assert output.read_text().splitlines()[0] == "a,b,c,d,kind,sample_weight"


@pytest.mark.parametrize(("header", "first"), [("", 0), ("Unnamed: 0", 7), ("id", 0), ("nr", 1)])
def test_row_numbers_are_no_feature_unless_kept(table, points, kinds, capsys, header, first):
    lines = table.read_text().splitlines()
    numbered = [f"{header},{lines[0]}", *(f"{i + first},{line}" for i, line in enumerate(lines[1:]))]
    table.write_text("\n".join(numbered) + "\n")
    output = table.with_name("w.csv")
    assert weight(table, "--target", "kind", "-m", "10", "-o", output) == 0
    np.testing.assert_allclose(weights_in(output), sample_weights(points, kinds, weight_ratio=10))
    assert f"{header!r} counts the rows and is not used as a feature" in capsys.readouterr().err
    assert weight(table, "--target", "kind", "-m", "10", "-o", output, "--keep", header, "--force") == 0
    kept = np.column_stack([np.arange(150) + first, points])
    np.testing.assert_allclose(weights_in(output), sample_weights(kept, kinds, weight_ratio=10))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("missing", [[], [2, 70]])
def test_a_column_that_counts_all_rows_is_no_feature_whatever_labels_are_missing(table, capsys, missing):
    frame = pd.read_csv(table)
    frame.insert(0, "nr", range(150))
    frame["code"] = range(1000, 1150)
    frame.loc[missing, "kind"] = None
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "-m", "10", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["left_out"] == ["nr"]
    assert figures["id_like"] == ["code"]


def test_a_column_with_values_only_next_to_missing_labels_is_empty(table, capsys):
    frame = pd.read_csv(table).assign(late=np.nan)
    frame.loc[[2, 70], "late"] = 1.0
    frame.loc[[2, 70], "kind"] = None
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "-m", "10", "--json") == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == ["late"]


def test_the_page_shows_the_rows_of_the_file_when_labels_are_missing(table, kinds):
    frame = pd.read_csv(table)
    frame.loc[[2, 70], "kind"] = None
    frame.to_csv(table, index=False)
    page = table.with_name("page.html")
    assert weight(table, "--target", "kind", "-m", "10", "--report", page) == 0
    html = page.read_text(encoding="utf-8")
    rows = [int(row) for row in re.findall(r'<tr data-row="(\d+)"', html)]
    weights = pd.Series(weights_in(table.with_name("iris-weighted.csv"))).dropna()
    assert rows == weights.sort_values(ascending=False, kind="stable").index[:100].tolist()
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    packed = base64.b64decode(data["rows"]["base64"])
    assert np.frombuffer(packed, "<u4").tolist() == weights.index.tolist()
    names = np.array(["s", "ve", "vi"])[kinds]
    assert not {"2", "70"} & data["looks"].keys()
    assert all(look["label"] == names[int(row)] for row, look in data["looks"].items())


def test_a_score_that_does_not_take_text_labels_names_one_that_does(table, capsys):
    frame = pd.read_csv(table)
    frame["kind"] = np.where(frame["kind"] == "s", "yes", "no")
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "--scoring", "f1") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.endswith("; try --scoring f1_macro\n")
    assert "pos_label" not in error


def test_columns_of_the_same_name_are_refused(table, capsys):
    lines = table.read_text().splitlines()
    for name, taken in (("kind", False), ("b", True)):
        twin = table.with_name("twin.csv")
        twin.write_text("\n".join([f"{lines[0]},{name}", *(f"{line},1" for line in lines[1:])]))
        assert weight(twin, "--target", "kind", "-m", "3") == 2
        assert f"has several columns called {name!r}" in capsys.readouterr().err
        assert (weight(twin, "--target", "kind", "-m", "3", "--drop", name) == 0) == taken
        capsys.readouterr()


def test_json_holds_the_figures_and_nothing_else_is_printed(table, capsys):
    assert weight(table, "--target", "kind", "-m", "10", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    weights = weights_in(figures["output"])
    assert figures["samples"] == 150
    assert figures["features"] == list("abcd")
    assert figures["largest_weight"] == weights.max()
    assert figures["effective_samples"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_json_holds_the_evidence(line, capsys):
    assert weight(line, "--target", "y", "-k", "5", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["verdict"].startswith("Equal weights are kept")
    assert figures["chosen"] == {"weight_ratio": 1.0}
    assert (figures["gain"], figures["gain_interval"], figures["task"]) == (0.0, [0.0, 0.0], "regression")


def test_classes_are_weighted_by_evidence_too(table, capsys):
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *lines[51::3]]))
    assert weight(table, "--target", "kind", "-k", "5", "--json") == 0
    assert json.loads(capsys.readouterr().out)["task"] == "classification"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "price"], "has no column 'price'; its columns are a, b, c, d, kind"),
        (["--target", "kind", "--drop", "price"], "has no column 'price'"),
        (["--target", "kidn"], "did you mean 'kind'?"),
        (["--target", "kind", "-m", "3", "-k", "500"], "-k 500 needs at least 500 samples, got 150"),
        (["--target", "kind", "--model", "magic"], "--model 'magic' is unknown; expected one of linear, boosting"),
        (["--target", "kind", "--model", "math:pi"], "--model 'math:pi' raises TypeError"),
        (["--target", "kind", "--model", "sklearn.linear_model:Ridge"], "is a Ridge; expected a classifier"),
        (["--target", "kind", "-m", "3", "--model", "svm"], "--weight-ratio with --auto, --scoring or --model"),
        (["--target", "kind", "-k", "many"], "Invalid value for '--n-neighbors'"),
        (["--target", "kind", "-k", "0"], "-k 0 is too small"),
        (["--target", "kind", "-m", "3", "--measure", "beauty"], "--measure 'beauty' is unknown"),
        (
            ["--target", "kind", "-m", "3", "--report", "page.pdf"],
            "--report must end in .html, for example page.html; got page.pdf",
        ),
        (["--target", "kind", "--encoding", "none"], "--encoding 'none' is unknown"),
        (["--target", "kind", "-m", "0"], "-m 0.0 is out of range"),
        (["--target", "kind", "-m", "3", "--task", "guess"], "--task='guess' is unknown; need one of 'auto'"),
        (["--target", "kind", "-m", "3", "--scoring", "accuracy"], "--weight-ratio with --auto, --scoring or --model"),
        (["--target", "kind", "--scoring", "beauty"], "--scoring 'beauty' is unknown"),
        (["--target", "kind", "-m", "3", "-o", "none/w.csv"], "its folder does not exist; create it first"),
        (["--target", "kind", "-m", "3", "-o", "w.csv.gz"], "has the suffix '.gz'; expected one of .csv, .parquet"),
        (["--target", "kind", "--drop", "a", "--drop", "b", "--drop", "c", "--drop", "d"], "no column left"),
        (["--target", "kind", "--scoring", "f1"], "--scoring f1 does not work with logistic regression"),
        (["--target", "a", "--scoring", "neg_log_loss"], "--scoring neg_log_loss does not work with ridge"),
        (["--target", "kind", "-m", "3", "--measure", "misfit"], "leave out -m to let a model decide"),
        ([], "Missing option '--target'"),
        (["--target", "kind", "--colour"], "No such option"),
    ],
)
def test_bad_input_ends_with_one_line(table, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(table.parent)
    assert weight(table, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("steep: ")
    assert error.count("\n") == 1
    assert list(table.parent.iterdir()) == [table]


def test_a_file_that_is_missing_or_no_table_is_named(tmp_path, capsys):
    assert weight(tmp_path / "none.csv", "--target", "a") == 2
    assert "none.csv cannot be read (No such file or directory)" in capsys.readouterr().err
    assert weight(tmp_path, "--target", "a") == 2
    assert "is a folder without .parquet files" in capsys.readouterr().err
    (tmp_path / "empty.csv").write_text("")
    assert weight(tmp_path / "empty.csv", "--target", "a") == 2
    assert "is not a CSV table" in capsys.readouterr().err


def test_a_single_class_is_refused(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(f"{i * i},same" for i in range(30)))
    assert weight(tmp_path / "t.csv", "--target", "y") == 2
    assert "has only one class" in capsys.readouterr().err


# What is said of a table that is read.
NOTES = ("not used as a feature", "rows are left out", "and is taken as", "is read as", "looks like an id")
VALUES = ["1", "2", "0.5", "-3e5", "NA", "", "text", "inf", "1e400", "00002", '"q"', "True", "1_000", "é"]


def test_odd_tables_are_weighted_or_refused_in_one_line(tmp_path, capsys, monkeypatch):
    """Exit code 0 or 2, and 2 always with exactly one line that a person can read."""
    monkeypatch.chdir(tmp_path)
    rng, codes = random.Random(0), []
    for _ in range(100):
        names = rng.sample(["a", "b", "", "sample_weight", "Unnamed: 0", "y", "ä,b"], 4)
        menus = [rng.sample(VALUES, rng.choice([1, 2, 3])) if rng.random() < 0.4 else None for _ in names]
        rows = [",".join(rng.choice(menu) if menu else f"{rng.gauss(0, 1):.3f}" for menu in menus) for _ in range(30)]
        header = ",".join(f'"{name}"' for name in names)
        (tmp_path / "t.csv").write_text("\n".join([header, *rows]))
        options = rng.choice([[], ["--force"], ["--only"], ["--weight-column", "w"], ["--keep", names[0]]])
        codes.append(weight("t.csv", "--target", rng.choice(names), "-k", "3", "-m", "5", *options))
        error = [line for line in capsys.readouterr().err.splitlines() if not any(note in line for note in NOTES)]
        assert len(error) == (codes[-1] == 2), error
        assert not any("--debug" in line for line in error), error
    assert set(codes) == {0, 2}


# ------------------------------------------------------------------------------------- every kind of table


@pytest.fixture
def mixed(tmp_path):
    """Numbers, text and dates, a group of three rows each, some values missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=90).round(6),
            "colour": rng.choice(["red", "green", "blue"], size=90),
            "day": pd.date_range("2025-01-01", periods=90).strftime("%Y-%m-%d"),
            "who": np.repeat([f"p{i}" for i in range(30)], 3),
            "kind": rng.choice(["a", "b"], size=90),
        }
    )
    frame.to_csv(tmp_path / "mixed.csv", index=False)
    return frame


def test_text_and_dates_are_weighted_as_the_library_does(tmp_path, mixed, capsys):
    assert weight(tmp_path / "mixed.csv", "--target", "kind", "--drop", "who", "-k", "7", "-m", "10") == 0
    X = mixed[["size", "colour", "day"]].assign(day=pd.to_datetime(mixed["day"]))
    expected = sample_weights(X, mixed["kind"], n_neighbors=7, weight_ratio=10)
    np.testing.assert_allclose(weights_in(tmp_path / "mixed-weighted.csv"), expected)
    assert "1 of categories ('colour'), 1 of dates ('day')" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_table_of_another_country_is_read_and_written_as_it_was(tmp_path, mixed, capsys, encoding):
    table = mixed.rename(columns={"size": "größe"})[["größe", "colour", "kind"]]
    table.to_csv(tmp_path / "de.csv", index=False, sep=";", decimal=",", encoding=encoding)
    assert weight(tmp_path / "de.csv", "--target", "kind", "-m", "10", "--json") == 0
    assert "separated by ';', " in json.loads(capsys.readouterr().out)["format"]
    written = pd.read_csv(tmp_path / "de-weighted.csv", sep=";", decimal=",", encoding=encoding)
    expected = sample_weights(table[["größe", "colour"]], table["kind"], weight_ratio=10)
    np.testing.assert_allclose(written["sample_weight"], expected)


def test_missing_values_are_handled_as_the_library_does(tmp_path, mixed, capsys):
    mixed.loc[:3, "size"], mixed.loc[:1, "colour"] = np.nan, None
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    options = ["--target", "kind", "--drop", "who", "--drop", "day", "-m", "10"]
    assert weight(tmp_path / "mixed.csv", *options) == 0
    assert "6 missing values count as the median or the most frequent value" in capsys.readouterr().out
    assert weight(tmp_path / "mixed.csv", *options, "--json", "--force") == 0
    assert json.loads(capsys.readouterr().out)["missing"] == {"size": 4, "colour": 2}
    expected = sample_weights(mixed[["size", "colour"]], mixed["kind"], weight_ratio=10)
    np.testing.assert_allclose(weights_in(tmp_path / "mixed-weighted.csv"), expected)


@pytest.mark.slow
def test_evidence_is_found_on_text_dates_and_missing_values_with_groups(tmp_path, mixed, capsys):
    mixed.loc[:3, "size"] = np.nan
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    options = ["--target", "kind", "--groups", "who", "-k", "5", "--json"]
    assert weight(tmp_path / "mixed.csv", *options) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["features"] == ["size", "colour", "day"]
    assert "verdict" in figures


@pytest.mark.slow
def test_rows_of_one_group_share_a_fold(tmp_path, capsys):
    """A model that could learn the groups by heart would otherwise look perfect."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    X = rng.normal(size=(20, 2))[groups]
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(who=groups, y=rng.normal(size=20)[groups])
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = make_pipeline(StandardScaler(), Ridge())
    search = VarianceWeightedCV(model, n_neighbors=(5,), random_state=0)
    for options, given in (([], None), (["--groups", "who"], groups.astype(str))):
        drop = ["--drop", "who"] if given is None else []
        assert weight(tmp_path / "t.csv", "--target", "y", "-k", "5", *options, *drop, "--force", "--json") == 0
        verdict = json.loads(capsys.readouterr().out)["verdict"]
        assert verdict == str(search.fit(X, frame["y"].to_numpy(), groups=given).verdict_)


@pytest.mark.slow
def test_of_a_large_table_some_rows_decide_for_all(table, capsys):
    assert weight(table, "--target", "kind", "-k", "5", "--rows", "100", "--json", "--scoring", "neg_log_loss") == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert figures["deciding_rows"] == 100
    assert figures["samples"] == 150
    assert "100 of 150 rows, drawn at random, decide for all" in printed.err
    weights = weights_in(table.with_name("iris-weighted.csv"))
    assert len(weights) == 150
    assert (len(set(weights)) > 1) == ("measure" in figures["chosen"])


@pytest.mark.slow
def test_what_some_rows_chose_is_applied_to_all(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = 5.0 * (X[:, 0] > 0.8) + 0.1 * rng.normal(size=200)  # a step that no line follows
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    score, measure = "max_error", ["--measure", "variance", "--json"]
    assert weight(tmp_path / "t.csv", "--target", "y", "-k", "5", "--scoring", score, "--rows", "150", *measure) == 0
    chosen = json.loads(capsys.readouterr().out)["chosen"]
    assert chosen["weight_ratio"] != 1
    model = VarianceWeighted(make_pipeline(StandardScaler(), Ridge()), rescaling=Rescaling(clip=0.98), **chosen).fit(
        X, y
    )
    np.testing.assert_allclose(weights_in(tmp_path / "t-weighted.csv"), model.sample_weight_)


def test_another_measure_is_followed(table, points, kinds):
    assert weight(table, "--target", "kind", "-m", "10", "-k", "9", "--measure", "contradiction") == 0
    expected = sample_weights(points, kinds, n_neighbors=9, weight_ratio=10, measure="contradiction")
    np.testing.assert_allclose(weights_in(table.with_name("iris-weighted.csv")), expected)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_the_result_has_the_format_of_the_table(table, points, kinds, suffix):
    frame = pd.read_csv(table)
    source, output = table.with_name(f"t{suffix}"), table.with_name(f"t-weighted{suffix}")
    {".parquet": frame.to_parquet, ".feather": frame.to_feather}[suffix](source)
    assert weight(source, "--target", "kind", "-m", "10") == 0
    read = {".parquet": pd.read_parquet, ".feather": pd.read_feather}[suffix]
    np.testing.assert_allclose(read(output)["sample_weight"], sample_weights(points, kinds, weight_ratio=10))


def test_several_files_are_weighted_as_one(table, points, kinds, capsys):
    frame = pd.read_csv(table)
    parts = [table.with_name(f"part{i}.csv") for i in range(3)]
    for i, part in enumerate(parts):
        frame[i::3].to_csv(part, index=False)
    assert main(["weight", *map(str, parts), "--target", "kind", "-m", "10"]) == 2
    assert "3 files are weighted as one table; expected a file for the result; pass -o" in capsys.readouterr().err
    output = table.with_name("all.csv")
    assert weight(table.with_name("part*.csv"), "--target", "kind", "-m", "10", "-o", output) == 0
    order = np.concatenate([np.arange(i, 150, 3) for i in range(3)])
    expected = sample_weights(points[order], kinds[order], weight_ratio=10)
    np.testing.assert_allclose(weights_in(output), expected)
    assert pd.read_csv(output)["a"].tolist() == frame["a"][order].tolist()


def test_a_file_that_is_there_is_replaced_only_by_force(table, capsys):
    output = table.with_name("w.csv")
    output.write_text("kept")
    assert weight(table, "--target", "kind", "-m", "3", "-o", output) == 2
    assert "is there already; need a new file; name one, or pass --force" in capsys.readouterr().err
    assert output.read_text() == "kept"
    assert weight(table, "--target", "kind", "-m", "3", "-o", output, "--force") == 0
    assert len(weights_in(output)) == 150


def test_a_page_that_cannot_be_written_is_refused_before_any_work(table, capsys):
    assert weight(table, "--target", "kind", "-m", "3", "--report", table / "page.html") == 2
    assert "iris.csv cannot be created (File exists)" in capsys.readouterr().err
    assert list(table.parent.iterdir()) == [table]


# --------------------------------------------------------------- as the library does, and for which model


@pytest.fixture
def odd(mixed):
    """Categories, dates, gaps, whole numbers and large ones."""
    rng = np.random.default_rng(1)
    mixed["count"] = rng.integers(0, 9, size=90)
    mixed["big"] = rng.lognormal(9, 3, size=90)
    mixed.loc[[5, 6, 50], "size"], mixed.loc[[7, 70], "colour"] = np.nan, None
    return mixed.drop(columns="who").assign(day=pd.to_datetime(mixed["day"]))


@pytest.mark.parametrize("form", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("target", ["kind", "big", "count"])
@pytest.mark.parametrize("options", [{}, {"n_neighbors": 7, "measure": "contradiction"}])
def test_the_command_and_the_function_give_the_same_weights(tmp_path, odd, form, target, options, capsys):
    source, output = tmp_path / f"odd.{form}", tmp_path / "w.npy"
    write = {"csv": odd.to_csv, "parquet": odd.to_parquet, "feather": odd.to_feather}[form]
    write(source, **({"index": False} if form == "csv" else {}))
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert weight(source, "--target", target, "-m", "12", *flags, "-o", output) == 0
    expected = sample_weights(odd.drop(columns=target), odd[target], weight_ratio=12, **options)
    np.testing.assert_allclose(np.load(output), expected, rtol=1e-9)


def test_the_line_the_json_and_the_page_name_the_model_that_decided(line, capsys):
    page = line.with_name("page.html")
    assert weight(line, "--target", "y", "-k", "5", "--report", page) == 0
    said = "Decided with ridge regression (--model linear). The weights are for this model"
    assert said in capsys.readouterr().out
    assert said in page.read_text(encoding="utf-8")
    assert weight(line, "--target", "y", "-k", "5", "--json", "--force") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["model"], figures["decided_with"]) == ("linear", "ridge regression")


def small(table):
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *lines[51::3]]))
    return table


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("svm", "a support vector machine"),
        ("sklearn.linear_model:LogisticRegression", "LogisticRegression"),
        ("mine.py:chosen", "RidgeClassifier"),
    ],
)
def test_another_model_decides_when_it_is_named(table, capsys, monkeypatch, model, name):
    monkeypatch.chdir(table.parent)
    code = "from sklearn.linear_model import RidgeClassifier\nprint('hi')\nchosen = lambda: RidgeClassifier()\n"
    table.with_name("mine.py").write_text(code)
    assert weight(small(table), "--target", "kind", "-k", "5", "--model", model, "--json", "--jobs", "1") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["model"], figures["decided_with"]) == (model, name)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["forest", "boosting"])
def test_trees_decide_on_categories_and_gaps(tmp_path, odd, capsys, model):
    odd[:60].to_parquet(tmp_path / "t.parquet")
    options = ["--target", "kind", "-k", "1", "--measure", "misfit", "--model", model, "--jobs", "1", "--json"]
    assert weight(tmp_path / "t.parquet", *options) == 0
    assert json.loads(capsys.readouterr().out)["model"] == model


def test_rows_without_a_label_get_no_weight(table, points, kinds, capsys):
    frame = pd.read_csv(table)
    frame.loc[[2, 70], "kind"] = None
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "-m", "10") == 0
    assert "2 of 150 rows are left out: they have no label" in capsys.readouterr().err
    weights = weights_in(table.with_name("iris-weighted.csv"))
    kept = np.setdiff1d(np.arange(150), [2, 70])
    assert np.flatnonzero(np.isnan(weights)).tolist() == [2, 70]
    np.testing.assert_allclose(weights[kept], sample_weights(points[kept], kinds[kept], weight_ratio=10))


def test_whole_labels_with_a_gap_among_them_stay_whole(table, capsys):
    frame = pd.read_csv(table).assign(kind=lambda f: f["kind"].map({"s": 0, "ve": 1, "vi": 2}))
    frame.loc[3, "kind"] = None
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "-m", "10", "--json") == 0
    assert json.loads(capsys.readouterr().out)["classes"] == {"1": 50, "2": 50, "0": 49}


def test_a_table_comes_from_standard_input(table, start):
    output = table.with_name("w.csv")
    with table.open("rb") as file:
        run = start("weight", "-", "--target", "kind", "-m", "10", "-o", output, stdin=file)
        _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, b"")
    assert len(weights_in(output)) == 150
    with table.open("rb") as file:
        run = start("weight", "-", "--target", "kind", "-m", "10", stdin=file)
        assert b"pass -o" in run.communicate(timeout=60)[1]


def test_a_german_table_is_weighted_as_its_dates_and_numbers(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "Datum": pd.date_range("2013-07-20", periods=60),
            "Betrag": rng.uniform(500, 9000, size=60).round(2),
            "Art": rng.choice(["a", "b"], size=60),
        }
    )
    rows = [
        f"{day:%d.%m.%Y};{f'{amount:,.2f}'.translate(str.maketrans(',.', '.,'))};{kind}"
        for day, amount, kind in frame.itertuples(index=False)
    ]
    (tmp_path / "de.csv").write_text("\n".join(["Datum;Betrag;Art", *rows]))
    assert weight(tmp_path / "de.csv", "--target", "Art", "-m", "10", "-o", tmp_path / "w.npy", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["dates"] == ["Datum"]
    assert "'Betrag' has thousands separators" in printed.err
    expected = sample_weights(frame[["Datum", "Betrag"]], frame["Art"], weight_ratio=10)
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), expected)


def test_folds_that_cannot_be_made_are_explained_in_words_of_the_shell(table, capsys):
    frame = pd.read_csv(table).assign(who=["x", "y"] * 75)
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "--groups", "who", "-k", "5") == 2
    error = capsys.readouterr().err
    assert "to fit" not in error
    assert "cv=" not in error
    assert "--groups" in error


@pytest.mark.filterwarnings("always")
def test_a_warning_of_the_library_is_shown_once(table, capsys):
    frame = pd.read_csv(table).assign(y=np.maximum(np.arange(150), 60))
    frame.to_csv(table, index=False)
    options = ["--target", "y", "--task", "classification", "-k", "5", "--measure", "misfit"]
    assert weight(table, *options) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert len(lines) == len(set(lines))


@pytest.mark.filterwarnings("always")
def test_what_a_model_cannot_be_fitted_to_ends_with_one_line(table, capsys):
    frame = pd.read_csv(table)
    frame.loc[0, "a"] = 1e300
    frame.to_csv(table, index=False)
    code = weight(table, "--target", "kind", "-k", "5", "--measure", "misfit")
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert (code, len(lines)) == (2, 1)
    assert "check its columns" in lines[0]
