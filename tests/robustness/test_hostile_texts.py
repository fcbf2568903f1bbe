"""Texts that try to run code, to reach files, to hang or to fill the memory: refused through every door, and nothing runs."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.main import get_command

import pramana as pr
import pramana.estimators.likelihood.specification
from pramana.cli.application import app
from soon import soon

TERMS = (
    # code
    "{__import__('os').system('touch pwned')}",
    "__import__('os').system('touch pwned')",
    "I(__import__('os').system('touch pwned'))",
    "{open('pwned', 'w')}",
    "open('pwned', 'w').write('x')",
    "{eval('1')}",
    'eval(\'open("pwned", "w")\')',
    "{exec('import os')}",
    "exec('import os')",
    "compile('1', 'a', 'eval')",
    "x.to_csv('pwned')",
    "I(x.to_csv('pwned'))",
    "x.to_pickle('pwned')",
    "x.values.tofile('pwned')",
    "np.save('pwned', x)",
    "I(np.save('pwned', x))",
    "np.savetxt('pwned', x)",
    "np.load('pwned', allow_pickle=True)",
    "np.fromfile('pwned')",
    "np.lib.npyio.DataSource('.')",
    "np.ctypeslib.load_library('libc', '.')",
    "np.vectorize(print)(x)",
    "np.apply_along_axis(print, 0, x)",
    "pd.read_pickle('pwned')",
    "pd.eval('x')",
    "x.eval('@__import__')",
    "x.query('1')",
    "x.apply(print)",
    "x.map(lambda v: v)",
    "breakpoint()",
    "input()",
    "exit()",
    "globals()",
    "vars()",
    "print(x)",
    "getattr(x, 'to_csv')('pwned')",
    "setattr(x, 'a', 1)",
    "Q('x')",
    "hashed(x, levels=10)",
    # chains through what is listed
    "x.__class__",
    "I(x.__class__.__bases__)",
    "I(().__class__.__bases__[0].__subclasses__())",
    "I(''.__class__)",
    "log.__self__",
    "I(log).__globals__",
    "C.__globals__['sys']",
    "np.log.__class__('x')",
    "contr.__dict__",
    "contr.sum.__init__.__globals__",
    "(log)(x)",
    "log(x)(x)",
    "I(log(x).to_csv('pwned'))",
    # arguments
    "C(x, contr=__import__('os'))",
    "C(x, contrasts=__import__('os').system('touch pwned'))",
    "C(x, levels=open('pwned', 'w'))",
    "bs(x, df=4, _state=x)",
    "center(x, _state={})",
    "scale(x, _context=x)",
    "log(x, out=x)",
    "log(x, x)",
    "np.log(x, where=x)",
    "C(*x)",
    "C(**x)",
    "poly(x, degree=len('aaa'))",
    # programs
    "I(lambda: x)",
    "I((lambda: x)())",
    "I([v for v in x])",
    "I({v: v for v in x})",
    "I(v for v in x)",
    "I(x if x else x)",
    "I(y := x)",
    "I(x[0])",
    "I(x[::-1])",
    "I(await x)",
    "I(yield x)",
    "{x; import os}",
    "{import os}",
    "x\nimport os",
    "x # comment\nimport os",
    "I(f'{x}')",
    'I(f\'{__import__("os").system("touch pwned")}\')',
    "I('%s' % x)",
    "I('{0.__class__}'.format(x))",
    "I('a' 'b')",
    "I(b'a')",
    "I(x == '\\x41')",
    "I(x == '\\N{BULLET}')",
    # size
    "I(9**9**9**9)",
    "I(x ** 9 ** 9 ** 9)",
    "I(10**1000000 * x)",
    "I(2 ** x)",
    "I(x ** 100000)",
    "I('a'*10**10)",
    "I('a' * 9999999999)",
    "I([0] * 9999999999)",
    "I(g * 999999999)",
    "I(g + 'a' * 99999999)",
    "I(" + "9" * 5000 + " * x)",
    "I(1e999 * x)",
    "poly(x, 10**9)",
    "poly(x, 1000000000)",
    "poly(x, degree=999)",
    "bs(x, df=1000000)",
    "cr(x, df=1e9)",
    "bs(x, knots=[" + ", ".join(str(k) for k in range(2000)) + "])",
    "bs(x, knots=range(10**9))",
    "isin(x, [" + "1, " * 3000 + "])",
    "np.zeros(10**10)",
    "np.arange(1e12)",
    "(x + g + y) ** 1000000",
    "(" + " + ".join(f"x{k}" for k in range(60)) + ") ** 10",
    " * ".join(f"x{k}" for k in range(40)),
    ":".join(f"x{k}" for k in range(40)),
    "/".join(f"x{k}" for k in range(40)),
    "x ** 2 ** 2 ** 2",
    "many:more:most:g",
    "I(" + "(" * 3000 + "x" + ")" * 3000 + ")",
    "log(" * 2000 + "x" + ")" * 2000,
    "(" * 4000 + "x" + ")" * 4000,
    "I(" + "-" * 5000 + "x)",
    "I(" + "not " * 2000 + "x)",
    "I(x" + " + x" * 2000 + ")",
    "I(" + "[" * 3000 + "]" * 3000 + ")",
    "{" * 3000 + "}" * 3000,
    "x" * 20_000,
    "I(x == '" + "a" * 20_000 + "')",
    # once more: others of each kind
    "x\u200b",
    "𝐥𝐨𝐠(x)",
    "I(x\u2212 1)",
    "I(x ** ²)",
    "I(x * ٣)",
    "I(x ** 20 ** 20)",
    "I(x ** 1e308)",
    "I(1e308 * 1e308 * x)",
    "I(0x41 * x)",
    "I(1_000 * x)",
    "I(1j * x)",
    "I(1.real)",
    "poly(poly(x, 3), 3)",
    "bs(x, df=100000000)",
    "bs(bs(x, df=5), df=5)",
    "bs(x, df=60, degree=59)",
    "bs(x, knots=[1e308, -1e308])",
    "cc(x, df=99999999)",
    "C(x, levels=[1] * 99999)",
    "C(g, contr.treatment(base=C(g)))",
    "I({**x})",
    "f\"{open('pwned', 'w')}\"",
    "I(f'{x!r:>{9**9}}')",
    "{x.__class__}",
    "{% import os %}",
    "%(x)s",
    "`__class__`",
    "I(`__dict__`)",
    "`" + "a" * 9_000 + "`",
    "`../../etc/passwd`",
    "x\ud800",
    "`\udfff`",
    "\x1b[2Jx",
    "x\ue000y\ue001",
    "I(x == '\\u0041')",
    "isin(x, isin(x, [1]))",
    "isin(g, ['a', ['b', ['c']]])",
    "isin(x, " + "[" * 900 + "]" * 900 + ")",
    "I(" + "~" * 400 + "x)",
    "I(" + "x<" * 200 + "x)",
    "'\\" * 4_000,
    "1e" * 4_000,
    "%in" * 3_000,
    "e" * 9_000 + "!",
    "np.log.at(x)",
    "locals()['x']",
    "I(x is x)",
    "offset(offset(x))",
    # letters
    "ｌｏｇ(x)",
    "__ｉmport__('os')",
    "оpen('pwned')",
    "ｅval('1')",
    "x\0",
    "I(x\0)",
    "`x`__import__('os')``",
    "`x\0`.to_csv",
    "`x`.to_csv('pwned')",
    "`a` `b`",
    "``",
    "`x",
    "I(`x` ** `x`)",
    "'; import os; '",
    "$(touch pwned)",
    "`touch pwned`",
    "x; touch pwned",
    "x && touch pwned",
    "\\x5f\\x5fimport\\x5f\\x5f('os')",
    "x @ x",
    "...",
    "I(...)",
    "{}",
    "{{x}}",
    "{x!r}",
    "\u202ex",
    "x\u2028import os",
)


def test_there_are_enough_of_them() -> None:
    assert len(set(TERMS)) == len(TERMS) >= 80


class Sentinel:
    """Notes what Python reports to its audit hooks while it is switched on; formulaic reads the intercept's "1" as a literal."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "import" and arguments[0] not in sys.modules:
            self.seen.append(f"import {arguments[0]}")
        elif event == "open" and _writes(arguments[1], arguments[2]):
            self.seen.append(f"open {arguments[0]}")
        elif (event == "compile" and arguments[0] != b"1") or (
            event == "exec" and not arguments[0].co_filename.startswith(os.sep)
        ):
            self.seen.append(f"{event} {arguments[0]}")
        elif event.startswith(
            ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess", "socket", "shutil", "ctypes")
        ):
            self.seen.append(f"{event} {arguments}")


def _writes(mode: str | None, flags: int) -> bool:
    return any(m in (mode or "") for m in "wax+") or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


for library in ("interpolate", "linalg", "optimize", "sparse.csgraph", "sparse.linalg", "special", "stats.qmc"):
    importlib.import_module(f"scipy.{library}")  # what our own modules import when they are used is no text that ran

SENTINEL = Sentinel()
sys.addaudithook(SENTINEL)


def test_the_sentinel_sees_what_it_is_for(tmp_path: Path) -> None:
    SENTINEL.seen.clear()
    SENTINEL.on = True
    try:
        eval("1 + 1")
        (tmp_path / "written").write_text("x")
        os.system("true")
        import this_module_does_not_exist  # type: ignore[import-not-found]  # noqa: F401
    except ModuleNotFoundError:
        pass
    finally:
        SENTINEL.on = False
    kinds = {line.split()[0] for line in SENTINEL.seen}
    assert {"compile", "exec", "open", "os.system", "import"} <= kinds


@pytest.fixture
def data() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    n = 60
    levels = [f"l{k}" for k in range(30)]
    frame = pd.DataFrame({"x": rng.normal(size=n), "y": rng.normal(size=n), "t": np.arange(n) % 2})
    frame["g"] = np.resize(["a", "b", "c"], n)
    return frame.assign(many=np.resize(levels, n), more=np.resize(levels[::-1], n), most=rng.choice(levels, n))


@pytest.fixture
def mechanism() -> pr.Mechanism:
    return pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["a", "b", "c"], keep=0.9)})


@pytest.fixture
def folder(
    tmp_path: Path, data: pd.DataFrame, mechanism: pr.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty working folder, which stays empty; the files stand beside it."""
    files, here = tmp_path / "files", tmp_path / "here"
    files.mkdir()
    here.mkdir()
    data.to_csv(files / "data.csv", index=False)
    mechanism.save(files / "m.json")
    monkeypatch.chdir(here)
    yield files
    assert not list(here.iterdir())


Door = Callable[[str], Any]


COMMAND = get_command(app)


def _commands(*before: str) -> Callable[[str, Path], Any]:
    """A command, which raises its errors here."""

    def run(text: str, files: Path) -> None:
        words = [w.replace("DATA", str(files / "data.csv")).replace("TEXT", text) for w in before]
        known = [] if before[0] == "plan" else ["--mechanism", str(files / "m.json")]
        COMMAND.main([*words, *known], prog_name="pramana", standalone_mode=False)

    return run


def _design(text: str, files: Path) -> Any:
    path = files / "design.toml"
    path.write_text(f'[columns.g]\nlevels = ["a", "b"]\nkeep = {json.dumps(text)}\n', encoding="utf-8")
    return pr.read_design(path)


def _description(text: str, files: Path) -> Any:
    document = json.loads((files / "m.json").read_text())
    document["pram"]["channels"][0]["randomization"] = {"channel": text, "levels": ["a", "b"]}
    (files / "hostile.json").write_text(json.dumps(document), encoding="utf-8")
    return pr.Mechanism.load(files / "hostile.json")


def _scenario(text: str, mechanism: pr.Mechanism) -> Any:
    def generate(rng: np.random.Generator, n: int) -> dict[str, Any]:
        return {"x": rng.normal(size=n), "y": rng.normal(size=n), "g": np.resize(["a", "b", "c"], n)}

    scenario = pr.Scenario(generate, mechanism, f"y ~ x + {text}", (0.0, 0.0), 50)
    return pr.simulate(scenario, ["naive"], replicates=1, seed=1)


PYTHON: dict[str, Callable[[str, pd.DataFrame, pr.Mechanism], Any]] = {
    "fit": lambda t, d, m: pr.fit(f"y ~ x + {t}", d, m),
    "fit, clean": lambda t, d, _: pr.fit(f"y ~ {t}", d, None),
    "fit, as response": lambda t, d, m: pr.fit(f"{t} ~ x", d, m),
    "fit, as offset": lambda t, d, m: pr.fit(f"y ~ x + offset({t})", d, m),
    "fit, whole": lambda t, d, m: pr.fit(t, d, m),
    "fit, likelihood": lambda t, d, m: pr.fit(f"y ~ x + {t}", d, m, method="likelihood"),
    "glm": lambda t, d, m: pr.fit(pr.glm(f"y ~ x + {t}"), d, m),
    "negative binomial": lambda t, d, m: pr.fit(f"t ~ x + {t}", d, m, family="negative-binomial"),
    "compare": lambda t, d, m: pr.compare(f"y ~ x + {t}", d, m),
    "specification_test": lambda t, d, m: pr.specification_test(f"y ~ x + {t}", d, m, family="gaussian"),
    "multinomial": lambda t, d, m: pr.fit(pr.multinomial(f"g ~ x + {t}"), d, m),
    "ordinal": lambda t, d, m: pr.fit(pr.ordinal(f"t ~ x + {t}"), d, m),
    "quantile_regression": lambda t, d, m: pr.fit(pr.quantile_regression(f"y ~ x + {t}"), d, m),
    "two stages": lambda t, d, m: pr.fit(pr.two_stage_least_squares(f"y ~ x | t + {t}"), d, m),
    "treatment effect, terms": lambda t, d, m: pr.fit(pr.average_treatment_effect("y", "t", f"x + {t}"), d, m),
    "treatment effect, list": lambda t, d, m: pr.fit(pr.average_treatment_effect("y", "t", ["x", t]), d, m),
    "treatment effect, outcome": lambda t, d, m: pr.fit(pr.average_treatment_effect(t, "t", ["x"]), d, m),
    "margins": lambda t, d, m: pr.fit(pr.margins(f"y ~ x + {t}"), d, m),
    "covariate model": lambda t, d, m: pr.fit("y ~ x + g", d, m, method=pr.Likelihood(covariate_model=f"x + {t}")),
    "text parameter": lambda t, d, m: pr.fit(f"mean({t})", d, m),
    "formula in a parameter": lambda t, d, m: pr.fit(f"quantile_regression(y ~ x + {t})", d, m),
    "subset": lambda t, d, m: pr.fit("y ~ x", d, m, subset=t),
    "subset, compared": lambda t, d, m: pr.fit("mean(y)", d, m, subset=f"g == 'a' and ({t}) > 0"),
    "risk": lambda t, d, m: pr.risk(d, m, analyses=f"y ~ x + {t}"),
    "plan": lambda t, d, _: pr.plan(d, "g", f"y ~ x + {t}", se={"x": 1.0}, simulate=0),
    "scenario": lambda t, _, m: _scenario(t, m),
}

SHELL: dict[str, Callable[[str, Path], Any]] = {
    "pramana fit": _commands("fit", "y ~ x + TEXT", "DATA"),
    "pramana fit, whole": _commands("fit", "TEXT", "DATA"),
    "pramana compare": _commands("compare", "y ~ x + TEXT", "DATA"),
    "pramana fit --covariate-model": _commands(
        "fit", "y ~ x + g", "DATA", "--method", "likelihood", "--covariate-model", "x + TEXT"
    ),
    "pramana fit --subset": _commands("fit", "y ~ x", "DATA", "--subset", "TEXT"),
    "pramana risk": _commands("risk", "DATA", "--analysis", "y ~ x + TEXT"),
    "pramana plan": _commands("plan", "DATA", "g", "--analysis", "y ~ x + TEXT", "--se", "x=1", "--simulate", "0"),
    "design file": _design,
    "description": _description,
}


@pytest.fixture(scope="module", autouse=True)
def _everything_loaded() -> None:
    """What `fit` loads on the way to a refusal, it loads here: which test comes first must not matter."""
    data = pd.DataFrame(
        {
            "y": np.arange(60.0),
            "x": np.arange(60.0) % 7,
            "g": np.resize(["a", "b", "c"], 60),
            "many": np.resize(["l0", "l1"], 60),
        }
    )
    known = pr.Mechanism({"g": pr.TransitionMatrix.randomized_response(["a", "b", "c"], 0.9)})
    pr.fit("y ~ x + g + C(many)", data, known)
    for text in TERMS:
        with suppress(pr.PramanaError):
            pr.fit(f"y ~ {text}", data, known)


HALVES = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.engines)])
"""Every other text at a door, and the others at the next; the second half of each in `make engines-test`."""


def _knock(door: Door, opening: str, texts: Sequence[str] = TERMS) -> None:
    """Every text through one door, after one that is refused for an innocent reason, so that what is loaded is loaded."""
    with pytest.raises(pr.PramanaError):
        door(opening)
    SENTINEL.seen.clear()
    for text in texts:
        SENTINEL.on = True
        try:
            with pytest.raises(pr.PramanaError) as refusal:
                soon(door, text)
        finally:
            SENTINEL.on = False
        assert str(refusal.value).strip(), text[:60]


@HALVES
@pytest.mark.parametrize("name", PYTHON)
def test_no_text_runs_in_python(
    name: str, half: int, data: pd.DataFrame, mechanism: pr.Mechanism, folder: Path
) -> None:
    texts = TERMS[(list(PYTHON).index(name) + half) % 2 :: 2]
    _knock(lambda text: PYTHON[name](text, data, mechanism), "nosuchcolumn", texts)
    assert not SENTINEL.seen
    assert folder.exists()


@HALVES
@pytest.mark.parametrize("name", SHELL)
def test_no_text_runs_in_the_shell_or_in_a_file(name: str, half: int, folder: Path) -> None:
    _knock(lambda text: SHELL[name](text, folder), "nosuchcolumn", TERMS[(list(SHELL).index(name) + half) % 2 :: 2])
    own = (str(folder / "design.toml"), str(folder / "hostile.json"))  # written by this test
    assert not [line for line in SENTINEL.seen if line.removeprefix("open ") not in own]


def test_no_hypothesis_runs(data: pd.DataFrame, mechanism: pr.Mechanism, folder: Path) -> None:
    result = pr.fit("y ~ x + g", data, mechanism)
    _knock(result.test, "nosuchparameter")
    _knock(lambda text: result.test(f"x = {text}"), "nosuchparameter")
    assert not SENTINEL.seen
    assert folder.exists()


def test_a_family_is_a_name(data: pd.DataFrame) -> None:
    for text in TERMS[:10]:
        with pytest.raises(pr.PramanaError):
            pr.fit("y ~ x", data, None, family=text)


LONG = {
    "y ~ " + "(" * 45 + " + ".join(f"x{k}" for k in range(7)) + ")**10" * 45: "more than 100000 products",
    "y ~ " + " + ".join(["(x0 + x1 + x2 + x3 + x4 + x5 + x6) ** 6"] * 200): "more than 100000 products",
    "y ~ (" + " + ".join(f"x{k}" for k in range(17)) + ") ** 3": "has 834 columns for 60 record",
    "y ~ bs(x0, df=70):bs(x1, df=70)": "has 4901 columns for 60 record",
    "y ~ " + "'\\" * 4900: "was never closed",
}


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_no_formula_of_a_few_columns_takes_long(text: str) -> None:
    rng = np.random.default_rng(1)
    data = pd.DataFrame(rng.normal(size=(60, 17)), columns=[f"x{k}" for k in range(17)]).assign(y=rng.normal(size=60))
    with pytest.raises(pr.FormulaError, match=LONG[text]):
        soon(
            pr.fit, text, data, None, seconds=5
        )  # each product of terms, or the eigenvalues of so many columns, took 5 to 15 s


MIXTURE = '{"channel": "mixture", "levels": ["a", "b"], "refill": 0.2}'
MANY = ", ".join(map(str, range(100_000)))


def described(how: str = MIXTURE, columns: str = '["g"]') -> str:
    """The text of a description with one channel."""
    return f'{{"pram": {{"version": "1.0", "channels": [{{"columns": {columns}, "randomization": {how}}}]}}}}'


def leveled(levels: str) -> str:
    return described(MIXTURE.replace('["a", "b"]', levels))


HOSTILE_FILES = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "deep where nobody looks": '{"not-known": ' + "[" * 800 + "]" * 800 + ", " + described()[1:],
    "long number": '{"pram": ' + "9" * 10_000 + "}",
    "long version": '{"pram": {"version": "' + "1" * 5_000 + '"}}',
    "superscript version": '{"pram": {"version": "²"}}',
    "superscript minor version": '{"pram": {"version": "1.²"}}',
    "Arabic version": '{"pram": {"version": "١"}}',
    "version that clears the screen": '{"pram": {"version": "9.\\u001b[2J"}}',
    "channel that clears the screen": described('{"channel": "\\u001b[2J"}'),
    "version of a list": '{"pram": {"version": [1, 1]}}',
    "half a character": leveled('["a", "\\ud800"]'),
    "not a number": described(MIXTURE.replace("0.2", "NaN")),
    "infinite level": leveled("[1, 1e999]"),
    "level of 70 bits": leveled("[1, 1180591620717411303424]"),
    "key twice": described().replace('"version"', '"version": "1.1", "version"'),
    "key twice, spelled otherwise": described(MIXTURE.replace("0.2", '0.2, "\\u0072efill": 0.1')),
    "stratum twice": described(
        '{"channel": "stratified", "by": "h", "strata": ['
        + ", ".join(f'{{"value": {value}, {MIXTURE[1:]}' for value in ("1", "2", "1.0"))
        + "]}"
    ),
    "very many levels of nothing": leveled("[" + "null, " * 200_000 + "null]"),
    "wide matrix": described(
        f'{{"channel": "transition_matrix", "levels": [{MANY}], "orientation": "columns", "matrix": [[{MANY}]]}}'
    ),
    "joint of very many": described(columns=json.dumps([f"g{k}" for k in range(100_000)])),
    "text": '"pram"',
    "null": "null",
    "empty": "",
    "null bytes": "\0" * 100,
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_hostile_descriptions_are_refused(name: str, tmp_path: Path, data: pd.DataFrame) -> None:
    text = HOSTILE_FILES[name]
    table = pa.Table.from_pandas(data)
    parquet.write_table(table.replace_schema_metadata({b"pram": text.encode()}), tmp_path / "data.parquet")
    (tmp_path / "folder").mkdir()
    parquet.write_table(table, tmp_path / "folder" / "data.parquet")
    package = (
        f'{{"resources": [{{"path": "data.parquet", {text[1:-1] or 1}}}]}}' if text.startswith('{"pram"') else text
    )
    (tmp_path / "m.json").write_text(text)
    (tmp_path / "folder" / "datapackage.json").write_text(package)
    for path in (tmp_path / "m.json", tmp_path / "data.parquet", *(tmp_path / "folder").iterdir()):
        with pytest.raises(pr.MechanismError) as refusal:
            soon(pr.Mechanism.load, path)
        assert "\x1b" not in str(refusal.value)
    for path in (tmp_path / "data.parquet", tmp_path / "folder" / "data.parquet"):
        with pytest.raises(pr.MechanismError):
            pr.fit(pr.mean("x"), path, "auto")
        with contextlib.suppress(pr.MechanismError):
            assert any(finding.severity == "error" for finding in pr.audit(path).findings)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 50_000,
        "[columns.g]\nkeep = " + "9" * 5_000,
        "[columns.g]\nkeep = 0x" + "f" * 5_000,
        "[columns.g]\nkeep = nan",
        "[columns" + ".g" * 100_000 + "]\nkeep = 0.9",
        "version = 0x" + "f" * 5_000,
        "version = true\n[columns.g]\nlevels = [1, 2]\nkeep = 0.9",
        "version = '²'\n[columns.g]\nlevels = [1, 2]\nkeep = 0.9",
        "version = -1\n[columns.g]\nlevels = [1, 2]\nkeep = 0.9",
        "[columns.g]\nlevels = [1, 36893488147419103232]\nkeep = 0.9",
        '[columns.g]\nlevels = ["a", "\\ud800"]\nkeep = 0.9',
        "[columns.g]\nlevels = ['a', 'b']\nkeep = 0.9\n[[columns.g.strata]]\nvalue = 1\nfrequencies = 'data'",
        "\0",
        "",
    ],
)
def test_hostile_designs_are_refused(text: str, tmp_path: Path, data: pd.DataFrame) -> None:
    (tmp_path / "d.toml").write_text(text)
    with pytest.raises(pr.MechanismError) as refusal:
        soon(pr.read_design, tmp_path / "d.toml", data)
    assert "its text is withheld" not in str(refusal.value)
