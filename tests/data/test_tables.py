"""Tables of every format give the same numbers, and errors name what cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from mfbocd.io.tables import TableError, open_table

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
    if "gz" in name and "jsonl" in name:
        assert rows(path, "imu", format="jsonl")[0][1] == 0.5  # the format inside a compressed file is not visible
    else:
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
