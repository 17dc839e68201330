# SPDX-License-Identifier: Apache-2.0
"""The page's section on published figures beside predictions: a picture, and tables."""

from html import escape

import altair as alt
import pandas as pd
import vl_convert

from .charts import PAPER, VEGA_LITE
from .labels import plural
from .markup import scrolled_table, world_badge
from .validation import NUMBERS

MODELS = {"simulated": "#D55E00", "naive": "#7F7F7F"}
SHOWN = {  # what matters first: a page may be too narrow for all
    "row": "row",
    "metric": "metric",
    "published": "published",
    "simulated": "simulated",
    "error": "error",
    "naive": "naive model",
    "naive_error": "its error",
    "mark": "mark",
    "system": "system",
    "figure": "figure",
}


def picture(tables):
    """SVG: a dot for each prediction, at its ratio to what was published."""
    dots = [
        {"table": table.name, "model": model, "ratio": figure[model] / figure["published"]}
        for table in tables
        for figure in table.predicted()
        for model in MODELS
        if figure[model] > 0 and figure["published"] > 0
    ]
    names = [table.name for table in tables if table.predicted()]
    base = alt.Chart(pd.DataFrame(dots))
    ratio = alt.X(
        "ratio:Q",
        title="predicted / published",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(values=[0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4], labelExpr="datum.value + '×'"),
    )
    row = alt.Y("table:N", title=None, sort=names, axis=alt.Axis(labelLimit=300, minExtent=150))
    offset = alt.YOffset("model:N", sort=list(MODELS))
    colour = alt.Color(
        "model:N", title=None, scale=alt.Scale(domain=list(MODELS), range=list(MODELS.values()))
    )
    marks = base.mark_point(filled=True, size=34, opacity=0.55).encode(ratio, row, offset, colour)
    exact = alt.Chart(pd.DataFrame([{"ratio": 1}])).mark_rule(strokeDash=[5, 4]).encode(x="ratio:Q")
    chart = (exact + marks).properties(
        width=760,
        height=alt.Step(17),
        title=alt.TitleParams(
            "Predicted against published", subtitle="simulated: predictions, not measured"
        ),
    )
    return vl_convert.vegalite_to_svg(
        chart.to_dict(), vl_version=VEGA_LITE, config=PAPER
    )


def section(tables):
    """HTML: the picture, and of each table its scores, its figures and what it leaves out."""
    if not tables:
        return ""
    figure = (
        f'<figure class="static"><figcaption>{world_badge("simulated")}</figcaption>'
        f'<div class="chart">{picture(tables)}</div></figure>'
    )
    return (
        '<section id="validation"><h2>Published figures and predictions</h2><p>What papers and '
        "projects have published, beside what virtual time says of the same runs, and beside a naive "
        "model: links at their peak, no contention, nothing for merging or launching. A calibration "
        "is an anchor, which says how fast kernels are and is not predicted; a fit had the table in "
        "view. Errors in per cent are relative, the others differences of ratios and shares. Nothing here was measured on this machine, and the choice of rows does not apply.</p>"
        + figure
        + "".join(details(table) for table in tables)
        + "</section>"
    )


def details(table):
    columns = [name for name in SHOWN if any(figure[name] != "" for figure in table.figures)]
    error = error_format(table)
    head = "".join(f"<th>{SHOWN[name]}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(cell(name, figure[name], error) for name in columns) + "</tr>"
        for figure in table.figures
    )
    shown = scrolled_table(head, body)
    name = table.name or "rows of no table"
    return (
        f"<details><summary><b>{escape(name)}</b>: {escape(scores(table))}</summary>"
        f"{shown if table.figures else ''}{omissions(table)}</details>"
    )


def scores(table):
    predicted = table.predicted()
    form = error_format(table)
    parts = []
    if predicted:
        ours, naive = (
            sum(abs(figure[name]) for figure in predicted) / len(predicted)
            for name in ("error", "naive_error")
        )
        largest = max((figure["error"] for figure in predicted), key=abs)
        parts.append(
            f"{plural(len(predicted), 'prediction')}, mean error {ours:{form}}, largest "
            f"{largest:+{form}}; of the naive model {naive:{form}} on average"
        )
    anchors = len(table.figures) - len(predicted)
    if anchors:
        parts.append(plural(anchors, "anchor"))
    if table.omitted:
        parts.append(f"{plural(len(table.omitted), 'row')} not predicted")
    return "; ".join(parts)


def error_format(table):
    """Differences are of shares, or of ratios: per cent would say that they are relative."""
    return ".3f" if table.absolute() else ".1%"


def omissions(table):
    reasons = {}
    for row in table.omitted:
        reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    items = "".join(
        f"<li>{plural(count, 'row')}: {escape(reason)}</li>" for reason, count in reasons.items()
    )
    return f"<ul>{items}</ul>" if items else ""


def cell(name, value, error):
    if name in ("error", "naive_error"):
        return f'<td class="number">{value:+{error}}</td>'
    if name in NUMBERS:
        return f'<td class="number">{value:.4g}</td>'
    return f"<td>{escape(value)}</td>"
