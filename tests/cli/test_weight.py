"""``steep weight``: the weights of the library's functions, written next to the table."""

import json
import random
import re
from base64 import b64decode

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from steep import VarianceWeighted, VarianceWeightedCV, WeightSearch, sample_weights
from steep.cli import main
from steep.cli.tables import open_table
from steep.weighting.embedding import embed


def weight(table, *arguments):
    return main(["weight", str(table), *map(str, arguments)])


def weights_in(path):
    return pd.read_csv(path)["sample_weight"].to_numpy()


@pytest.fixture
def line(tmp_path):
    """A noisy line, for which equal weights are right."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0] + rng.normal(size=120))
    frame.to_csv(tmp_path / "line.csv", index=False)
    return tmp_path / "line.csv"


@pytest.fixture
def step(tmp_path):
    """A step that no line follows; its points and labels."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = 5.0 * (X[:, 0] > 0.8) + 0.1 * rng.normal(size=200)
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    return X, y


@pytest.fixture
def messy():
    """Categories, dates, gaps, whole numbers, large numbers, and three rows per person."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=90).round(6),
            "colour": rng.choice(["red", "green", "blue"], size=90),
            "day": pd.date_range("2025-01-01", periods=90),
            "count": rng.integers(0, 9, size=90),
            "big": rng.lognormal(9, 3, size=90),
            "flag": rng.random(90) < 0.5,
            "kind": rng.choice(["a", "b"], size=90),
        }
    )
    frame.loc[[5, 6, 50], "size"], frame.loc[[7, 70], "colour"] = np.nan, None
    return frame


# ------------------------------------------------------------------------- the command is a client


@pytest.mark.parametrize("form", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("target", ["kind", "big", "count"])
@pytest.mark.parametrize("options", [{}, {"n_neighbors": 7, "measure": "contradiction"}])
def test_the_command_and_the_function_give_identical_weights(tmp_path, messy, form, target, options):
    source, output = tmp_path / f"t.{form}", tmp_path / "w.npy"
    write = {"csv": messy.to_csv, "parquet": messy.to_parquet, "feather": messy.to_feather}[form]
    write(source, **({"index": False} if form == "csv" else {}))
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert weight(source, "--target", target, "-m", "12", *flags, "-o", output) == 0
    expected = sample_weights(messy.drop(columns=target), messy[target], weight_ratio=12, **options)
    np.testing.assert_array_equal(np.load(output), expected)


def test_a_messy_text_has_the_weights_of_its_frame(tmp_path):
    """German numbers and dates, names with spaces, gaps of many kinds: the frame that is read is what is weighted."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "Datum": pd.date_range("2013-07-20", periods=60),
            "Betrag": rng.uniform(500, 9000, size=60).round(2),
            "Größe": rng.normal(size=60).round(3),
            "Art": rng.choice(["a b", "c"], size=60),
        }
    )
    frame.loc[[3, 9], "Größe"] = np.nan
    german = str.maketrans(",.", ".,")
    rows = [
        f'{day:%d.%m.%Y};{f"{amount:,.2f}".translate(german)};{str(size).translate(german)};"{kind}"'
        for day, amount, size, kind in frame.itertuples(index=False)
    ]
    table = tmp_path / "de.csv"
    table.write_bytes("\n".join(["Datum;Betrag;Größe;Art", *rows]).replace("nan", "n.a.").encode("cp1252"))
    assert weight(table, "--target", "Art", "-m", "10", "-o", tmp_path / "w.npy") == 0
    expected = sample_weights(frame.drop(columns="Art"), frame["Art"], weight_ratio=10)
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), expected, rtol=1e-9)
    read = open_table(table).frame()
    identical = sample_weights(read.drop(columns="Art"), read["Art"], weight_ratio=10)
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy"), identical)


def test_without_a_ratio_the_search_of_the_library_decides(step, tmp_path, capsys):
    X, y = step
    score = "max_error"
    assert weight(tmp_path / "t.csv", "--target", "y", "-k", "5", "--scoring", score) == 0
    search = VarianceWeightedCV(Ridge(), scoring=score, n_neighbors=(5,), embedding=None, random_state=0)
    search.fit(embed(X), y)
    assert search.best_params_["weight_ratio"] != 1
    np.testing.assert_allclose(weights_in(tmp_path / "t-weighted.csv"), search.sample_weight_)
    assert str(search.verdict_) in capsys.readouterr().out


@pytest.mark.parametrize("measure", ["variance", "misfit"])
def test_what_some_rows_chose_is_applied_to_all(step, tmp_path, capsys, monkeypatch, measure):
    from steep.cli import models

    X, y = step
    name, for_classes, for_numbers, _ = models._KNOWN["linear"]
    monkeypatch.setitem(models._KNOWN, "linear", (name, for_classes, for_numbers, 150))
    options = ["--target", "y", "-k", "5", "--scoring", "max_error", "--measure", measure, "--json"]
    assert weight(tmp_path / "t.csv", *options) == 0
    printed = capsys.readouterr()
    assert "150 of 200 rows, drawn at random, decide for all" in printed.err
    figures = json.loads(printed.out)
    assert (figures["deciding_rows"], figures["samples"]) == (150, 200)
    assert figures["chosen"]["weight_ratio"] != 1
    found = weights_in(tmp_path / "t-weighted.csv")
    model = VarianceWeighted(Ridge(), rescaling=WeightSearch().rescaling, **figures["chosen"]).fit(X, y)
    # A model that measures is fitted to as many rows as decided, so that it need not be exactly the same.
    assert np.corrcoef(found, model.sample_weight_)[0, 1] > (1 - 1e-9 if measure == "variance" else 0.9)


def test_rows_of_one_group_share_a_fold(tmp_path, capsys):
    """A model that could learn the groups by heart would otherwise look perfect."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    X = rng.normal(size=(20, 2))[groups]
    y = rng.normal(size=20)[groups]
    pd.DataFrame(X, columns=["a", "b"]).assign(who=groups, y=y).to_csv(tmp_path / "t.csv", index=False)
    options = ["--target", "y", "-k", "5", "--groups", "who", "--json"]
    assert weight(tmp_path / "t.csv", *options) == 0
    search = VarianceWeightedCV(Ridge(), n_neighbors=(5,), embedding=None, random_state=0)
    expected = str(search.fit(embed(X), y, groups=groups.astype(str)).verdict_)
    assert json.loads(capsys.readouterr().out)["verdict"] == expected


@pytest.mark.slow
@pytest.mark.parametrize("model", ["forest", "boosting", "svm"])
def test_other_models_decide_on_categories_and_gaps(tmp_path, messy, capsys, model):
    messy[:60].to_parquet(tmp_path / "t.parquet")
    options = ["--target", "kind", "-k", "1", "--measure", "misfit", "--model", model, "--json"]
    assert weight(tmp_path / "t.parquet", *options) == 0
    assert json.loads(capsys.readouterr().out)["model"] == model


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("sklearn.linear_model:LogisticRegression", "LogisticRegression"),
        ("mine.py:chosen", "RidgeClassifier"),
        ("mine.py:pipe", "Pipeline"),
    ],
)
def test_another_model_decides_when_it_is_named(table, capsys, monkeypatch, model, name):
    monkeypatch.chdir(table.parent)
    code = (
        "from sklearn.linear_model import RidgeClassifier\nfrom sklearn.pipeline import make_pipeline\nprint('hi')\n"
        "chosen = lambda: RidgeClassifier()\npipe = make_pipeline('passthrough', RidgeClassifier())\n"
    )
    table.with_name("mine.py").write_text(code)
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *lines[51::3]]))
    assert weight(table, "--target", "kind", "-k", "5", "--model", model, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["model"], figures["decided_with"]) == (model, name)


# ------------------------------------------------------------------------- what is said


def test_the_reading_is_stated(table, capsys):
    assert weight(table, "--target", "kind", "-m", "10") == 0
    printed = capsys.readouterr()
    assert "iris.csv: 150 rows, CSV separated by ',', UTF-8" in printed.out
    assert "target 'kind' read as 3 classes (s 50, ve 50, vi 50)" in printed.out
    assert "150 samples weighted from" in printed.out
    assert printed.err == ""


def test_the_kinds_of_columns_and_the_gaps_are_stated(tmp_path, messy, capsys):
    messy.to_csv(tmp_path / "t.csv", index=False)
    options = ["--target", "kind", "-m", "10", "-o", tmp_path / "w.npy", "--force"]
    assert weight(tmp_path / "t.csv", *options) == 0
    out = capsys.readouterr().out
    assert "6 columns, 3 of numbers, 2 of categories ('colour', 'flag'), 1 of dates ('day'); missing values (5)" in out
    assert weight(tmp_path / "t.csv", *options, "--json") == 0
    assert json.loads(capsys.readouterr().out)["missing"] == {"size": 3, "colour": 2}


def test_json_holds_the_figures_and_nothing_else_is_printed(table, capsys):
    assert weight(table, "--target", "kind", "-m", "10", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    weights = weights_in(figures["output"])
    assert (figures["samples"], figures["features"]) == (150, list("abcd"))
    assert figures["largest_weight"] == weights.max()
    assert figures["effective_samples"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_equal_weights_that_win_are_written_and_the_model_that_decided_is_named(line, capsys):
    pytest.importorskip("jinja2")
    page = line.with_name("page.html")
    assert weight(line, "--target", "y", "-k", "5", "--report", page) == 0
    out, said = (
        capsys.readouterr().out,
        "Decided with ridge regression (--model linear). Another model may need other weights",
    )
    assert "\nEqual weights are kept" in out
    assert said in out
    assert said in page.read_text(encoding="utf-8")
    assert (weights_in(line.with_name("line-weighted.csv")) == 1).all()
    assert weight(line, "--target", "y", "-k", "5", "--json", "--force") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["verdict"].startswith("Equal weights are kept")
    assert (figures["model"], figures["decided_with"]) == ("linear", "ridge regression")
    assert figures["chosen"] == {"weight_ratio": 1.0}
    assert (figures["gain"], figures["gain_interval"], figures["task"]) == (0.0, [0.0, 0.0], "regression")


@pytest.mark.filterwarnings("always")
def test_a_warning_of_the_library_is_shown_once(table, capsys):
    frame = pd.read_csv(table).assign(y=np.maximum(np.arange(150), 60))
    frame.to_csv(table, index=False)
    options = ["--target", "y", "--task", "classification", "-k", "5", "--measure", "misfit"]
    assert weight(table, *options) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert len(lines) == len(set(lines))


# ------------------------------------------------------------------------- columns and rows


def test_dropped_columns_are_left_out_of_the_search(table, points):
    output = table.parent / "w.csv"
    assert weight(table, "--target", "a", "--drop", "kind", "-m", "40", "-o", output) == 0
    np.testing.assert_allclose(weights_in(output), sample_weights(points[:, 1:], points[:, 0], weight_ratio=40))


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


def test_rows_without_a_label_get_no_weight(table, points, kinds, capsys):
    frame = pd.read_csv(table).assign(late=np.nan)
    frame.insert(0, "nr", range(150))
    frame["order_id"] = range(1000, 1150)
    frame.loc[[2, 70], "late"] = 1.0
    frame.loc[[2, 70], "kind"] = None
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "-m", "10", "--drop", "order_id") == 0
    assert "2 of 150 rows are left out: they have no label" in capsys.readouterr().err
    weights = weights_in(table.with_name("iris-weighted.csv"))
    kept = np.setdiff1d(np.arange(150), [2, 70])
    assert np.flatnonzero(np.isnan(weights)).tolist() == [2, 70]
    np.testing.assert_allclose(weights[kept], sample_weights(points[kept], kinds[kept], weight_ratio=10))
    # Whether a column counts the rows is judged on all of them, whether it is empty on the labelled ones.
    assert weight(table, "--target", "kind", "-m", "10", "--json", "--force") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["left_out"], figures["id_like"]) == (["nr", "late"], ["order_id"])


def test_whole_labels_with_a_gap_among_them_stay_whole(table, capsys):
    frame = pd.read_csv(table).assign(kind=lambda f: f["kind"].map({"s": 0, "ve": 1, "vi": 2}))
    frame.loc[3, "kind"] = None
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "-m", "10", "--json") == 0
    assert json.loads(capsys.readouterr().out)["classes"] == {"1": 50, "2": 50, "0": 49}


def test_the_page_shows_the_rows_of_the_file_when_labels_are_missing(table):
    pytest.importorskip("jinja2")
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
    assert np.frombuffer(b64decode(data["rows"]["base64"]), "<u4").tolist() == weights.index.tolist()


def test_columns_of_the_same_name_are_refused_unless_dropped(table, capsys):
    lines = table.read_text().splitlines()
    for name, taken in (("kind", False), ("b", True)):
        twin = table.with_name("twin.csv")
        twin.write_text("\n".join([f"{lines[0]},{name}", *(f"{line},1" for line in lines[1:])]))
        assert weight(twin, "--target", "kind", "-m", "3") == 2
        assert f"has several columns called {name!r}" in capsys.readouterr().err
        assert (weight(twin, "--target", "kind", "-m", "3", "--drop", name) == 0) == taken
        capsys.readouterr()


# ------------------------------------------------------------------------- files


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
    expected += [f"{row},{value!r}" for row, value in zip(rows, weights.tolist(), strict=True)]
    assert written == end.join([*expected, ""])


def test_weights_alone_go_to_a_file_of_their_own(table, points, kinds):
    expected = sample_weights(points, kinds, weight_ratio=10)
    for name in ("w.txt", "w.npy"):
        output = table.with_name(name)
        assert weight(table, "--target", "kind", "-m", "10", "-o", output) == 0
        found = np.load(output) if name == "w.npy" else np.loadtxt(output, skiprows=1)
        np.testing.assert_allclose(found, expected)
    assert output.with_name("w.txt").read_text().startswith("sample_weight\n")


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_the_result_has_the_format_of_the_table(table, points, kinds, suffix):
    frame = pd.read_csv(table).assign(n=pd.array([None, *range(149)], dtype="Int64"))
    source, output = table.with_name(f"t{suffix}"), table.with_name(f"t-weighted{suffix}")
    {".parquet": frame.to_parquet, ".feather": frame.to_feather}[suffix](source)
    assert weight(source, "--target", "kind", "-m", "10", "--drop", "n") == 0
    written = {".parquet": pd.read_parquet, ".feather": pd.read_feather}[suffix](output)
    np.testing.assert_allclose(written.pop("sample_weight"), sample_weights(points, kinds, weight_ratio=10))
    assert written["n"].sum() == frame["n"].sum()
    assert open_table(output).arrow.schema.field("n").type == "int64"


def test_a_text_can_become_parquet(table, points, kinds):
    output = table.with_name("w.parquet")
    assert weight(table, "--target", "kind", "-m", "10", "-o", output) == 0
    written = pd.read_parquet(output)
    np.testing.assert_allclose(written.pop("sample_weight"), sample_weights(points, kinds, weight_ratio=10))
    assert written["kind"].tolist() == pd.read_csv(table)["kind"].tolist()


def test_the_table_itself_is_written_only_by_force(table, capsys):
    before = table.read_text()
    link = table.with_name("link.csv")
    link.symlink_to(table)
    for output in (table, link):
        assert weight(table, "--target", "kind", "-m", "3", "-o", output) == 2
        assert "is the table itself; expected another file; name one, or pass --force" in capsys.readouterr().err
        assert table.read_text() == before
    assert weight(table, "--target", "kind", "-m", "3", "-o", link, "--force") == 0
    assert link.is_symlink()
    assert [line.rpartition(",")[0] for line in table.read_text().splitlines()] == before.splitlines()


def test_old_weights_are_no_feature_and_are_replaced_only_by_force(table, points, kinds, capsys):
    frame = pd.read_csv(table)
    frame.insert(1, "sample_weight", 3.0)
    frame.to_csv(table, index=False)
    output = table.with_name("w.csv")
    assert weight(table, "--target", "kind", "-m", "10", "-o", output) == 2
    assert "has a column 'sample_weight' already; rename it, or pass --force" in capsys.readouterr().err
    assert weight(table, "--target", "kind", "-m", "10", "--force", "-o", output) == 0
    assert "'sample_weight' holds weights and is not used as a feature" in capsys.readouterr().err
    np.testing.assert_allclose(weights_in(output), sample_weights(points, kinds, weight_ratio=10))
    columns = [[line.split(",") for line in path.read_text().splitlines()] for path in (table, output)]
    assert [row[:1] + row[2:] for row in columns[0]] == [row[:1] + row[2:] for row in columns[1]]
    named = table.with_name("named.csv")
    named.write_text(table.read_text().replace("sample_weight", "old").replace("kind", "sample_weight"))
    assert weight(named, "--target", "sample_weight", "-m", "3", "--force") == 2
    assert "the name of the column of weights; rename it first" in capsys.readouterr().err


def test_a_table_comes_from_standard_input(table, start):
    output = table.with_name("w.csv")
    for more, code in ((["-o", output], 0), ([], 2)):
        with table.open("rb") as file:
            run = start("weight", "-", "--target", "kind", "-m", "10", *more, stdin=file)
            _, err = run.communicate(timeout=300)
        assert run.returncode == code, err
    assert b"pass -o" in err
    assert len(weights_in(output)) == 150


# ------------------------------------------------------------------------- hostile input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "price"], "has no column 'price'; its columns are a, b, c, d, kind"),
        (["--target", "kind", "--drop", "price"], "has no column 'price'"),
        (["--target", "kidn"], "did you mean 'kind'?"),
        (["--target", "kind", "-m", "3", "-k", "500"], "--n-neighbors 500 needs at least 500 samples, got 150"),
        (["--target", "kind", "--model", "magic"], "--model 'magic' is unknown; expected one of linear, svm"),
        (["--target", "kind", "--model", "math:pi"], "--model 'math:pi' raises TypeError"),
        (["--target", "kind", "--model", "sklearn.linear_model:Ridge"], "is a Ridge; expected a classifier"),
        (["--target", "kind", "-m", "3", "--model", "svm"], "--weight-ratio with --scoring or --model"),
        (["--target", "kind", "-k", "many"], "Invalid value for '--n-neighbors'"),
        (["--target", "kind", "-k", "0"], "--n-neighbors 0 is too small"),
        (["--target", "kind", "-m", "3", "--measure", "beauty"], "--measure 'beauty' is unknown"),
        (["--target", "kind", "-m", "0"], "--weight-ratio 0.0 is out of range"),
        (["--target", "kind", "-m", "3", "--task", "guess"], "--task 'guess' is unknown; expected one of 'auto'"),
        (["--target", "kind", "-m", "3", "--decimal", "x"], "--decimal is 'x'; expected '.' or ','"),
        (["--target", "kind", "--scoring", "beauty"], "--scoring 'beauty' is unknown"),
        (["--target", "kind", "-m", "3", "-o", "none/w.csv"], "its folder does not exist; create it first"),
        (["--target", "kind", "-m", "3", "-o", "w.csv.gz"], "has the suffix '.gz'; expected one of .csv, .parquet"),
        (["--target", "kind", "--drop", "a", "--drop", "b", "--drop", "c", "--drop", "d"], "no column left"),
        (["--target", "kind", "--scoring", "f1"], "--scoring f1 does not work with logistic regression"),
        (["--target", "a", "--scoring", "neg_log_loss"], "--scoring neg_log_loss does not work with ridge"),
        (["--target", "kind", "-m", "3", "--measure", "misfit"], "asks the model that is to be trained"),
        (["--target", "kind", "--groups", "two", "-k", "5"], "cannot split these data"),
        (["--target", "one", "-m", "3"], "has only one value"),
        ([], "Missing option '--target'"),
        (["--target", "kind", "--colour"], "No such option"),
    ],
)
def test_bad_input_ends_with_one_line(table, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(table.parent)
    if {"two", "one"} & set(arguments):
        pd.read_csv(table).assign(two=["x", "y"] * 75, one="same").to_csv(table, index=False)
    assert weight(table, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("steep: ")
    assert error.count("\n") == 1
    assert list(table.parent.iterdir()) == [table]


def test_a_score_that_does_not_take_text_labels_names_one_that_does(table, capsys):
    frame = pd.read_csv(table)
    frame["kind"] = np.where(frame["kind"] == "s", "yes", "no")
    frame.to_csv(table, index=False)
    assert weight(table, "--target", "kind", "--scoring", "f1") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "such as f1_macro for f1" in error


def test_a_file_that_is_missing_or_is_not_a_table_is_named(tmp_path, capsys):
    assert weight(tmp_path / "none.csv", "--target", "a", "-o", tmp_path / "w.csv") == 2
    assert "none.csv cannot be read (No such file or directory)" in capsys.readouterr().err
    assert weight(tmp_path, "--target", "a", "-o", tmp_path / "w.csv") == 2
    assert "cannot be read (Is a directory)" in capsys.readouterr().err
    (tmp_path / "empty.csv").write_text("")
    assert weight(tmp_path / "empty.csv", "--target", "a") == 2
    assert "is not a CSV table" in capsys.readouterr().err


# What is said of a table that is read.
NOTES = ("not used as a feature", "rows are left out", "and is taken as", "is read as", "looks like an id")
VALUES = ["1", "2", "0.5", "-3e5", "NA", "", "text", "inf", "1e400", "00002", '"q"', "True", "1_000", "é"]


def test_odd_tables_are_weighted_or_refused_in_one_line(tmp_path, capsys, monkeypatch):
    """Exit code 0 or 2, and 2 always with exactly one line that a person can read."""
    monkeypatch.chdir(tmp_path)
    rng, codes = random.Random(0), []
    for _ in range(40):
        names = rng.sample(["a", "b", "", "sample_weight", "Unnamed: 0", "y", "ä,b"], 4)
        menus = [rng.sample(VALUES, rng.choice([1, 2, 3])) if rng.random() < 0.4 else None for _ in names]
        rows = [",".join(rng.choice(menu) if menu else f"{rng.gauss(0, 1):.3f}" for menu in menus) for _ in range(30)]
        header = ",".join(f'"{name}"' for name in names)
        (tmp_path / "t.csv").write_text("\n".join([header, *rows]))
        options = rng.choice([[], ["--force"], ["--keep", names[0]]])
        codes.append(weight("t.csv", "--target", rng.choice(names), "-k", "3", "-m", "5", *options))
        error = [line for line in capsys.readouterr().err.splitlines() if not any(note in line for note in NOTES)]
        assert len(error) == (codes[-1] == 2), error
        assert not any("--debug" in line for line in error), error
    assert set(codes) == {0, 2}


@pytest.mark.filterwarnings("always")
def test_what_a_model_cannot_be_fitted_to_ends_with_one_line(table, capsys):
    table.with_name("mine.py").write_text(
        "from sklearn.linear_model import LogisticRegression\nfrom sklearn.pipeline import make_pipeline\n"
        "pipe = make_pipeline('passthrough', LogisticRegression())\n"
    )
    pd.read_csv(table).assign(colour="red").to_csv(table, index=False)
    code = weight(table, "--target", "kind", "-k", "5", "--model", f"{table.parent}/mine.py:pipe")
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert (code, len(lines)) == (2, 1)
    assert "check its columns" in lines[0]


def test_a_table_that_does_not_exist_is_named_before_its_result(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["weight", "nofile.csv", "--target", "a"]) == 2
    assert capsys.readouterr().err == "steep: nofile.csv does not exist; check the path\n"
