"""`mfbocd warm` and the store: it reads one that exists, and creates none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mfbocd.cli import main
from mfbocd.io.warm import example
from mfbocd.service import manage
from mfbocd.service.engine import Engine
from mfbocd.service.store.sqlite import SqliteStore


@pytest.mark.parametrize("named", ["--db", "MFBOCD_DB"])
def test_a_store_that_does_not_exist_is_an_error_and_is_not_created(tmp_path: Path, named: str) -> None:
    path = tmp_path / "mfbocd.db"
    if named == "--db":
        result = CliRunner().invoke(main, ["warm", "--db", str(path)])
    else:
        result = CliRunner().invoke(main, ["warm"], env={"MFBOCD_DB": str(path)})
    assert result.exit_code == 1
    assert f"there is no database {path}" in result.output
    assert not path.exists()


def test_the_environment_names_the_store_unless_something_else_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    store = SqliteStore(path)
    facts: dict[str, Any] = {"group": None, "observers": {}, "available": {}, "max_streams": 9}
    manage.add_stream(Engine(store), stream="s", name="s", config=example("bernoulli").to_dict(), **facts)
    store.close()
    config = tmp_path / "mf.toml"
    config.write_text(example("gaussian").to_toml())
    for arguments, names in (([], ["bernoulli"]), (["gaussian"], ["gaussian"]), (["-c", str(config)], [str(config)])):
        result = CliRunner().invoke(main, ["warm", *arguments], env={"MFBOCD_DB": str(path)})
        assert result.exit_code == 0, result.output
        assert [line.split(": ")[0] for line in result.stderr.splitlines()[:-1]] == names
