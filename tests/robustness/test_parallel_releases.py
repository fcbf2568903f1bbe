"""Several releases to one path at once: one whole file, with its own description."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, sys, time
from pathlib import Path

import pytest
import pandas as pd
import pramana as pr
from pramana.frames.blocks import csv_files, parquet_files
from pramana.frames.writing import sha256

os.chdir(sys.argv[1])
n = 3000
frame = pd.DataFrame({"id": range(n), "z": ["a", "b"] * (n // 2)})
frame.to_csv("in.csv", index=False)
frame.to_parquet("in.parquet")
csv_files.SIZE, parquet_files.LONGEST = 4000, 500
M = pr.Mechanism({"z": pr.TransitionMatrix.randomized_response(["a", "b"], 0.8)})

def released(target, **options):
    try:
        pr.release(f"in{target.suffix}", target, M, card=True, **options)
        return 0
    except pr.PramanaError:
        return 1

def rounds(ending, force):
    for k in range(3):
        folder = Path(f"{ending}-{force}-{k}")
        folder.mkdir()
        begin, children = time.time() + 0.1, []
        for j in range(6):
            pid = os.fork()
            if pid == 0:
                time.sleep(max(0, begin - time.time()))
                options = {"force": True} if force else {"ledger": f"{folder}.ledger"} if k % 2 else {}
                try:
                    code = released(folder / f"out.{ending}", **options)
                finally:
                    os._exit(code)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        target = folder / f"out.{ending}"
        entries = json.loads((folder / "datapackage.json").read_text())["resources"]
        own = Path(f"{folder}.ledger")
        lines = own.read_text().splitlines() if own.exists() else []
        yield {
            "codes": sorted(codes),
            "described": [e["pram"]["sha256"] for e in entries] == [sha256(target)],
            "clean": pr.audit(target).clean,
            "carded": all(sha256(target) in p.read_text() for p in folder.glob("*.card.*")),
            "recorded": [json.loads(line)["released"] for line in lines] == [sha256(target)] * (not force and k % 2),
            "files": sorted(p.name for p in folder.iterdir()),
        }

for ending in ("csv", "parquet"):
    Path(f"warm-{ending}").mkdir()
    released(Path(f"warm-{ending}/out.{ending}"))
    pr.audit(f"warm-{ending}/out.{ending}")
print(json.dumps({f"{e}-{f}": list(rounds(e, f == "force")) for e in ("csv", "parquet") for f in ("force", "new")}))
"""


@pytest.mark.engines
def test_six_releases_to_one_path(tmp_path: Path) -> None:
    """Without force one of them makes the file and the others are refused, with a ledger, which knows the one, or without."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    for kind, rounds in json.loads(done.stdout.splitlines()[-1]).items():
        ending, force = kind.split("-")
        for found in rounds:
            assert found.pop("codes") == ([0] * 6 if force == "force" else [0, 1, 1, 1, 1, 1]), kind
            assert found.pop("files") == [
                "datapackage.json",
                *(f"out.{ending}{more}" for more in ("", ".card.html", ".card.md")),
            ]
            assert all(found.values()), (kind, found)
