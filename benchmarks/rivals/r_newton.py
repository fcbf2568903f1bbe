"""Newton's method written by hand in R, where Rscript is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.cases import Case, Float

NAME = "R, one Newton a draw"
_SCRIPT = """
args <- commandArgs(TRUE)
d <- as.matrix(read.csv(file.path(args[1], "design.csv"), header = FALSE))
v <- as.matrix(read.csv(file.path(args[1], "values.csv"), header = FALSE))
b0 <- scan(file.path(args[1], "start.csv"), quiet = TRUE); n <- as.integer(args[2]); C <- as.integer(args[3]); M <- as.integer(args[4])
set.seed(1); out <- matrix(0, M, ncol(d)); t0 <- proc.time()[["elapsed"]]
for (m in seq_len(M)) {
  w <- v[, 1] * rep(rexp(n), each = C); b <- b0
  for (k in 1:50) {
    mu <- 1 / (1 + exp(-drop(d %*% b)))
    s <- solve(crossprod(d, d * (w * mu * (1 - mu))), crossprod(d, w * (v[, 2] - mu)))
    b <- b + drop(s); if (max(abs(s)) < 1e-10) break
  }
  out[m, ] <- b
}
cat(proc.time()[["elapsed"]] - t0)
"""


def available() -> bool:
    return shutil.which("Rscript") is not None


def seconds(case: Case, start: Float, draws: int) -> float:
    """Time inside R, its start and the reading of the data not counted."""
    with tempfile.TemporaryDirectory() as folder:
        root, nodes = Path(folder), case.weight.shape[1]
        np.savetxt(root / "design.csv", case.design.reshape(-1, case.design.shape[2]), delimiter=",")
        np.savetxt(
            root / "values.csv", np.column_stack([case.weight.ravel(), np.repeat(case.response, nodes)]), delimiter=","
        )
        np.savetxt(root / "start.csv", start)
        (root / "newton.R").write_text(_SCRIPT)
        command = ["Rscript", str(root / "newton.R"), str(root), str(case.n), str(nodes), str(draws)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
