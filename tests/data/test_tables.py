"""Tables of every format give the same numbers, and errors name what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import sys
import threading
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from mfbocd.io.tables import TableError, objects, open_table

from ..parts import PATIENCE

pytestmark = pytest.mark.slow

TIMES = ["09:00", "09:01", "09:02", "09:03"]
IMU = [0.5, None, -2.0, 3e-5]
GPS = [1.0, 2.0, None, 4.0]


def rows(path: Path | str, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
    with open_table(path, **options) as table:
        return [
            (chunk.numbers[i], *(chunk.number(i, c) for c in columns))
            for chunk in table.chunks(columns)
            for i in range(len(chunk))
        ]


def written(path: Path) -> Path:
    cells = [["" if v is None else repr(v) for v in column] for column in (IMU, GPS)]
    csv = "time,imu,gps\n" + "".join(f"{t},{a},{b}\n" for t, a, b in zip(TIMES, *cells, strict=True))
    table = pa.table({"time": TIMES, "imu": IMU, "gps": GPS})
    name = path.name
    if name.endswith((".csv", ".txt")):
        path.write_text(csv)
    elif name.endswith(".tsv"):
        path.write_text(csv.replace(",", "\t"))
    elif name.endswith(".csv.gz"):
        path.write_bytes(gzip.compress(csv.encode()))
    elif ".jsonl" in name:
        lines = [json.dumps(row) for row in table.to_pylist()]
        path.write_bytes(
            gzip.compress("\n".join(lines).encode()) if name.endswith("gz") else "\n".join(lines).encode()
        )
    elif name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=3)
    elif name.endswith(".feather"):
        pyarrow.feather.write_feather(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    return path


KINDS = ["a.csv", "a.txt", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet", "a.feather", "a.arrow"]


@pytest.mark.parametrize("name", KINDS)
def test_every_format_reads_the_same(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name)
    found = rows(path, "gps", "imu")
    assert [row[1:] for row in found] == list(zip(GPS, IMU, strict=True))
    first = 1 if name.split(".", 1)[1] in ("parquet", "feather", "arrow", "jsonl", "jsonl.gz") else 2
    assert [row[0] for row in found] == [first, first + 1, first + 2, first + 3]
    with open_table(path) as table:
        assert table.columns == ("time", "imu", "gps")
        chunk = next(table.chunks(["time"], rows=2))
        assert [chunk.label(i, "time") for i in range(2)] == TIMES[:2]
        assert len(chunk) == 2


@pytest.mark.parametrize("name", KINDS)
def test_the_first_bytes_determine_the_format(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name).rename(tmp_path / "nameless")
    assert [row[1] for row in rows(path, "imu")] == IMU


@pytest.mark.parametrize("name", KINDS)
def test_progress_ends_at_the_total(name: str, tmp_path: Path) -> None:
    with open_table(written(tmp_path / name)) as table:
        for _ in table.chunks(["imu"]):
            pass
        if table.total is not None:
            assert table.done == table.total > 0
        assert (table.total is None) == (name in ("a.feather", "a.arrow"))


@pytest.mark.parametrize(
    ("text", "columns", "values"),
    [
        ("1\n2.5\n\n-3", ("x",), [1.0, 2.5, None, -3.0]),
        ("\n\n1\n2\n", ("x",), [1.0, 2.0]),
        ("NA\n1\nNaN\nnull\n", ("x",), [None, 1.0, None, None]),
        ("speed\n1\n", ("speed",), [1.0]),
        ("\ufeffspeed\r\n1\r\n2\r\n", ("speed",), [1.0, 2.0]),
        ("speed;n\n1,5;2\n\n2.5;3\n", ("speed", "n"), [1.5, 2.5]),
        ("1,5;2,5\n3;4\n", ("1", "2"), [1.5, 3.0]),
        ('"a, b",c\n"1",2\n', ("a, b", "c"), [1.0]),
        ('a,b\n1,"two\nlines"\n3,4\n', ("a", "b"), [1.0, 3.0]),
        ("1.0,2024-05-01\n2.0,2024-05-02\n", ("1", "2"), [1.0, 2.0]),
        ("a, b\n 1 , 2\n", ("a", "b"), [1.0]),
        ("on\ntrue\nFALSE\n", ("on",), [1.0, 0.0]),
    ],
)
def test_csv_variants(text: str, columns: tuple[str, ...], values: list[float | None], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    with open_table(path) as table:
        assert table.columns == columns
    assert [row[1] for row in rows(path, columns[0])] == values


@pytest.mark.parametrize(
    ("name", "text", "columns", "values"),
    [
        ("a.csv", '"t","x"\n"0","1,200"\n"1","-1,300,000.5"\n', ("t", "x"), [1200.0, -1300000.5]),
        ("a.csv", "t;x\n0;1.234,5\n1;1.234.567\n2;1,5\n3;1.5\n", ("t", "x"), [1234.5, 1234567.0, 1.5, 1.5]),
        ("a.csv", "# a station\n#\nt,x\n0,1\n", ("t", "x"), [1.0]),
        ("a.dat", "# t x\n0.0 1.0\n1.0 2.0\n", ("t", "x"), [1.0, 2.0]),
        ("a.dat", "# values of a station\n0 1\n1 2\n", ("1", "2"), [1.0, 2.0]),
        ("a.dat", "  t   x \n  0   1.5  \n", ("t", "x"), [1.5]),
        ("a.dat", "pump 7\n\n1.5\n", ("pump 7",), [None, 1.5]),
        ("a.csv", "t|x\n0|1\n", ("t", "x"), [1.0]),
        ("a.csv", "t,x,,\n0,1,,\n1,2,,\n", ("t", "x"), [1.0, 2.0]),
        ("a.csv", "t,x\n0,1,\n1,2,,\n", ("t", "x"), [1.0, 2.0]),
        ("a.csv", ",x\n0,1.5\n", ("1", "x"), [1.5]),
        ("a.json", '[{"t": 0, "x": 1},\n {"t": 1, "x": "1,200"}]\n', ("t", "x"), [1.0, 1200.0]),
        ("a.json", "\ufeff [1, 2.5, null,\n3]", ("x",), [1.0, 2.5, None, 3.0]),
        ("a", "[[0, 1], [1, 2]]", ("1", "2"), [1.0, 2.0]),
    ],
)
def test_odd_tables(
    name: str, text: str, columns: tuple[str, ...], values: list[float | None], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, newline="")
    with open_table(path) as table:
        assert table.columns == columns
    assert [row[1] for row in rows(path, columns[-1])] == values
    (tmp_path / "wide.txt").write_text(text, encoding="utf-16", newline="")
    if name.endswith(("csv", "dat")):
        assert [row[1] for row in rows(tmp_path / "wide.txt", columns[-1])] == values


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress, None])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "numbers.json"])
def test_compressed_text(name: str, compress: Any, tmp_path: Path) -> None:
    objects = [{"x": i / 8} for i in range(20_000)]  # an array of several blocks
    text = {
        "a.csv": "x\n" + "".join(f"{i / 8}\n" for i in range(20_000)),
        "a.jsonl": "".join(json.dumps(one) + "\n" for one in objects),
        "a.json": json.dumps(objects),
        "numbers.json": json.dumps([one["x"] for one in objects]),
    }[name].encode()
    path = tmp_path / "nameless"
    if compress is None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("__MACOSX/._a", "")
            archive.writestr(f"folder/{name}", text)
    else:
        path.write_bytes(compress(text))
    assert [row[1] for row in rows(path, "x")] == [i / 8 for i in range(20_000)]


def test_an_array_may_be_split_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    values = [1.5, -2e30, 3e-05, 12, None, 7.125, 0.1]
    for text in (json.dumps(values), json.dumps(values, indent=2), json.dumps([{"x": value} for value in values])):
        path.write_text(text)
        for size in range(1, 40):
            monkeypatch.setattr(objects, "_BLOCK", size)
            assert [row[1] for row in rows(path, "x")] == values


def test_options_of_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t\tx\n0\t1,5\n1\t1,500\n2\t?\n")
    with pytest.raises(TableError, match=r"^line 2, column 'x': the comma of '1,5' can divide thousands or decimals"):
        rows(path, "x")
    assert rows(path, "x", decimal=",", na=["?"]) == [(2, 1.5), (3, 1.5), (4, None)]
    assert rows(path, "x", decimal=".", on_bad="skip") == [(2, None), (3, 1500.0), (4, None)]
    path.write_bytes("größe\n1\n2\n".encode("latin-1"))
    assert rows(path, "größe", encoding="latin-1") == [(2, 1.0), (3, 2.0)]
    path.write_bytes(b"a,b\n1,2\n\xff,3\n4\n5,x\n6,7\n")
    with open_table(path, on_bad="skip") as table:
        chunk = next(table.chunks())
        assert [chunk.number(i, "b") for i in range(len(chunk))] == [2.0, None, 7.0]
        assert table.rules.skipped is not None
        assert (table.rules.skipped.count, table.rules.skipped.first) == (3, "line 3: byte 0xff is not UTF-8 text")
    for wrong in ({"format": "xls"}, {"on_bad": "stopp"}, {"decimal": "?"}, {"encoding": "latin-99"}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
            open_table(path, **wrong)  # type: ignore[arg-type]


def test_only_the_chosen_cell_can_be_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("imu,gps\n1,2\n" * 1 + "3,abc\n" + '"multi\nline",5\n7,inf\n')
    with open_table(path) as table:
        chunk = next(table.chunks())
    assert [chunk.number(i, "gps") for i in (0, 2)] == [2.0, 5.0]
    with pytest.raises(TableError, match=r"^line 3, column 'gps': 'abc' is not a number$"):
        chunk.number(1, "gps")
    with pytest.raises(TableError, match=r"^line 4, column 'imu': 'multi\\nline' is not a number$"):
        chunk.number(2, "imu")
    with pytest.raises(TableError, match=r"^line 6, column 'gps': 'inf' is not a finite number$"):
        chunk.number(3, "gps")
    with (
        open_table(path) as table,
        pytest.raises(TableError, match=r"a\.csv has no column 'lidar', only 'imu', 'gps'"),
    ):
        table.chunks(["lidar"])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"", r"^a\.csv is empty$"),
        ("a.csv", b"\n\n", r"^a\.csv is empty$"),
        ("a.jsonl", b"\n", r"^a\.jsonl is empty$"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", r"^line 3: expected 2 fields as in the first line, not 3$"),
        ("a.csv", b"a,b\n\n1\n", r"^line 3: expected 2 fields as in the first line, not 1$"),
        ("a.csv", b"a,b,a\n", r"^line 1: duplicate column name 'a'$"),
        ("a.csv", b"a\n1\n\xff\n", r"^line 3: byte 0xff is not UTF-8 text$"),
        ("a.csv", b'a\n"1\n', r"^line 2: not CSV: unexpected end of data$"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', r"^line 2: not JSON: '\{\"a\":'$"),
        ("a.jsonl", b'{"a": 1}\n3\n', r"^line 2: 3 is not an object, but the first line is$"),
        ("a.jsonl", b"{}\n", r"^line 1: the object has no keys$"),
        ("a.csv.gz", gzip.compress(b"a\n" + b"1\n" * 9, mtime=0)[:-9], r"^line \d+: a\.csv\.gz is damaged"),
        ("a.json", b"[]", r"^a\.json is empty$"),
        ("a.json", b'[{"x": 1}, {"x": ', r"^item 2: not JSON: '\{\"x\": '$"),
        ("a.json", b"[1, 2 3]", r"^item 3: expected a comma or \], not '3\]'$"),
        ("a.json", b"[1, [2]]", r"^item 2: \[2\] is not a number, but the first item is$"),
        ("a.jsonl", b"[0, 1]\n[1, 2]\n", r"^after the end of the array: '\[1, 2\]"),
        ("a.json", b'{\n "x": 1\n}', r"^line 1: not JSON: '\{'; expected one JSON object per line, or an array"),
        (
            "a.json",
            b'{"x": [1, 2]}',
            r"^a\.json contains columns or nested objects; expected one JSON object per line",
        ),
        ("a.csv", b"pump 7\n\n1,2\n", r"^line 3: expected 1 field as in the first line, not 2$"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1", r"^a\.xls is an Excel workbook: save it as CSV$"),
        ("a.csv.zst", b"(\xb5/\xfd ...", r"^a\.csv\.zst is compressed with Zstandard"),
        ("a.zip", b"PK\x03\x04 not really", r"^a\.zip cannot be read: File is not a zip file$"),
        ("a.parquet", b"PAR1 not really", r"^a\.parquet is not Parquet: "),
        ("a.arrow", b"ARROW1 not really", r"^a\.arrow is not Arrow: "),
    ],
)
def test_unreadable_tables_are_named(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(TableError, match=message), open_table(path) as table:
        for _ in table.chunks():
            pass


def test_rows_before_a_bad_one_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,4\n5\n")
    seen = []
    with pytest.raises(TableError, match="line 4"), open_table(path) as table:  # noqa: PT012
        for chunk in table.chunks(["a"]):
            seen += [chunk.number(i, "a") for i in range(len(chunk))]
    assert seen == [1.0, 3.0]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": 5, "x": 1}\n\n{"x": true}\n{"x": NaN, "more": [1]}\n{"x": [1]}\n')
    with open_table(path) as table:
        assert table.columns == ("t", "x")
        chunk = next(table.chunks())
    assert [chunk.number(i, "x") for i in range(3)] == [1.0, 1.0, None]
    assert [chunk.label(i, "t") for i in range(2)] == [5, None]
    with pytest.raises(TableError, match=r"^line 5, column 'x': \[1\] is not a number$"):
        chunk.number(3, "x")
    path.write_text("1.5\nnull\n2\n")
    assert rows(path, "x") == [(1, 1.5), (2, None), (3, 2.0)]


def test_parquet_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    when = [datetime(2024, 5, 1, 12), datetime(2024, 5, 2)]
    pq.write_table(pa.table({"at": when, "n": [1, None], "on": [True, False], "word": ["a", "2"]}), path)
    with open_table(path) as table:
        chunk = next(table.chunks())
    assert [chunk.label(i, "at") for i in range(2)] == ["2024-05-01T12:00:00", "2024-05-02T00:00:00"]
    assert [chunk.number(i, "n") for i in range(2)] == [1.0, None]
    assert [chunk.number(i, "on") for i in range(2)] == [1.0, 0.0]
    with pytest.raises(TableError, match=r"^row 1, column 'word': 'a' is not a number$"):
        chunk.number(0, "word")


def test_a_pipe_gives_a_row_as_soon_as_it_is_written(tmp_path: Path) -> None:
    """Each row is read before the next is written: with buffering, the test would hang."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    row_read = threading.Semaphore(0)

    def write() -> None:
        with path.open("w") as out:
            for line in ("imu,gps\n1,2\n", "3,4\n", "5,6\n"):
                out.write(line)
                out.flush()
                assert row_read.acquire(timeout=PATIENCE)

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    with open_table(path) as table:
        assert table.live
        assert table.total is None
        for chunk in table.chunks(["gps"]):
            seen.append(chunk.number(0, "gps"))
            row_read.release()
    thread.join()
    assert seen == [2.0, 4.0, 6.0]


def test_parquet_cannot_be_piped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet")
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        with pytest.raises(TableError, match="standard input is Parquet, which cannot be read from a pipe"):
            open_table("-")


def test_archives_of_several_files_are_named(tmp_path: Path) -> None:
    for names, message in (
        (["a.csv", "b.csv"], "two.zip contains 2 files: a.csv, b.csv; expected one"),
        (["[Content_Types].xml", "xl/a.xml"], "two.zip is an Excel workbook or another document: save it as CSV"),
    ):
        with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
            for name in names:
                archive.writestr(name, "x\n1\n")
        with pytest.raises(TableError, match=re.escape(message)):
            open_table(tmp_path / "two.zip")
