"""Commands killed at random moments: no file is partial, none is lost, and the next run leaves nothing of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = {"perturb": 14, "plan": 12, "design": 12, "key": 12}
"""Fifty in all."""

SCRIPT = """
import json, os, random, signal, sys, time
from contextlib import redirect_stdout
from pathlib import Path
import pandas as pd
import pramana as pr
from pramana.cli.application import app
from pramana.mechanism.draws.keyed import Key

os.chdir(sys.argv[1])
os.environ["OMP_NUM_THREADS"] = "1"
n = 300
frame = pd.DataFrame({"id": range(n), "edu": ["low", "mid", "high"] * (n // 3), "income": [k % 7 for k in range(n)]})
frame.to_csv("raw.csv", index=False)
pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "mid", "high"], 0.8)}).save("m.json")
Path("out").mkdir()
inputs = {name: Path(name).read_bytes() for name in ("raw.csv", "m.json")}
COMMANDS = {
    "perturb": (["raw.csv", "out/p.csv", "-m", "m.json", "--card", "--ledger", "ledger"], "p.csv", lambda p: pr.audit(p).clean),
    "plan": (["raw.csv", "edu", "--analysis", "mean(income)", "--se", "0.9", "-o", "out/m.json"], "m.json", pr.Mechanism.load),
    "design": (["edu", "--from", "raw.csv", "--keep", "0.8", "-o", "out/d.toml"], "d.toml", pr.read_design),
    "key": (["out/key"], "key", Key.load),
}
sync = os.fsync

def slow(handle):  # so that many kills fall into the writing
    time.sleep(0.01)
    sync(handle)
    time.sleep(0.01)

def run(arguments, delay=None):
    pid = os.fork()
    if pid == 0:
        os.fsync, code = slow, 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            app(arguments, standalone_mode=False)
            code = 0
        except pr.PramanaError as error:
            sys.stderr.write(str(error))
        finally:
            os._exit(code)
    if delay is not None:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]

def clear():
    Path("ledger").unlink(missing_ok=True)
    for path in Path("out").iterdir():
        if not path.name.endswith(".part"):
            path.unlink()

def whole(target, check):
    try:
        return bool(check(target))
    except pr.PramanaError:
        return False

def tried(command, kills):
    options, name, check = COMMANDS[command]
    arguments, target = [command, *options], Path("out") / name
    with redirect_stdout(sys.stderr):
        app(arguments, standalone_mode=False)  # everything is imported now, for the processes forked from this one
    assert whole(target, check)
    length = 9.0
    for _ in range(2):
        clear()
        begun = time.monotonic()
        assert run(arguments) == 0
        length = min(length, time.monotonic() - begun)
    old, count = target.read_bytes(), {"killed": 0, "trials": 0, "left": 0, "bad": 0}
    while count["killed"] < kills and count["trials"] < 5 * kills:
        clear()
        again = count["trials"] % 2 == 1 and command != "key"
        count["trials"] += 1
        if again:  # an older file of that name stays until the new one is whole
            target.write_bytes(old)
        killed = os.WIFSIGNALED(run([*arguments, *["--force"] * again], random.uniform(0.2, 1) * length))
        count["killed"] += killed
        length *= 1 if killed else 0.9  # where the runs above were slowed down by others
        count["left"] += len(list(Path("out").glob("*.part")))
        kept = again and target.exists() and target.read_bytes() == old
        count["bad"] += not (kept or (whole(target, check) if target.exists() else not again))
        count["bad"] += any(Path(name).read_bytes() != content for name, content in inputs.items())
        lines = Path("ledger").read_text().splitlines() if Path("ledger").exists() else []
        count["bad"] += any("released" not in json.loads(line) for line in lines)
    clear()
    assert run(arguments) == 0
    return count | {"remaining": len(list(Path(".").rglob("*.part")))}

random.seed(7)
print(json.dumps({name: tried(name, int(kills)) for name, kills in (part.split("=") for part in sys.argv[2:])}))
"""


@pytest.mark.engines
@pytest.mark.parametrize("part", [3, pytest.param(1, marks=pytest.mark.verify)])
@pytest.mark.parametrize("commands", [("perturb", "key"), ("plan", "design")])
def test_killed_at_a_random_moment(commands: tuple[str, ...], part: int, tmp_path: Path) -> None:
    """Every so many-th of them in the short run, whose few kills may all fall between two writings."""
    asked = [f"{name}={KILLS[name] // part}" for name in commands]
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path, *asked], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, count in json.loads(done.stdout.splitlines()[-1]).items():
        assert (count["bad"], count["remaining"]) == (0, 0), (name, count)
        assert count["killed"] >= KILLS[name] // part, (name, count)
        assert count["left"] > 0 or part > 1, (name, count)
