from steep._progress import progress


def test_progress_counts_what_is_done_where_it_is_shown(capsys):
    assert list(progress("abc", total=3, label="folds", shown=True)) == ["a", "b", "c"]
    shown = capsys.readouterr().err
    assert "folds" in shown
    assert "3/3" in shown


def test_progress_is_not_shown_where_nobody_watches(capsys):
    assert list(progress("abc", total=3, label="folds")) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
