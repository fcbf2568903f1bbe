"""Reports: one HTML file that needs no other, holds no markup of strangers, and replaces nothing unasked."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pramana as pr
from pramana.cli.application import app
from pramana.estimators import KNOWN, method_of
from pramana.reporting import METHODS, SOURCES

P = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.85)
MECHANISM = pr.Mechanism({"ill": P})
FORMULA = "ill ~ age"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(3)
    age = rng.integers(30, 70, 1200)
    ill = rng.random(1200) < 1 / (1 + np.exp(3 - age / 20))
    true = pd.DataFrame({"age": age, "ill": ill.astype(int), "name": [f"Secret{k}Person" for k in range(1200)]})
    true.to_csv(folder / "true.csv", index=False)
    released = true.drop(columns="name").assign(ill=(rng.random(1200) < np.where(ill, 0.9, 0.15)).astype(int))
    released.to_csv(folder / "released.csv", index=False)
    MECHANISM.save(folder / "mechanism.json")
    return folder


class Outside(HTMLParser):
    """What a page would load from elsewhere, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loaded = [v for k, v in attrs if k in ("src", "href", "srcset", "data") and not str(v).startswith("data:")]
        self.found += [tag] if tag in ("script", "link", "iframe", "object") else [str(v) for v in loaded]


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: object, code: int = 0) -> str:
    given = [str(a) for a in arguments]
    monkeypatch.setattr(sys, "argv", ["pramana", *given])
    outcome = CliRunner().invoke(app, given)
    assert (outcome.exit_code if not isinstance(outcome.exception, pr.PramanaError) else 2) == code, outcome.output
    return str(outcome.exception or outcome.output)


@pytest.fixture
def mechanism(files: Path) -> tuple[str, Path]:
    return "--mechanism", files / "mechanism.json"


def whole(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    assert Outside(text).found == []
    assert "http" not in text
    assert text.count('src="data:image/png;base64,') >= 1
    assert "<h2>Methods</h2>" in text
    assert "References." in text
    return text


def test_a_fit_is_reported(files: Path, mechanism: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    out = tmp_path / "out.html"
    options = ("--family", "binomial", "--exponentiate", "--report", out)
    asked(monkeypatch, "fit", FORMULA, files / "released.csv", *mechanism, *options)
    text = whole(out)
    assert "<pre>pramana fit &#x27;ill ~ age&#x27; released.csv --mechanism mechanism.json" in text
    assert str(tmp_path) not in text
    assert str(files) not in text
    assert "Price of privacy" in text
    assert "Tian and Zhao" in text
    assert SOURCES["White, 1980"].split(".")[0] in text
    result = pr.fit(FORMULA, files / "released.csv", MECHANISM, family="binomial")
    assert f"{result.to_dicts(exponentiate=True)[1]['estimate']:.2f}" in text
    result.report(tmp_path / "own.html", exponentiate=True)
    assert "How this was made" not in whole(tmp_path / "own.html")


def test_a_comparison_is_reported(files: Path, mechanism: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    out = tmp_path / "out.html"
    options = ("--family", "binomial", "--method", "reversion,naive,likelihood", "--report", out)
    asked(monkeypatch, "compare", FORMULA, files / "released.csv", *mechanism, *options)
    text = whole(out)
    assert "Woo and Slavković" in text
    assert "takes released values for true ones" in text


def test_a_risk_report_holds_no_value_of_a_record(files: Path, mechanism: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    out = tmp_path / "out.html"
    options = ("--keys", "age,name", "--analysis", FORMULA, "--family", "binomial", "--simulate", "0", "--report", out)
    asked(monkeypatch, "risk", files / "true.csv", *mechanism, *options)
    text = whole(out)
    assert not re.search(r"Secret\d+Person", text)
    assert "Re-identification" in text
    assert "not for publication" in text


def test_a_study_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, small = tmp_path / "out.html", ("--replicates", "2", "--resamples", "20", "--workers", "1")
    scenario = tmp_path / "own.py"
    scenario.write_text(
        "import numpy as np, pramana as pr\n"
        "def draw(rng, n):\n    x = rng.integers(0, 2, n)\n    return {'x': x, 'y': rng.normal(x, 1.0)}\n"
        "P = pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.9)\n"
        "scenario = pr.Scenario(draw, pr.Mechanism({'x': P}), 'y ~ x', (0.0, 1.0), 200)\n",
        encoding="utf-8",
    )
    asked(monkeypatch, "study", scenario, "--out", tmp_path / "study", *small, "--report", out)
    text = out.read_text(encoding="utf-8")
    assert Outside(text).found == []
    assert "pramana study" in text
    assert "References. Tian and Zhao" in text
    assert "'all' are several" in asked(monkeypatch, "study", "all", "--out", tmp_path, "--report", out, code=2)


@pytest.mark.parametrize("command", ["fit", "compare", "risk", "study"])
def test_nothing_is_replaced_by_a_report(command: str, files: Path, mechanism: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    page, data = tmp_path / "page.html", files / "released.csv"
    page.write_text("mine", encoding="utf-8")
    before = {"fit": (FORMULA, data, *mechanism), "compare": (FORMULA, data, *mechanism), "risk": (data, *mechanism), "study": ("a1", "--out", tmp_path)}[command]  # fmt: skip
    assert "exists" in asked(monkeypatch, command, *before, "--report", page, code=2)
    assert page.read_text(encoding="utf-8") == "mine"
    assert "unknown ending" in asked(monkeypatch, command, *before, "--report", tmp_path / "page.pdf", code=2)


def test_an_input_is_never_replaced(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with --force, and whatever it is called."""
    data = tmp_path / "data.html"
    data.write_bytes((files / "released.csv").read_bytes())
    description = tmp_path / "mechanism.html"
    description.write_bytes((files / "mechanism.json").read_bytes())
    options = ("--mechanism", description, "--report", description, "--force")
    asked(monkeypatch, "fit", FORMULA, files / "released.csv", *options, code=2)
    assert description.read_bytes() == (files / "mechanism.json").read_bytes()


def test_the_same_file_twice_is_refused(files: Path, mechanism: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    (tmp_path / "a.html").symlink_to("b.png")
    twice = ("--figure", tmp_path / "b.png", "--report", tmp_path / "a.html", "--force")
    said = asked(monkeypatch, "fit", FORMULA, files / "released.csv", *mechanism, *twice, code=2)
    assert "are one file" in said


def test_names_are_no_markup(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    data = {"y": [0.0, 1.0, 2.0, 4.0], name: [1.0, 2.0, 4.0, 3.0]}
    result = pr.fit(f"y ~ `{name}`", data, None)
    result.report(tmp_path / "out.html", title="</title><script>alert(2)</script>", command="<script>")
    text = whole(tmp_path / "out.html")
    assert "<script" not in text
    assert "<img src=x" not in text


def test_every_method_is_put_into_words() -> None:
    labels = {method_of(name).label.partition(" (")[0] for name in KNOWN}
    assert labels <= set(METHODS)
    cited = " ".join(METHODS.values())
    assert all(source in cited for source in SOURCES if source not in ("Gouweleeuw et al., 1998", "White, 1980", "Jin et al., 2001"))  # fmt: skip
