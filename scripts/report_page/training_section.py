# SPDX-License-Identifier: Apache-2.0
"""The page's section on models that were trained with a sharded sequence: losses, and a table."""

from html import escape
from statistics import median

import altair as alt
import pandas as pd
import vl_convert

from .charts import PAPER, VEGA_LITE
from .labels import tails, tokens
from .markup import scrolled_table, world_badge

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F"]
MIB = 1 << 20


def names(runs):
    """Of each run, what tells it from the others."""
    plain = [run.name() for run in runs]
    return [
        f"{name} ({file})" if plain.count(name) > 1 else name
        for name, file in zip(plain, tails(run.path for run in runs), strict=True)
    ]


def picture(runs):
    """SVG: a line for the losses of each run, and a dot for each step of the same on one rank."""
    lines, dots = [], []
    for name, run in zip(names(runs), runs, strict=True):
        lines += [{"run": name, "step": step["step"], "loss": step["loss"]} for step in run.steps]
        if run.compared():
            dots += [
                {"run": name, "step": step["step"], "loss": step["loss_on_one_rank"]}
                for step in run.steps
            ]
    colour = alt.Color(
        "run:N",
        title=None,
        sort=names(runs),
        scale=alt.Scale(range=COLOURS),
        legend=alt.Legend(labelLimit=600, columns=1),
    )
    step = alt.X("step:Q", title="step", axis=alt.Axis(tickMinStep=1, tickCount=10))
    loss = alt.Y("loss:Q", title="loss (nats per byte)", scale=alt.Scale(zero=False))
    drawn = alt.Chart(pd.DataFrame(lines)).mark_line().encode(step, loss, colour)
    if dots:
        one = alt.Chart(pd.DataFrame(dots)).mark_point(size=30, opacity=0.8)
        drawn += one.encode(step, loss, colour)
    chart = drawn.properties(
        width=620,
        height=260,
        title=alt.TitleParams(
            "A small model learns", subtitle="lines: several ranks; dots: the same on one rank"
        ),
    )
    return vl_convert.vegalite_to_svg(
        chart.to_dict(), vl_version=VEGA_LITE, config=PAPER
    )


COLUMNS = {
    "run": lambda name, run: name,
    "ranks": lambda name, run: run.about["ranks"],
    "steps": lambda name, run: f"{len(run.steps)}",
    "first loss": lambda name, run: f"{run.steps[0]['loss']:.4f}",
    "last loss": lambda name, run: f"{run.steps[-1]['loss']:.4f}",
    "largest relative difference from one rank": lambda name, run: (
        f"{run.largest_difference():.1e}" if run.compared() else ""
    ),
    "tokens/s (median)": lambda name, run: (
        f"{median(step['tokens_per_s'] for step in run.steps):,.0f}"
    ),
    "activations per rank, MiB": lambda name, run: (
        f"{max(step['activation_bytes_per_rank'] for step in run.steps) / MIB:.2f}"
    ),
    "model": lambda name, run: f"{run.about['variant']}, {run.about['dtype']}",
    "transport": lambda name, run: run.about["transport"],
    "tokens of a sample": lambda name, run: tokens(run.about["sequence_length"]),
    "recomputed": lambda name, run: run.about["recompute"],
    "machine": lambda name, run: run.about["machine"],
    "commit": lambda name, run: run.about["commit"],
}
TEXT = ("run", "model", "transport", "recomputed", "machine", "commit")


def section(runs):
    """HTML: the picture and a row for each run; nothing where there is none."""
    if not runs:
        return ""
    head = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS)
    body = "".join(
        "<tr>" + "".join(cell(column, text(name, run)) for column, text in COLUMNS.items()) + "</tr>"
        for name, run in zip(names(runs), runs, strict=True)
    )
    return (
        '<section id="training"><h2>Training</h2><p>A small transformer learns a text by bytes, its '
        "sequence sharded: the same losses as on one rank, but for the order of sums. The choice of "
        f'rows does not apply.</p><figure class="static"><figcaption>{world_badge("host")}</figcaption>'
        f'<div class="chart">{picture(runs)}</div></figure>{scrolled_table(head, body)}</section>'
    )


def cell(column, text):
    number = "" if column in TEXT else ' class="number"'
    return f"<td{number}>{escape(text)}</td>"
