"""A disk that is full, or fills up at any moment of a command: one line that says so, and nothing left behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MOUNT = 'disk="$1" && shift && mount -t tmpfs -o size=160k tmpfs "$disk" && exec "$@"'

SCRIPT = """
import io, json, os, sys, warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
import pandas as pd
import pramana as pr
from pramana.cli import main
from pramana.mechanism.draws.keyed import Key

warnings.simplefilter("ignore")
disk = Path(sys.argv[1])
home = disk.parent / "home"
home.mkdir()
os.chdir(home)
n = 900
frame = pd.DataFrame({"edu": ["low", "mid", "high"] * (n // 3), "income": [k % 7 for k in range(n)], "x": range(n)})
frame.to_csv("raw.csv", index=False)
frame.to_parquet("raw.parquet")
Path("raw").mkdir()
for k in range(3):
    frame.iloc[k::3].to_csv(f"raw/{k}.csv", index=False)
pr.Mechanism({"edu": pr.TransitionMatrix.randomized_response(["low", "mid", "high"], 0.8)}).save("m.json")
audited = lambda p: pr.audit(p).clean
perturb = ["perturb", "-m", "m.json", "--card", "--ledger", str(disk / "ledger")]
COMMANDS = {
    "perturb": ([*perturb, "raw.csv", str(disk / "public" / "p.csv"), "--shuffle"], "public/p.csv", audited),
    "parquet": ([*perturb, "raw.parquet", str(disk / "public" / "p.parquet")], "public/p.parquet", audited),
    "folder": ([*perturb, "raw", "--to", str(disk / "public" / "out")], "public/out", audited),
    "plan": (["plan", "raw.csv", "edu", "--analysis", "mean(income)", "--se", "0.9", "-o", str(disk / "m.json")], "m.json", pr.Mechanism.load),
    "design": (["design", "edu", "--from", "raw.csv", "--keep", "0.8", "-o", str(disk / "d.toml")], "d.toml", pr.read_design),
    "key": (["key", str(disk / "key")], "key", Key.load),
    "fit": (["fit", "income ~ x", "raw.csv", "-m", "m.json", "--figure", str(disk / "f.png")], "f.png", lambda p: p.read_bytes()[:4] == b"\\x89PNG"),
}

def files():
    return [p for p in disk.rglob("*") if p.is_file()]

def filled(free):
    for path in files():
        path.unlink()
    (disk / "public").mkdir(exist_ok=True)
    size = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        file.write(b"x" * (size.f_bavail * size.f_frsize - free))

def tried(command):
    arguments, target, check = COMMANDS[command]
    outcomes = {"refused": 0, "written": 0, "bad": []}
    for pages in range(0, 38, 1 if command != "fit" else 6):
        filled(4096 * pages)
        sys.argv, said, code = ["pramana", *arguments], io.StringIO(), 0
        try:
            with redirect_stderr(said), redirect_stdout(io.StringIO()):
                main()
        except SystemExit as left:
            code = left.code
        names = {p.name for p in files()} - {"filler"}
        if code == 0:
            ok = bool(check(disk / target)) and not any(name.endswith(".part") for name in names)
            outcomes["written"] += ok
            if outcomes["written"] == 3:
                break
        else:
            text = said.getvalue()
            ok = not names and "No space left on device" in text and len(text.splitlines()) == 1
            outcomes["refused"] += ok
        if not ok:
            outcomes["bad"].append([pages, code, sorted(names), said.getvalue()])
    return outcomes

print(json.dumps({command: tried(command) for command in sys.argv[2:]}))
"""


@pytest.mark.engines
@pytest.mark.parametrize("commands", [("perturb", "parquet"), ("folder", "plan", "design", "key", "fit")])
def test_a_small_disk_that_is_really_full(commands: tuple[str, ...], tmp_path: Path) -> None:
    """With room for more and more pages, until the command succeeds: every place where the room can end is met."""
    disk = tmp_path / "disk"
    disk.mkdir()
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here; the limit on the size of files is tested in test_releasing.py")
    mounted = [*own, "sh", "-c", MOUNT, "sh", disk, sys.executable, "-c", SCRIPT, disk, *commands]
    done = subprocess.run(mounted, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    for command, found in json.loads(done.stdout.splitlines()[-1]).items():
        assert found["bad"] == [], command
        assert found["refused"] > 0, command
        assert found["written"] > 0, command
