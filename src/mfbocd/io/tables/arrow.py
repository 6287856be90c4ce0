"""Parquet and Arrow tables, read with pyarrow one batch at a time (extra ``table``)."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from .base import Rules, Table
from .cells import Chunk, TableError


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"{what} needs pyarrow: pip install 'mfbocd[table]'") from None
    return pa


class _Batches(Table):
    """A table that is read in batches of columns; rows are counted from 1."""

    unit = "row"

    def __init__(self, name: str, source: Any, names: Sequence[str], rules: Rules) -> None:
        self.name, self.rules = name, rules
        self._source = source
        self._read = 0
        self.columns = tuple(names)
        if not self.columns:
            raise TableError(f"{name} has no columns")

    @property
    def done(self) -> int:
        return self._read

    @abstractmethod
    def _batches(self, columns: Sequence[str], rows: int) -> Iterable[Any]:
        """Return the batches of these columns."""

    def read(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        import pyarrow as pa

        try:
            for batch in self._batches(columns, rows):
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    first = self._read + 1
                    cells = {c: part.column(part.schema.get_field_index(c)).to_pylist() for c in columns}
                    self._read += part.num_rows
                    numbers, rules = range(first, self._read + 1), self.rules
                    yield Chunk("row", numbers, cells, rules.decimal or ".", rules.missing, rules.skipped)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"row {self._read + 1}: cannot read {self.name}: {error}") from None

    def close(self) -> None:
        self._source.close()


class ParquetTable(_Batches):
    """A Parquet file; only the requested columns are read.

    Parameters
    ----------
    path : Path
        The file.
    rules : Rules
        How cells are read.

    Raises
    ------
    TableError
        If the file is not Parquet.
    ImportError
        If pyarrow is not installed.
    """

    def __init__(self, path: Path, rules: Rules) -> None:
        pa = _pyarrow(f"{path.name} is Parquet, which")
        try:
            source = pa.parquet.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{path.name} is not Parquet: {error}") from None
        super().__init__(path.name, source, source.schema_arrow.names, rules)
        self.total = source.metadata.num_rows

    def _batches(self, columns: Sequence[str], rows: int) -> Iterable[Any]:
        batches: Iterable[Any] = self._source.iter_batches(batch_size=rows, columns=list(columns))
        return batches


class ArrowTable(_Batches):
    """An Arrow IPC table: a file (Feather), which is memory-mapped, or a stream.

    Parameters
    ----------
    name : str
        Name of the table in errors.
    source : IO[bytes] or Path
        The open stream, or the path of the file.
    stream : bool
        Whether `source` is a stream.
    rules : Rules
        How cells are read.

    Raises
    ------
    TableError
        If it is not Arrow.
    ImportError
        If pyarrow is not installed.
    """

    def __init__(self, name: str, source: IO[bytes] | Path, stream: bool, rules: Rules) -> None:
        pa = _pyarrow(f"{name} is Arrow, which")
        try:
            if stream:
                opened: Any = pa.ipc.open_stream(source)
            else:
                self._map = pa.memory_map(str(source))
                opened = pa.ipc.open_file(self._map)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{name} is not Arrow: {error}") from None
        self._stream = source if stream else None
        super().__init__(name, opened, opened.schema.names, rules)

    def _batches(self, columns: Sequence[str], rows: int) -> Iterable[Any]:
        if self._stream is not None:
            return (batch for batch in self._source)
        return (self._source.get_batch(i) for i in range(self._source.num_record_batches))

    def close(self) -> None:
        """Close the file or the stream; standard input stays open."""
        self._source.close() if self._stream is not None else self._map.close()
        if isinstance(self._stream, io.IOBase) and self._stream.fileno() != 0:  # standard input stays open
            self._stream.close()
