"""Compressed files, and files that are recognized but not read."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zipfile
from pathlib import Path
from typing import IO, cast

from .cells import TableError

COMPRESSED = (".gz", ".xz", ".bz2", ".zip")
"""Suffixes of compressed files, before which the name shows the format."""
_UNREADABLE = {
    b"\xd0\xcf\x11\xe0": "is an Excel workbook: save it as CSV",
    b"(\xb5/\xfd": "is compressed with Zstandard: decompress it with `zstd -d`",
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive: extract it",
    b"Rar!": "is a RAR archive: extract it",
    b"\x89HDF": "is HDF5: save the series as CSV or Parquet",
    b"SQLite f": "is an SQLite database: export the table as CSV",
    b"Obj\x01": "is Avro: save it as Parquet",
    b"ORC": "is ORC: save it as Parquet",
    b"%PDF": "is a PDF document",
    b"\x89PNG": "is an image",
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def decompressed(name: str, file: IO[bytes], first: bytes, *, regular: bool) -> tuple[IO[bytes], IO[bytes]]:
    """Return the contents of a file, and the stream whose position measures the progress.

    Parameters
    ----------
    name : str
        Name of the file in errors.
    file : IO[bytes]
        The open file.
    first : bytes
        Its first bytes.
    regular : bool
        Whether it is a file and not a pipe.

    Returns
    -------
    tuple of IO[bytes]
        The contents, and the stream.

    Raises
    ------
    TableError
        If the contents are recognized and cannot be read.
    """
    for magic, what in _UNREADABLE.items():
        if first.startswith(magic):
            raise TableError(f"{name} {what}")
    if first.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file)), file
    if first.startswith(b"\xfd7zXZ\x00"):
        return cast(IO[bytes], lzma.LZMAFile(file)), file
    if first.startswith(b"BZh"):
        return cast(IO[bytes], bz2.BZ2File(file)), file
    if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        if not regular:
            raise TableError(f"{name} is a zip archive, which cannot be read from a pipe: its index is at the end")
        return _member(name, file), file
    return file, file


def recoded(raw: IO[bytes], first: bytes, encoding: str | None) -> IO[bytes]:
    """Return text as UTF-8, if it begins with the mark of UTF-16 or another encoding is given.

    Parameters
    ----------
    raw : IO[bytes]
        The text.
    first : bytes
        Its first bytes.
    encoding : str or None
        The encoding; UTF-8, or UTF-16 with a mark, by default.

    Returns
    -------
    IO[bytes]
        The text as UTF-8.
    """
    if encoding is None and first.startswith(_UTF_16):
        encoding = "utf-16"
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return raw
    return cast(IO[bytes], codecs.EncodedFile(raw, "utf-8", encoding))


def _member(name: str, file: IO[bytes]) -> IO[bytes]:
    """Return the only file in a zip archive."""
    try:
        archive = zipfile.ZipFile(file)
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        if "[Content_Types].xml" in names:
            raise TableError(f"{name} is an Excel workbook or another document: save it as CSV")
        names = [one for one in names if not one.startswith("__MACOSX/") and not Path(one).name.startswith(".")]
        if len(names) != 1:
            listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise TableError(f"{name} contains {len(names)} files{': ' + listed if names else ''}; expected one")
        return archive.open(names[0])
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # damaged, encrypted, unknown method
        raise TableError(f"{name} cannot be read: {error}") from None
