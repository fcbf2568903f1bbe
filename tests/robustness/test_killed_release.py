"""A release killed at random points: the target is whole or absent, and what is left behind holds no true value."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, random, signal, sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import pramana as pr
from pramana.frames.blocks import csv_files as csv_blocks, parquet_files as parquet_blocks
from pramana.disclosure.release.releasing import release

# P exchanges the two levels, so a true value in the output would be seen; blocks are small, so there are many of them.
os.chdir(sys.argv[1])
mechanism = pr.Mechanism({"z": pr.TransitionMatrix(["TRUTH", "noise"], [[0, 1], [1, 0]])})
csv_blocks.SIZE, parquet_blocks.LONGEST = 1000, 100
Path("in.csv").write_text("x,z\\n" + "".join(f"{i},TRUTH\\n" for i in range(6000)))
pq.write_table(pa.table({"x": list(range(6000)), "z": ["TRUTH"] * 6000}), "in.parquet", compression="none")
os.environ["OMP_NUM_THREADS"] = "1"

def trial(target, again, delay=None):
    pid = os.fork()
    if pid == 0:
        try:
            release(f"in{target.suffix}", target, mechanism, force=again, card=True, allow="identity")
        finally:
            os._exit(0)
    if delay is not None:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]

def raw(path):
    content = path.read_bytes()
    if content.endswith(b"PAR1") and len(content) > 8:
        return "TRUTH" in pq.read_table(path).column("z").to_pylist()
    return b"TRUTH" in content

def faults(path):
    return {found.check for found in pr.audit(path).findings if found.severity == "error"}

def timed(target):
    begun = time.monotonic()
    target.unlink(missing_ok=True)
    for path in target.parent.glob("*.card.*"):
        path.unlink()
    trial(target, False)
    return time.monotonic() - begun

def tried(ending, again, kills):
    target = Path(f"public-{ending}-{again}") / f"out.{ending}"
    target.parent.mkdir()
    timed(target)
    pr.audit(target)  # everything is imported now, so that later processes, forked from this one, are quick
    from pramana.disclosure.release import card
    length = min(timed(target) for _ in range(3))
    whole = target.read_bytes()
    count = {"killed": 0, "absent": 0, "old": 0, "whole": 0, "leftovers": 0, "bad": 0, "trials": 0}
    while count["killed"] < kills and count["trials"] < 4 * kills:
        count["trials"] += 1
        if not again:
            for path in target.parent.glob("[!.]*"):
                path.unlink()
        old = b"old" * 1000
        if again:
            target.write_bytes(old)
        killed = os.WIFSIGNALED(trial(target, again, random.uniform(0, 0.9 * length)))
        count["killed"] += killed
        length *= 1 if killed else 0.9  # where the runs above were slowed down by others
        for path in target.parent.glob(".*.part"):
            count["leftovers"] += 1
            count["bad"] += path.name.startswith(f".out.{ending}.") and "card" not in path.name and raw(path)
        if not target.exists():
            count["absent"] += 1
        elif target.read_bytes() == old:
            count["old"] += 1
        elif len(target.read_bytes()) == len(whole) and not raw(target) and faults(target) == {"identity"}:
            count["whole"] += 1
        else:
            count["bad"] += 1
    timed(target)
    return count | {"remaining": len(list(target.parent.glob(".*")))}

random.seed(1)
kills = int(sys.argv[2])
print(json.dumps({f"{e}-{a}": tried(e, a == "again", kills) for e in ("csv", "parquet") for a in ("new", "again")}))
"""


@pytest.mark.engines
@pytest.mark.parametrize("kills", [8, pytest.param(30, marks=pytest.mark.verify)])
def test_a_killed_release_leaves_a_whole_file_or_none(kills: int, tmp_path: Path) -> None:
    """With an older file in place of the target too: that one stays until the new one is whole."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for kind, count in json.loads(done.stdout).items():
        assert count["bad"] == 0, (kind, count)
        assert count["absent" if kind.endswith("new") else "old"] + count["whole"] == count["trials"], (kind, count)
        assert count["killed"] >= kills, (kind, count)
        assert count["leftovers"] > 0 or kills < 30, kind  # a few kills may all fall between two writings
        assert count["remaining"] == 0, kind
