from steep.cli import main


def test_demo_writes_its_pictures(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path / "out")]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"design.png", "weights.png"}
    printed = capsys.readouterr().out
    assert all(str(p) in printed for p in (tmp_path / "out").iterdir())
