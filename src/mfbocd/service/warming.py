"""Kernels are compiled beside the service, never in its way: see `mfbocd.io.warm`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ..io.config import Config
from ..io.warm import Uncompiled, rehearse, structure, watched
from .store.base import Store

log = logging.getLogger("mfbocd.service")

AT_ONCE = 8
"""Processes that compile at a time."""
SAME = 100_000
"""Configs that are known by their text to be ready."""
FAILED = 1000
"""Configs that could not be rehearsed which are remembered."""

_LOADED: set[str] = set()
"""Structures of configs whose kernels this process has loaded, for whichever service."""


class Warmer:
    """Makes kernels ready before a stream is held that needs them.

    What is in numba's cache on disk is loaded in a thread, which takes a moment. What is not is compiled by another
    process, `mfbocd warm`, into that cache first: a thread that compiles would hold numba's one lock, for which the
    loading of any other kernel waits, and take turns with the event loop. If the cache cannot be written there is no
    other way, and a thread does it all the same.

    `known` are the structures that are ready already, `load` and `compile` as they are for tests to replace.
    """

    def __init__(
        self,
        *,
        known: set[str] | None = None,
        load: Callable[[Mapping[str, Any], bool], Mapping[str, Any]] | None = None,
        compile: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._known = _LOADED if known is None else known
        self._load = load or loaded
        self._compile = compile or self._elsewhere
        self._same: set[str] = set()
        """Configs, as they are stored, that are known to be ready."""
        self._failed: set[str] = set()
        """Configs that cannot be rehearsed: there is nothing to wait for."""
        self._lock = threading.Lock()
        self._pending: dict[str, Future[None]] = {}
        self._places = threading.Semaphore(AT_ONCE)
        self._running: set[subprocess.Popen[str]] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False
        self.waiting = "the stored configurations are not known yet"
        """Why the service is not ready; nothing once it is."""

    # --- what is asked ------------------------------------------------------------------------------------------

    def is_ready(self, config: str) -> bool:
        """Whether the kernels of a config, as it is stored, are loaded; also if it is none, which shows elsewhere."""
        if config in self._same:
            return True
        try:
            given = json.loads(config)
            ready = structure(given) in self._known or _plain(given) in self._failed
        except (ValueError, TypeError, AttributeError, RecursionError):
            return True
        if ready:
            if len(self._same) >= SAME:
                self._same.clear()
            self._same.add(config)
        return ready

    def ready(self, config: Mapping[str, Any]) -> Future[None]:
        """Done when a config's kernels are loaded, or cannot be; it waits for no other config."""
        key = structure(config)
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                pending = Future()
                pending.set_running_or_notify_cancel()  # a client that goes away does not end it for the others
                if self._closing or key in self._known:
                    pending.set_result(None)
                    return pending
                self._pending[key] = pending
                self._start(lambda: self._prepare(key, config, pending))
        return pending

    def begin(self, store: Store) -> None:
        """Make all that is stored ready, one after another, in a thread; `waiting` says how far it is."""
        self._start(lambda: self._all(store))

    def close(self) -> None:
        """End what is under way; whoever waits goes on."""
        with self._lock:
            self._closing = True
            for process in self._running:
                process.kill()
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout=10.0)

    # --- threads ------------------------------------------------------------------------------------------------

    def _start(self, call: Callable[[], None]) -> None:
        thread = threading.Thread(target=call, name="mfbocd-warm", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _all(self, store: Store) -> None:
        try:
            configs = {structure(given): given for given in map(json.loads, store.configs())}
        except Exception as error:  # each is made ready when it is first needed
            log.warning("kernels are not compiled ahead: %s", error)
            configs = {}
        for done, given in enumerate(configs.values()):
            self.waiting = f"kernels are being compiled: {done} of {len(configs)} kinds of configurations are ready"
            self.ready(given).result()
        self.waiting = "the service is stopping" if self._closing else ""

    def _prepare(self, key: str, config: Mapping[str, Any], pending: Future[None]) -> None:
        try:
            try:
                made = self._load(config, True)
            except Uncompiled as kernel:
                log.info("compiling, since %s is not in the cache", kernel)
                with self._places:
                    self._compile(config)
                if self._closing:
                    return
                made = self._load(config, False)
            self._known |= {key, structure(made)}  # as it was given, and as it will be stored
        except Exception as error:  # it shows where the config is used; others of its structure may do
            log.debug("a config cannot be rehearsed: %s", error)
            if len(self._failed) >= FAILED:
                self._failed.clear()
            self._failed.add(_plain(config))
        finally:
            with self._lock:
                del self._pending[key]
            pending.set_result(None)

    def _elsewhere(self, config: Mapping[str, Any]) -> None:
        """Let another process compile."""
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        with self._lock:
            if self._closing:
                return
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "mfbocd.cli", "warm", "--lines"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env=os.environ | {"PYTHONPATH": path},
                )
            except OSError as error:
                log.warning("no process to compile kernels in: %s", error)
                return
            self._running.add(process)
        try:
            said, _ = process.communicate(json.dumps(config) + "\n")
            if said.strip() != "ok":
                log.debug("kernels were not compiled ahead: %s", said.strip() or process.returncode)
        finally:
            self._running.discard(process)


def loaded(config: Mapping[str, Any], refuse: bool) -> Mapping[str, Any]:
    """Rehearse a config, and return it in full; with `refuse`, `Uncompiled` if something is not in the cache."""
    with watched(refuse=refuse):
        made = Config.parse(config)
        rehearse(made)
    return made.to_dict()


def _plain(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)
