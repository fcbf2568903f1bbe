"""What a picture of estimates shows, and where it can be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import pramana as pr
from pramana.estimators import KNOWN, method_of
from pramana.render.figures import ALIASES, LOOKS, OTHERS, Line, drawn, heat_map, heat_maps, line_grid, looks

MECHANISM = pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=0.9, specificity=0.85)})


@pytest.fixture(scope="module")
def survey() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=1500), rng.integers(0, 2, 1500)
    true = rng.random(1500) < 1 / (1 + np.exp(1 - x - z))
    return pd.DataFrame({"x": x, "z": z, "y": (rng.random(1500) < np.where(true, 0.9, 0.15)).astype(int)})


@pytest.fixture(scope="module")
def model(survey: pd.DataFrame) -> pr.Result:
    return pr.fit("y ~ x + z", survey, MECHANISM, family="binomial")


def terms(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def colours(axes: Any) -> dict[str, str]:
    """Label ↦ colour, of every series of a picture."""
    handles, labels = axes.get_legend_handles_labels()
    return {label: to_hex(handle.get_color()) for handle, label in zip(handles, labels, strict=True)}


def test_the_intercept_is_left_out_unless_it_is_asked_for(model: pr.Result) -> None:
    assert terms(model.plot().axes[0]) == ["x", "z"]
    assert terms(model.plot(intercept=True).axes[0]) == ["Intercept", "x", "z"]


def test_an_intercept_alone_is_shown(survey: pd.DataFrame) -> None:
    assert terms(pr.fit("x ~ 1", survey, None).plot().axes[0]) == ["Intercept"]


@pytest.mark.parametrize(("level", "said"), [(None, "95 %"), (0.9, "90 %"), (0.99, "99 %")])
def test_the_picture_says_the_level_of_its_intervals(model: pr.Result, level: float | None, said: str) -> None:
    axes = model.plot(level=level).axes[0]
    assert axes.get_xlabel() == f"estimate with {said} interval"
    (ends,) = [c.get_segments() for c in axes.collections]
    np.testing.assert_allclose([s[:, 0] for s in ends], model.interval(level)[1:])


def test_ratios_are_drawn_on_their_own_axis(model: pr.Result) -> None:
    axes = model.plot(exponentiate=True).axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "ratio with 95 % interval"
    np.testing.assert_allclose(axes.lines[0].get_xdata(), np.exp(model.estimate[1:]))
    assert axes.lines[1].get_xdata() == [1.0, 1.0]  # no effect
    assert not any("$" in text.get_text() for text in axes.get_xticklabels())


def test_terms_can_be_called_otherwise(model: pr.Result) -> None:
    assert terms(model.plot(labels={"z": "treated"}).axes[0]) == ["x", "treated"]
    with pytest.raises(pr.PramanaError, match=r"labels name 'zz', which is no term: did you mean 'z'"):
        model.plot(labels={"zz": "treated"})


def test_text_is_drawn_letter_by_letter(survey: pd.DataFrame) -> None:
    r"""A name such as $\x$ would else be read as a formula, and refused as a wrong one."""
    strange = {r"$\x$": pr.fit("x ~ z", survey, None), "$$": pr.fit("x ~ z", survey, None)}
    made = pr.Comparison(strange, title=r"$\frac$").plot(labels={"z": r"$\z$"})
    assert drawn(made, ".png")[:4] == b"\x89PNG"


def every_plot(survey: pd.DataFrame) -> Iterator[tuple[Any, int]]:
    """Everything that has a `plot`, with its number of panels."""
    yield pr.fit("x ~ z", survey, None), 1
    yield pr.compare("y ~ x", survey, MECHANISM, family="binomial"), 1
    yield pr.frontier(survey, "y", [0.7, 0.9], keys=["z"], simulate=0), 2
    ranges = {"sensitivity": (0.85, 0.95)}
    yield pr.band("y ~ x + z", survey, lambda sensitivity: pr.Mechanism({"y": pr.TransitionMatrix.binary(sensitivity=sensitivity, specificity=0.9)}), ranges, points=2), 2  # fmt: skip


def test_every_plot_draws_into_given_axes(survey: pd.DataFrame) -> None:
    for shown, count in every_plot(survey):
        alone = shown.plot()
        assert isinstance(alone, Figure)
        assert len(alone.axes) == count
        panels = np.ravel(Figure().subplots(1, count))
        given = panels[0] if count == 1 else panels
        assert shown.plot(ax=given) is given
        assert all(isinstance(one, Axes) and one.has_data() for one in panels)
        with pytest.raises(pr.PramanaError, match=rf"ax holds 3 axes for a picture of {count}: give as many as panels"):
            shown.plot(ax=Figure().subplots(1, 3))


def test_a_picture_can_be_saved_as_it_is(model: pr.Result, tmp_path: Any) -> None:
    figure = model.plot()
    assert drawn(figure, ".svg") == drawn(model.plot(), ".svg")  # nothing of the day or the process in it
    assert b"<svg" in drawn(figure, ".svg")
    figure.savefig(tmp_path / "own.png")
    assert (tmp_path / "own.png").stat().st_size > 1000


def test_a_notebook_is_given_the_picture_itself(model: pr.Result) -> None:
    png, size = model.plot()._repr_png_()
    assert png[:4] == b"\x89PNG"
    assert size == {"width": 691}  # 7.2 inches; the height follows


def test_every_method_has_a_colour_and_a_marker_of_its_own() -> None:
    labels = {method_of(name).label for name in KNOWN}
    assert labels <= set(LOOKS)
    assert len({LOOKS[label] for label in labels}) == len(labels)
    assert set(ALIASES.values()) <= set(LOOKS)


def test_a_method_has_one_colour_in_all_pictures(survey: pd.DataFrame, model: pr.Result) -> None:
    comparison = pr.compare("y ~ x", survey, MECHANISM, ["naive", "reversion"], family="binomial", truth=survey)
    both = colours(comparison.plot().axes[0])
    assert both["reversion"] == colours(model.plot().axes[0])["reversion"] == LOOKS["reversion"][0].lower()
    assert both["naive"] == LOOKS["naive"][0].lower()
    line = Line([1.0, 2.0], [0.1, 0.2])
    study = line_grid([[{"proposed": line, "naive": line}]], rows=["bias"], columns=["p"], x_label="n")
    handles = dict(zip(*study.axes[0].get_legend_handles_labels()[::-1], strict=True))
    assert to_hex(handles["proposed"].lines[0].get_color()) == both["reversion"]
    assert to_hex(handles["naive"].lines[0].get_color()) == both["naive"]


def test_models_of_one_method_have_different_colours(survey: pd.DataFrame) -> None:
    models = {"short": pr.fit("x ~ z", survey, None), "long": pr.fit("x ~ z + y", survey, None)}
    found = colours(pr.Comparison(models).plot().axes[0])
    assert len(set(found.values())) == 2
    assert len({colour for colour, _ in looks([f"model {k}" for k in range(len(OTHERS))])}) == len(OTHERS)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_colours_stand_out_from_the_page() -> None:
    assert all(1.05 / (luminance(colour) + 0.05) > 2.0 for colour, _ in (*LOOKS.values(), *OTHERS))


def test_simulated_lines_have_monte_carlo_bars() -> None:
    figure = line_grid(
        [[{"p = 0.8": Line([1.0, 2.0], [0.5, 0.7], [0.1, 0.2])}]], rows=["ratio"], columns=["β"], x_label="n", ordered=True
    )  # fmt: skip
    (bars,) = [c.get_segments() for c in figure.axes[0].collections]
    np.testing.assert_allclose([s[:, 1] for s in bars], [[0.3, 0.7], [0.3, 1.1]])


def test_a_map_says_which_colour_is_better() -> None:
    values = np.array([[0.5, 1.5], [1.0, 1.0]])
    figure = heat_maps(
        {"β": values, "γ": values},
        [0.8, 0.9],
        x_label="a",
        y_label="b",
        title="",
        names=("proposed", "Model 1 clipped"),
    )
    *maps, bar = figure.axes
    told = [text.replace("\n", " ") for text in (bar.get_title(), bar.get_xlabel())]
    assert told == ["red: Model 1 clipped is better", "blue: proposed is better"]
    figure.draw_without_rendering()
    assert bar.title.get_window_extent().x0 > maps[-1].get_window_extent().x1  # beside the map, not on it
    image = figure.axes[0].images[0]
    red, _, blue, _ = image.cmap(image.norm(0.5))
    assert blue > red


def test_a_picture_with_odd_names_is_a_picture(survey: pd.DataFrame) -> None:
    """XML has no way to write a control character: an SVG that holds one does not open."""
    odd = "x\x1b[31m\x07"
    data = survey.rename(columns={"x": odd}).assign(**{"g\x01": np.resize(["a\x1b", "b"], len(survey))})
    fitted = pr.fit(f"y ~ `{odd}` + z", data, MECHANISM)
    known = pr.frontier(data, "g\x01", [0.7, 0.9], keys=["z"], analysis="z ~ `g\x01`", simulate=0)
    for picture in (fitted.plot(title=odd), heat_map(np.eye(2), ["a\x1b", "b"]), known.plot(title=odd)):
        text = drawn(picture, ".svg").decode()
        ElementTree.fromstring(text)
        assert "\x1b" not in text
