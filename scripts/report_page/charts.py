# SPDX-License-Identifier: Apache-2.0
"""One figure's drawing as a Vega-Lite specification; its points are data named "points"."""

import math
import re

import altair as alt

from .columns import WORLDS, schedule_style
from .figures import AXIS_TITLES, LENGTH
from .series import schedule_order

PANELS_SHOWN = 12  # more cannot be told apart; the page says how many are left out

VEGA_LITE = re.match(r"v(\d+\.\d+)", alt.SCHEMA_VERSION).group(1)

# Vega expressions that give an axis value its unit.
TICKS = {
    "seconds": "datum.value == 0 ? '0' : "
    "datum.value < 1e-3 ? format(datum.value * 1e6, '~g') + ' µs' : "
    "datum.value < 1 ? format(datum.value * 1e3, '~g') + ' ms' : "
    "format(datum.value, '~g') + ' s'",
    "flops": "format(datum.value, '~s')",
    "bytes": "datum.value < 1024 ? format(datum.value, '~g') + ' B' : "
    "datum.value < 1048576 ? format(datum.value / 1024, '.3~g') + ' KiB' : "
    "datum.value < 1073741824 ? format(datum.value / 1048576, '.3~g') + ' MiB' : "
    "format(datum.value / 1073741824, '.3~g') + ' GiB'",
    "share": "format(datum.value, '.0%')",
    "ratio": "format(datum.value, '~g') + '×'",
    "tokens": "datum.value % 1048576 == 0 ? format(datum.value / 1048576, ',') + 'Mi' : "
    "datum.value % 1024 == 0 ? format(datum.value / 1024, ',') + 'Ki' : "
    "format(datum.value, ',')",
    "count": "datum.value % 1 == 0 ? format(datum.value, ',') : ''",
}


def chart(figure, drawing):
    """The specification without its points, but with a full title, for the page and for paper."""
    x = x_channel(drawing)
    base = alt.Chart(alt.NamedData("points"))
    chosen = alt.selection_point(fields=["schedule"], bind="legend", name="chosen")

    lines = (
        base.transform_filter(chosen)
        .mark_line(strokeWidth=1.6)
        .encode(
            x,
            y_channel(figure, drawing),
            colour(drawing),
            stroke_dash(drawing),
            alt.Detail("line:N"),
        )
    )
    marks = (
        base.transform_filter(chosen)
        .mark_point(filled=True, size=46, opacity=1, tooltip={"content": "data"})
        .encode(x, alt.Y("y:Q"), colour(drawing), shape(drawing))
        .add_params(chosen)
    )
    layers = [lines, marks]
    if any("low" in point for point in drawing.points):
        layers.insert(
            0,
            base.transform_filter(chosen)
            .transform_filter("isValid(datum.low)")
            .mark_rule(strokeWidth=1)
            .encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), colour(drawing)),
        )
    if figure.ideal:
        layers.insert(0, ideal_line(base, figure, x))

    panels = [panel.label for panel in drawing.panels]
    facet = alt.Facet(
        "panel:N", title=None, sort=panels, header=alt.Header(labelExpr="split(datum.label, '\\n')")
    )
    subtitle = [
        f"{drawing.world}: {WORLDS[drawing.world]}",
        *drawing.shared,
        *(["dashed: ideal"] if figure.ideal else []),
    ]
    return (
        alt.layer(*layers)
        .facet(facet)
        .resolve_axis(x="independent")
        .properties(title=alt.TitleParams(figure.title, subtitle=subtitle))
        .to_dict()
    )


def with_points(specification, points):
    """The specification with its points and a size that suits its panels, for a picture."""
    panels = len({point["panel"] for point in points})
    columns = next((count for count in (3, 4, 2) if panels % count == 0), min(panels, 3))
    width = 520 if columns == 1 else 980 // columns - 30
    inner = specification["spec"] | {
        "width": width,
        "height": max(170, round(width * (0.5 if columns == 1 else 0.68))),
    }
    return specification | {"data": {"values": points}, "columns": columns, "spec": inner}


def x_channel(drawing):
    values = sorted({point["x"] for point in drawing.points})
    unit = "tokens" if drawing.axis == LENGTH else "count"
    return alt.X(
        "x:Q",
        title=AXIS_TITLES[drawing.axis],
        scale=alt.Scale(type="log", base=2, nice=False, padding=12),
        axis=alt.Axis(values=values, labelExpr=TICKS[unit], labelOverlap="greedy", grid=False),
    )


def y_channel(figure, drawing):
    log = may_be_logarithmic(figure, drawing)
    base = 2 if figure.unit in ("bytes", "ratio") else 10
    scale = (
        alt.Scale(type="log", base=base, nice=False, padding=8)
        if log
        else alt.Scale(type="linear", nice=True)
    )
    ticks = log_ticks(heights(figure, drawing), base) if log else None
    which = {"values": ticks} if ticks else {"tickCount": 5, "labelOverlap": "greedy"}
    axis = alt.Axis(labelExpr=TICKS[figure.unit], **which)
    return alt.Y("y:Q", title=figure.y_title, scale=scale, axis=axis)


def heights(figure, drawing):
    """All that the vertical axis has to reach."""
    keys = ("y", "low", "high", *(["x"] if figure.ideal == "datum.x" else []))
    return [point[key] for point in drawing.points for key in keys if key in point]


def may_be_logarithmic(figure, drawing):
    return figure.log_y and min(heights(figure, drawing)) > 0


def log_ticks(values, base):
    """Round values on a logarithmic axis, few enough to be read; none where fewer than two fit."""
    low, high = min(values), max(values)
    exponents = range(math.floor(math.log(low, base)), math.ceil(math.log(high, base)) + 1)
    if base == 2:
        ticks = [2.0**i for i in exponents[:: 1 + len(exponents) // 9]]
    else:
        steps = (1, 2, 5) if len(exponents) <= 4 else (1,)
        ticks = [float(f"{step}e{i}") for i in exponents for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks if len(ticks) > 1 else []


def colour(drawing):
    names = schedules(drawing)
    return alt.Color(
        "schedule:N",
        title=None,
        scale=alt.Scale(domain=names, range=[schedule_style(name, names)[0] for name in names]),
    )


def shape(drawing):
    names = schedules(drawing)
    return alt.Shape(
        "schedule:N",
        title=None,
        scale=alt.Scale(domain=names, range=[schedule_style(name, names)[1] for name in names]),
    )


def stroke_dash(drawing):
    names = sorted({point["line"] for point in drawing.points})
    dashes = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [12, 4]]
    legend = (
        alt.Legend(title=None, values=[name for name in names if name], symbolSize=500)
        if len(names) > 1
        else None
    )
    return alt.StrokeDash(
        "line:N",
        legend=legend,
        scale=alt.Scale(domain=names, range=[dashes[i % len(dashes)] for i in range(len(names))]),
    )


def schedules(drawing):
    return sorted({point["schedule"] for point in drawing.points}, key=schedule_order)


def ideal_line(base, figure, x):
    return (
        base.transform_calculate(ideal=figure.ideal)
        .mark_line(strokeDash=[5, 4], strokeWidth=1.2, color="#888888")
        .encode(x, alt.Y("max(ideal):Q"), tooltip=alt.value(None))
    )


def theme(ink, faint, background):
    """How all charts look, on light or on dark ground."""
    return {
        "background": background,
        "font": "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif",
        "view": {"stroke": faint},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "gridColor": faint,
            "domainColor": faint,
            "tickColor": faint,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
        },
        "header": {
            "labelColor": ink,
            "labelFontSize": 12,
            "labelFontWeight": "bold",
            "labelAnchor": "start",
        },
        "legend": {
            "labelColor": ink,
            "labelFontSize": 12,
            "orient": "top",
            "symbolSize": 80,
            "columnPadding": 14,
            "columns": 7,
            "symbolStrokeWidth": 1.5,
            "labelLimit": 260,
        },
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "anchor": "start",
            "fontSize": 15,
            "subtitleFontSize": 11,
            "subtitlePadding": 4,
            "offset": 10,
        },
        "facet": {"spacing": 22},
    }


THEMES = {
    "light": theme("#24292f", "#e3e6ea", "#ffffff"),
    "dark": theme("#d6dae0", "#343b44", "#171b21"),
}


def spacious(look):
    """For pictures, which are measured with one font and read with another that may be wider."""
    return look | {
        "axisY": {"titlePadding": 12},
        "legend": look["legend"] | {"columnPadding": 34},
    }


PAPER = spacious(THEMES["light"])
