"""The files in deploy/ are accepted by their own tools, and refer to what exists."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner

from mfbocd import __version__
from mfbocd.cli import main
from mfbocd.service.auth import add_token, digest
from mfbocd.service.limits import Limits
from mfbocd.service.mqtt import bridge
from mfbocd.service.settings import Settings
from mfbocd.service.store import open_store, schema
from mfbocd.service.store.postgres import STATEMENT_TIMEOUT
from mfbocd.service.store.sqlite import SqliteStore
from mfbocd.service.webhook import Webhook

from ..parts import PATIENCE, needed
from .postgres import postgres, postgres_server  # noqa: F401 (fixtures)
from .service import CONFIG, free_port, serving, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def run(*command: str, cwd: Path = DEPLOY, **env: str) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def installed(name: str) -> str:
    """A program next to the interpreter, or elsewhere."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else needed(name)


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of all metrics of a service that uses every component."""
    with serving(
        tmp_path_factory.mktemp("metrics") / "a.db",
        Settings(limits=Limits(stream_metrics=1)),
        component=bridge(f"mqtt://127.0.0.1:{free_port()}"),
        webhook=Webhook(f"http://127.0.0.1:{free_port()}"),
    ) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG})
        text = client.get("/metrics").text
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def metrics_in(expression: str) -> set[str]:
    """Names of metrics in an expression; those of a histogram without the suffix of its parts."""
    names = re.findall(r"\b(?:mfbocd|process)_[a-z0-9_]+", expression)
    return {re.sub(r"(_seconds)_(?:bucket|count|sum)$", r"\1", name) for name in names}


def expressions() -> list[str]:
    """All queries of the dashboard."""
    dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


# --- Prometheus and Grafana ----------------------------------------------------------------------------------------


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    promtool = needed("promtool")
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
    assert f"{len(rules)} rules found" in run(promtool, "check", "rules", "prometheus/rules.yml")
    run(promtool, "test", "rules", "prometheus/rules_test.yml")
    run(promtool, "check", "config", "--syntax-only", "prometheus/prometheus.yml")


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    rules, tests = (
        yaml.safe_load((DEPLOY / "prometheus" / name).read_text()) for name in ("rules.yml", "rules_test.yml")
    )
    cases = [case for test in tests["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == {
        rule["alert"] for rule in rules["groups"][0]["rules"]
    }


def test_the_alert_for_errors_leaves_out_the_probes_and_nothing_else(tmp_path: Path) -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
    (expression,) = (rule["expr"] for rule in rules if rule["alert"] == "MfbocdServerErrors")
    left_out = re.findall(r'route!~"([^"]*)"', expression)
    assert len(left_out) == 2  # of the errors and of all requests
    probes = {"/healthz", "/readyz", "/livez"}
    with serving(tmp_path / "a.db") as client:
        for path in sorted(probes | {"/metrics", "/streams"}):
            assert client.get(path).status_code == 200
        counted = re.findall(r'_request_duration_seconds_count{.*route="([^"]*)"', client.get("/metrics").text)
    for pattern in left_out:
        assert {route for route in counted if re.fullmatch(pattern, route)} == probes


def test_prometheus_accepts_the_configurations_of_the_docs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    scrapes = [block["scrape_configs"][0] for block in blocks if "scrape_configs" in block]
    discoveries = [scrape.pop("kubernetes_sd_configs", None) for scrape in scrapes]  # Debian's promtool has none
    for scrape in scrapes:
        assert scrape["job_name"] == "mfbocd"  # of the alert MfbocdDown
        assert "credentials_file" in scrape["authorization"]
        path = tmp_path / "prometheus.yml"
        path.write_text(yaml.safe_dump({"scrape_configs": [scrape]}))
        run(needed("promtool"), "check", "config", "--syntax-only", str(path))
    (discovery,) = (found[0] for found in discoveries if found)
    deployment = manifests()["Deployment", "mfbocd"]
    assert discovery["role"] == "pod"
    assert discovery["namespaces"] == {"names": [deployment["metadata"]["namespace"]]}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert [one["label"] for one in discovery["selectors"]] == [",".join(f"{k}={v}" for k, v in labels.items())]


def test_every_metric_of_the_rules_and_the_dashboard_exists(exposed: set[str]) -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
    in_rules = set().union(*(metrics_in(rule["expr"]) for rule in rules))
    in_dashboard = set().union(*map(metrics_in, expressions()))
    assert in_rules <= exposed
    assert in_dashboard <= exposed
    assert len(in_dashboard) > 20


def test_prometheus_can_parse_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    """promtool only reads queries in rules, so that each becomes one."""
    rules = [
        {"record": f"panel:{i}", "expr": query.replace("$__rate_interval", "5m").replace("$job", "mfbocd")}
        for i, query in enumerate(expressions())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run(needed("promtool"), "check", "rules", str(path))


def test_a_real_prometheus_scrapes_with_a_token_and_evaluates_the_rules(tmp_path: Path) -> None:
    program, port = needed("prometheus"), free_port()
    store = SqliteStore(tmp_path / "a.db")
    (tmp_path / "token").write_text(add_token(store, "prometheus", "read"))
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (scrape,) = config["scrape_configs"]
    assert scrape["authorization"]["credentials_file"] == "/tokens/prometheus"
    scrape["authorization"]["credentials_file"] = str(tmp_path / "token")
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(DEPLOY / "prometheus" / "rules.yml")]
    with serving(lambda: store, tokens=True) as client:
        scrape["static_configs"][0]["targets"] = [f"127.0.0.1:{client.base_url.port}"]
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        process = subprocess.Popen(
            [
                *(program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"),
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as prometheus:

                def query(path: str) -> Any:
                    try:
                        answer = prometheus.get(f"/api/v1/{path}")
                    except httpx.TransportError:  # it starts
                        return {}
                    return answer.json()["data"] if answer.status_code == 200 else {}

                until(
                    lambda: bool(query("query?query=mfbocd_streams==0").get("result")),
                    lambda: query("targets"),
                )
                until(
                    lambda: {rule["health"] for rule in query("rules")["groups"][0]["rules"]} == {"ok"},
                    lambda: query("rules"),
                )
        finally:
            process.terminate()
            process.wait()


def test_panels_do_not_overlap() -> None:
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_docs_list_every_metric(exposed: set[str]) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    assert set(re.findall(r"^\| `((?:mfbocd|process)_[a-z_]+)", page, re.MULTILINE)) == exposed


def test_the_docs_list_every_alert() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
    assert set(re.findall(r"^\| `(Mfbocd[A-Za-z]+)`", page, re.MULTILINE)) == {rule["alert"] for rule in rules}


# --- containers --------------------------------------------------------------------------------------------------


def check_arguments(arguments: list[str]) -> None:
    """The command line is parsed as the program would; nothing is started."""
    command = main.commands[arguments[0]]  # type: ignore[attr-defined]
    rest = arguments[1:]
    if hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(arguments[0], rest)


def test_the_dockerfile() -> None:
    assert run(installed("hadolint"), "Dockerfile") == ""
    build, image = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1:]
    text = f"{build}\n{image}"
    assert "COPY --from=build" in image
    assert "pip install" not in image
    assert re.search(r"^USER 10001:10001$", image, re.MULTILINE)
    check_arguments(json.loads(re.findall(r"^CMD (.*)$", image, re.MULTILINE)[-1]))
    # kernels for another processor than that of the image would be compiled again
    processor = 'NUMBA_CPU_NAME=${CPU} NUMBA_CPU_FEATURES=""'
    assert f"NUMBA_CACHE_DIR=/opt/kernels {processor} /opt/mfbocd/bin/mfbocd warm ${{KERNELS}}" in build
    assert "COPY --from=build /opt/kernels /opt/kernels" in image
    assert processor in image
    extras = re.search(r'"\.\[([a-z,]+)\]"', text)
    assert extras is not None
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras[1].split(","))


def test_the_health_check_of_the_image_fails_when_health_does(tmp_path: Path) -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (check,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)$", text, re.MULTILINE)
    _, *arguments = json.loads(check)
    store = SqliteStore(tmp_path / "a.db")
    with serving(lambda: store) as client:
        command = [one.replace(":8000", f":{client.base_url.port}") for one in (sys.executable, *arguments)]
        assert subprocess.run(command, check=False).returncode == 0
        assert store._writer is not None
        store._writer.execute("PRAGMA query_only = ON")
        assert client.post("/streams", json={"id": "a", "config": CONFIG}).status_code == 503
        assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 1
        store._writer.execute("PRAGMA query_only = OFF")


def test_nothing_is_killed_before_it_may_have_stopped() -> None:
    """Open responses have ten seconds, and a transaction of PostgreSQL as long as a statement and five seconds."""
    least = 10 + STATEMENT_TIMEOUT + 5
    (unit,) = re.findall(r"^TimeoutStopSec=(\d+)$", (DEPLOY / "mfbocd.service").read_text(), re.MULTILINE)
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    pod = manifests()["Deployment", "mfbocd"]["spec"]["template"]["spec"]
    *_, pause = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert float(unit) >= least
    assert float(services["mfbocd"]["stop_grace_period"].removesuffix("s")) >= least
    assert pod["terminationGracePeriodSeconds"] - float(pause) >= least


def test_the_compose_file() -> None:
    compose = needed("docker-compose")
    values = {"POSTGRES_PASSWORD": "a", "GRAFANA_PASSWORD": "b"}
    run(compose, "-f", "compose.yaml", "config", **values)  # versions 1 and 2 print different forms of it
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"db", "mosquitto", "setup", "mfbocd", "prometheus", "grafana"}
    service = services["mfbocd"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    check_arguments(service["command"])
    for name, one in services.items():
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", [])), name
        sources = [volume.split(":")[0] for volume in one.get("volumes", [])]
        assert all((DEPLOY / source).is_file() for source in sources if "/" in source), name
    keys = {line.split("=")[0] for line in (DEPLOY / ".env.example").read_text().splitlines()}
    assert keys == set(values)


def test_the_setup_of_the_compose_file_creates_tokens_once(
    postgres: Callable[[], str],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Its script runs here, with an empty database and another folder."""
    setup = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["setup"]
    (script,) = setup["command"]
    db = postgres()
    env = {"MFBOCD_DB": db, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    for _ in range(2):
        run(*setup["entrypoint"], script.replace("/tokens", str(tmp_path)), **env)
    store = open_store(db)
    assert {token.name: token.scope for token in store.tokens()} == {"prometheus": "read", "operator": "write"}
    assert {token.hash for token in store.tokens()} == {
        digest((tmp_path / name).read_text().strip()) for name in ("prometheus", "operator")
    }
    store.close()
    # Prometheus is another user than this one, and must not read the token that may write
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, *tmp_path.iterdir())}
    assert modes == {tmp_path.name: 0o711, "prometheus": 0o644, "operator": 0o600}


def test_the_entry_point_copies_the_kernels_once(tmp_path: Path) -> None:
    image, cache, programs = tmp_path / "image", tmp_path / "tmp" / "kernels", tmp_path / "bin"
    (image / "deep").mkdir(parents=True)
    (image / "deep" / "one.nbi").write_text("compiled")
    programs.mkdir()
    program = programs / "mfbocd"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    env = {"MFBOCD_KERNELS": str(image), "NUMBA_CACHE_DIR": str(cache), "PATH": f"{programs}:{os.environ['PATH']}"}
    assert run("./entrypoint.sh", "serve", "--db", "a b", **env) == "serve --db a b\n"
    assert (cache / "deep" / "one.nbi").read_text() == "compiled"
    (cache / "deep" / "one.nbi").write_text("newer")
    run("./entrypoint.sh", "serve", **env)
    assert (cache / "deep" / "one.nbi").read_text() == "newer"


# --- systemd and Kubernetes --------------------------------------------------------------------------------------


def test_the_systemd_unit(tmp_path: Path) -> None:
    analyze = needed("systemd-analyze")
    text = (DEPLOY / "mfbocd.service").read_text()
    (command,) = re.findall(r"^ExecStart=/opt/mfbocd/bin/mfbocd (.*)$", text, re.MULTILINE)
    check_arguments(command.split())
    unit = tmp_path / "mfbocd.service"
    unit.write_text(text.replace("/opt/mfbocd/bin/mfbocd", "/bin/true"))  # it must exist here
    assert run(analyze, "verify", str(unit)) == ""
    run(analyze, "security", "--offline=yes", "--threshold=20", str(unit))  # fails if the exposure is above 2.0


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    found = [one for path in files for one in yaml.safe_load_all(path.read_text())]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_the_kubernetes_manifests() -> None:
    validate = installed("kubernetes-validate")
    files = sorted(map(str, (DEPLOY / "kubernetes").glob("*.yaml")))
    for version in ("1.30", "1.34"):
        output = run(validate, "--strict", "--kubernetes-version", version, *files)
        assert output.count(f"against version {version}") == len(manifests())


def test_the_migration_job_migrates_a_database_and_creates_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (container,) = manifests()["Job", "mfbocd-migrate"]["spec"]["template"]["spec"]["containers"]
    path = tmp_path / "a.db"
    missing = CliRunner().invoke(main, container["args"], env={"MFBOCD_DB": str(path)})
    assert (missing.exit_code, path.exists()) == (1, False)
    SqliteStore(path).close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setitem(schema.MIGRATIONS, schema.VERSION, {"sqlite": "CREATE TABLE added (id TEXT);"})
    done = CliRunner().invoke(main, container["args"], env={"MFBOCD_DB": str(path)})
    assert done.exit_code == 0, done.output
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    assert found == (str(schema.VERSION),)


def test_the_manifests_fit_together_and_their_probes_exist(tmp_path: Path) -> None:
    found = manifests()
    deployment = found["Deployment", "mfbocd"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert found["Service", "mfbocd"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget", "mfbocd"]["spec"]["selector"]["matchLabels"] == labels
    for kind in (("Deployment", "mfbocd"), ("Job", "mfbocd-token"), ("Job", "mfbocd-migrate")):
        (container,) = found[kind]["spec"]["template"]["spec"]["containers"]
        check_arguments(container["args"])
        assert container["image"] == f"mfbocd:{__version__}"
        assert found[kind]["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    budget = found["PodDisruptionBudget", "mfbocd"]["spec"]
    assert budget["maxUnavailable"] < deployment["replicas"]
    (container,) = deployment["template"]["spec"]["containers"]
    with serving(tmp_path / "a.db") as client:
        for probe in ("startupProbe", "livenessProbe"):
            assert client.get(container[probe]["httpGet"]["path"]).json() == {"status": "alive"}
        assert "status" in client.get(container["readinessProbe"]["httpGet"]["path"]).json()
