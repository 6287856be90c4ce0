"""Loads kernels in the background, so that requests never wait for it in the engine's thread.

See `mfbocd.io.warm` for how it is found out which kernels a configuration needs.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from ..io.config import Config
from ..io.warm import Uncompiled, rehearse, structure, watched
from .checking import CHECKER
from .errors import RequestError
from .store.base import Store

log = logging.getLogger("mfbocd.service")

MAX_READY_CONFIGS = 100_000
"""Size of the set of configurations that are known to be ready by their text."""
MAX_FAILED_CONFIGS = 1000
"""Size of the set of configurations that could not be rehearsed."""

_LOADED: set[str] = set()
"""Structures of configurations whose kernels are loaded in this process, shared by all services."""


class Warmer:
    """Loads the kernels for configurations before their streams are used.

    Kernels in numba's cache on disk are loaded by a thread in a moment. Others are first compiled into that cache by
    another process (`Checker`): a compiling thread would hold numba's global lock, for which the loading of every
    other kernel waits, and would compete with the event loop. Only if the cache cannot be written does a thread
    compile.

    Parameters
    ----------
    known : set of str, optional
        Structures (`mfbocd.io.warm.structure`) that are ready; those of this process by default.
    load, compile : callable, optional
        Replacements of `load_kernels` and of `Checker.compile`, for tests.
    """

    def __init__(
        self,
        *,
        known: set[str] | None = None,
        load: Callable[[Mapping[str, Any], bool], Mapping[str, Any]] | None = None,
        compile: Callable[[Mapping[str, Any]], Future[None]] | None = None,
    ) -> None:
        self._known = _LOADED if known is None else known
        self._load = load or load_kernels
        self._compile = compile or CHECKER.compile
        self._ready_configs: set[str] = set()
        """Configurations, as stored, that are ready."""
        self._failed_configs: set[str] = set()
        """Configurations that cannot be rehearsed, for which there is nothing to load."""
        self._lock = threading.Lock()
        self._pending: dict[str, Future[None]] = {}
        self._compiling: set[Future[None]] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False
        self.not_ready = "the stored configurations are not known yet"
        """Why the stored configurations are not ready; empty when they are."""

    def is_ready(self, config: str) -> bool:
        """Whether the kernels for a configuration, given as stored, are loaded.

        True also for a configuration that is invalid: its error is reported when it is used.
        """
        if config in self._ready_configs:
            return True
        try:
            parsed = json.loads(config)
            ready = structure(parsed) in self._known or _canonical(parsed) in self._failed_configs
        except (ValueError, TypeError, AttributeError, RecursionError):
            return True
        if ready:
            if len(self._ready_configs) >= MAX_READY_CONFIGS:
                self._ready_configs.clear()
            self._ready_configs.add(config)
        return ready

    def prepare(self, config: Mapping[str, Any]) -> Future[None]:
        """Load the kernels for a configuration, without waiting for others.

        Returns
        -------
        Future
            Done when the kernels are loaded or have failed to load.
        """
        key = structure(config)
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                pending = Future()
                pending.set_running_or_notify_cancel()  # other clients wait for it when one disconnects
                if self._closing or key in self._known:
                    pending.set_result(None)
                    return pending
                self._pending[key] = pending
                self._start_thread(lambda: self._prepare(key, config, pending))
        return pending

    def start(self, store: Store) -> None:
        """Load the kernels for all stored configurations, one after another, in a thread."""
        self._start_thread(lambda: self._prepare_all(store))

    def close(self) -> None:
        """Stop compiling; pending futures resolve."""
        with self._lock:
            self._closing = True
            compiling, threads = list(self._compiling), list(self._threads)
        for future in compiling:
            future.cancel()
        for thread in threads:
            thread.join(timeout=10.0)

    # --- threads ------------------------------------------------------------------------------------------------

    def _start_thread(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="mfbocd-warm", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _prepare_all(self, store: Store) -> None:
        configs: dict[str, Any] = {}
        try:
            for stored in store.configs():
                with suppress(TypeError, ValueError, LookupError, AttributeError):  # a damaged row
                    config = json.loads(stored)
                    configs[structure(config)] = config
        except Exception as error:  # each is loaded when it is first needed
            log.warning("kernels are not compiled ahead: %s", error)
        for done, config in enumerate(configs.values()):
            self.not_ready = f"kernels are being compiled: {done} of {len(configs)} kinds of configurations are ready"
            self.prepare(config).result()
        self.not_ready = "the service is stopping" if self._closing else ""

    def _prepare(self, key: str, config: Mapping[str, Any], pending: Future[None]) -> None:
        try:
            try:
                complete = self._load(config, True)
            except Uncompiled as kernel:
                log.info("compiling, because %s is not in the cache", kernel)
                self._wait_for_compilation(config)
                if self._closing:
                    return
                complete = self._load(config, False)
            self._known |= {key, structure(complete)}  # as it was given, and as it will be stored
        except Exception as error:  # reported when the config is used; others of its structure may work
            log.debug("a config cannot be rehearsed: %s", error)
            if len(self._failed_configs) >= MAX_FAILED_CONFIGS:
                self._failed_configs.clear()
            self._failed_configs.add(_canonical(config))
        finally:
            with self._lock:
                del self._pending[key]
            pending.set_result(None)

    def _wait_for_compilation(self, config: Mapping[str, Any]) -> None:
        with self._lock:
            if self._closing:
                return
            compiled = self._compile(config)
            self._compiling.add(compiled)
        try:
            compiled.result()
        except (RequestError, CancelledError) as error:
            log.debug("kernels were not compiled ahead: %s", error)
        finally:
            with self._lock:
                self._compiling.discard(compiled)


def load_kernels(config: Mapping[str, Any], refuse: bool) -> Mapping[str, Any]:
    """Rehearse a configuration, so that its kernels are loaded or compiled.

    Parameters
    ----------
    config : mapping
    refuse : bool
        Raise `Uncompiled` instead of compiling a kernel that is not in the cache.

    Returns
    -------
    mapping
        The configuration with all defaults.
    """
    with watched(refuse=refuse):
        parsed = Config.parse(config)
        rehearse(parsed)
    return parsed.to_dict()


def _canonical(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)
