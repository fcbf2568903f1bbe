"""Reports: one HTML file with tables, pictures, diagnostics, what was done in words, and the command that did it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pramana.errors import PramanaError
from pramana.frames.writing import check_target, write_text
from pramana.numbers import count
from pramana.render import Sheet
from pramana.render.figures import drawn, percent
from pramana.render.pages import Code, Drawing, Heading, Page

if TYPE_CHECKING:
    from pramana.result import Result

SOURCES = {
    "Tian and Zhao": "Tian and Zhao. Efficient and model-agnostic parameter estimation under privacy-preserving post-randomization data.",
    "Gouweleeuw et al., 1998": "Gouweleeuw, J. M., Kooiman, P., Willenborg, L. C. R. J. and de Wolf, P.-P. (1998). Post randomisation for "
    "statistical disclosure control: theory and implementation. Journal of Official Statistics 14, 463–478.",
    "Woo and Slavković, 2012": "Woo, Y. M. J. and Slavković, A. B. (2012). Logistic regression with variables subject to post randomization "
    "method. Privacy in Statistical Databases, 116–130.",
    "Stefanski and Carroll, 1987": "Stefanski, L. A. and Carroll, R. J. (1987). Conditional scores and optimal scores for generalized linear "
    "measurement-error models. Biometrika 74, 703–716.",
    "Patrini et al., 2017": "Patrini, G., Rozza, A., Menon, A. K., Nock, R. and Qu, L. (2017). Making deep neural networks robust to label noise: "
    "a loss correction approach. Proceedings of CVPR, 1944–1952.",
    "White, 1980": "White, H. (1980). A heteroskedasticity-consistent covariance matrix estimator and a direct test for heteroskedasticity. "
    "Econometrica 48, 817–838.",
    "Jin et al., 2001": "Jin, Z., Ying, Z. and Wei, L. J. (2001). A simple resampling method by perturbing the minimand. Biometrika 88, 381–390.",
}
"""What a methods paragraph can cite, by how it cites it."""

METHODS = {
    "true data": "is that of the unperturbed file",
    "reversion": "replaces the estimating function by one whose average over the known randomisation is that of the true data, and assumes no model of "
    "the hidden values (Tian and Zhao)",
    "naive": "takes released values for true ones, and is biased wherever a perturbed column matters",
    "stabilized": "blends reversion (Tian and Zhao) with an estimate whose probabilities of the hidden levels stay between 0 and 1, near reversion "
    "where the data object to the other; its limit is reversion's",
    "likelihood": "is maximum likelihood with the hidden levels summed out, and needs the model to hold for the hidden data (Woo and Slavković, 2012)",
    "model-dependent": "turns a regression of the released column into probabilities of the true one, and averages the score over them; it needs that "
    "regression to hold (Tian and Zhao, Section 4)",
    "forward correction": "sends the probabilities of the model through the transition matrix (Patrini et al., 2017)",
    "backward correction": "reverts the loss (Patrini et al., 2017)",
    "conditional score": "conditions on a sufficient statistic for the hidden number, and needs the logit to hold (Stefanski and Carroll, 1987)",
    "validated": "joins the records whose true values are known with the others",
}
"""What a method does, in words that follow its name."""
ERRORS = {"sandwich": "White, 1980", "resampling": "Jin et al., 2001"}


def write_page(page: Page, path: str | Path, *, force: bool) -> Path:
    """A page as one HTML file, which appears whole or not at all."""
    target = Path(path)
    check_report(target, force=force)
    write_text(target, page.html(), force=force)
    return target


def check_report(path: Path, *, force: bool) -> None:
    """Refuse before any work is done."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise PramanaError(f"report {str(path)!r} has an unknown ending: a report is one HTML file, as in report.html")
    check_target(path, force=force)


def results_page(
    title: str,
    tables: Sequence[Sheet],
    results: Mapping[str, Result],
    figure: Any,
    *,
    level: float | None = None,
    command: str = "",
) -> Page:
    """Of one result, or of several side by side."""
    page = Page(title)
    page.add(*(replace(table, notes=()) for table in tables))
    page.add(Drawing(drawn(figure, ".png"), _caption(results, level), ""))
    page.add(Heading("Diagnostics"), *_diagnostics(tables))
    for label, result in results.items():
        if result.privacy is not None:
            page.add(_price(label, result, alone=len(results) == 1))
    page.add(Heading("Methods"), *methods_in_words(results, level))
    return with_command(page, command)


def _caption(results: Mapping[str, Result], level: float | None) -> str:
    return f"Estimates with their intervals, at {_levels(results, level)}"


def _levels(results: Mapping[str, Result], level: float | None) -> str:
    return " or ".join(dict.fromkeys(percent(result.shown_level(level)) for result in results.values()))


def _diagnostics(tables: Sequence[Sheet]) -> list[str]:
    return [note for table in tables for note in table.notes] or [
        "Nothing was found that speaks against these numbers."
    ]


def _price(label: str, result: Result, *, alone: bool) -> Sheet:
    """Which share of each variance the randomisation costs."""
    rows = result.to_dict()["price_of_privacy"]
    title = "Price of privacy" if alone else f"Price of privacy, {label}"
    return Sheet(tuple(rows[0]), tuple(tuple(row.values()) for row in rows), title)


def methods_in_words(results: Mapping[str, Result], level: float | None = None) -> list[str]:
    """The methods paragraph of an article, and what it cites."""
    first = next(iter(results.values()))
    asked = "; ".join(f"{k.lower()} {v}" for k, v in first.facts.items() if k in ("Formula", "Family", "Parameter"))
    told = [
        f"Some columns of the file were randomised before release, with known probabilities (Gouweleeuw et al., 1998). From {count(first.n)} released "
        f"records we estimated {asked or ', '.join(first.parameters)}."
    ]
    told += [f"The {label} estimate {_of_method(label, result)}." for label, result in results.items()]
    ways = dict.fromkeys(_errors(result, alone=len(results) == 1) for result in results.values())
    told.append(f"Standard errors: {'; '.join(ways)}.")
    told.append(f"Intervals are at {_levels(results, level)}. Computed with pramana {version('pramana')}.")
    text = " ".join(told)
    return [text, *references(text)]


def _of_method(label: str, result: Result) -> str:
    known = (METHODS.get(name.partition(" (")[0]) for name in (label, result.method))
    return next((words for words in known if words), f"is that of the method {result.method}")


def _errors(result: Result, *, alone: bool) -> str:
    """How they were found; several results share their words, whose details are in their own reports."""
    words = result.inference if alone else result.inference.partition(" (")[0]
    source = next((cited for name, cited in ERRORS.items() if name in result.inference), "")
    return f"{words} ({source})" if source else words


def references(text: str) -> list[str]:
    """The sources that a text cites, in full."""
    cited = [full for short, full in SOURCES.items() if short in text]
    return [f"References. {' '.join(cited)}"] if cited else []


def with_command(page: Page, command: str) -> Page:
    """A page that says how to make it again."""
    if command:
        page.add(Heading("How this was made"), Code(command))
    return page
