import tracemalloc

import pytest

from steep.campaign.command import last_json, last_row

STRAY = "warning: mesh [3] is coarse\n{not json}\n[1, 2\n17\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": 1.5}', {"a": 1.5}),
        (STRAY + '{"a": 1.5}', {"a": 1.5}),
        (STRAY + '{"a": 1.5}\r\n\n  \n', {"a": 1.5}),
        (STRAY + '{"a": 1.5}\ndone in 3 s\n[ok]\n', {"a": 1.5}),
        (STRAY + '{"b": 0}\n{"a": 1.5}\nbye', {"a": 1.5}),
        (STRAY + '{\n "a": [\n  1,\n  2\n ]\n}\n', {"a": [1, 2]}),
        (STRAY + "  [1.5, 2.5]\n", [1.5, 2.5]),
        ("loading\n3.5\n", 3.5),
    ],
)
def test_json_is_found_among_stray_lines(text, answer):
    assert last_json(text) == answer


@pytest.mark.parametrize("text", ["", "no numbers", STRAY + "{", "[" * 100_000, '{"a": 1} and so on', "\x00\n"])
def test_a_text_without_json_is_refused(text):
    with pytest.raises((ValueError, RecursionError)):
        last_json(text)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a,b\n1,2\n3,4\n", {"a": 3.0, "b": 4.0}),
        ("loading, please wait\na,b\n1,2\n3,4\n", {"a": 3.0, "b": 4.0}),
        ("x\n\n time , u \n1,2\n", {"time": 1.0, "u": 2.0}),
        ('"a, b",c\n1,nan\n', {"a, b": 1.0}),
    ],
)
def test_the_last_row_of_a_csv_is_found_after_stray_lines(text, answer):
    found = last_row(text)
    assert {name: found[name] for name in answer} == answer


@pytest.mark.parametrize("text", ["", "1,2\n", "a\n1,2\n", "a,b\n1,x\n"])
def test_a_text_without_a_row_is_refused(text):
    with pytest.raises((ValueError, IndexError)):
        last_row(text)


def peak_of(call):
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("read", "text", "answer"),
    [
        (last_json, "a\n" * 200_000 + '{"u": 1}', {"u": 1}),
        (last_row, "u,v\n" + "1,2\n" * 100_000, {"u": 1.0, "v": 2.0}),
    ],
)
def test_memory_grows_with_the_text_and_not_with_its_lines(read, text, answer):
    found, peak = peak_of(lambda: read(text))
    assert found == answer
    assert peak < 6 * len(text) + 100_000  # StringIO keeps four bytes for each character


@pytest.mark.parametrize("text", ['{"u": 1, "u": 2}', 'start\n{"u": 0}\n{"u": 1, "u": 2}\ndone\n'])
def test_a_json_object_that_names_an_output_twice_is_refused(text):
    with pytest.raises(ValueError, match=r"\['u', 'u'\]; expected each name once"):
        last_json(text)


@pytest.mark.parametrize("text", ["u,u\n1,2\n", "u,v\n0,0\n u , u\n1,2\n"])
def test_a_csv_header_that_names_an_output_twice_is_refused(text):
    with pytest.raises(ValueError, match=r"\['u', 'u'\]; expected each name once"):
        last_row(text)
