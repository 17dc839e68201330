# SPDX-License-Identifier: Apache-2.0
"""Puts the page together: text, data and scripts in one file that needs no network."""

import functools
import json
import re
from html import escape
from importlib.resources import files

import pandas as pd
import vl_convert

from . import markup, summary, timeline, training_section, validation_section
from .charts import PANELS_SHOWN, PAPER, THEMES, VEGA_LITE, chart, may_be_logarithmic, with_points
from .columns import COLUMNS, PASSES, PROBLEM, PROVENANCE, WORLDS, schedule_style
from .figures import FIGURES
from .labels import shorten, tokens
from .series import draw, number, schedule_order

SCRIPTS = ("format.js", "filters.js", "figures.js", "tables.js", "page.js")


def drawings(rows):
    """(figure, drawing) for every figure and world that has something to show."""
    worlds = [world for world in WORLDS if (rows["world"] == world).any()]
    for figure in FIGURES:
        shown = rows[rows["ranks"] > 1] if figure.several_ranks else rows
        for world in worlds:
            options = (
                draw(shown, world, axis, figure.y, figure.low, figure.high) for axis in figure.axes
            )
            drawing = next(filter(None, options), None)
            if drawing:
                yield figure, drawing


def render(rows, notes, traces=(), tables=(), runs=()):
    drawn = list(drawings(rows))
    found = summary.fastest(rows)
    parts = {
        "style": asset("page.css"),
        "title": f"Ringspan: {', '.join(sorted(set(rows['machine'])))}",
        "summary": "".join(
            f"<li>{escape(text)}</li>" for text in summary.sentences(rows, found, notes)
        ),
        "fastest": markup.fastest_tables(found),
        "figures": "".join(markup.figure_section(figure, drawn) for figure in FIGURES),
        "timelines": markup.timeline_section([(one.world, timeline.draw(one)) for one in traces]),
        "validation": validation_section.section(tables),
        "training": training_section.section(runs),
        "provenance": markup.provenance_table(rows),
        "threads_note": markup.threads_note(rows),
        "data": json.dumps(payload(rows, drawn), allow_nan=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        ),
        "vega": vega(),
        "script": "\n".join(asset(name) for name in SCRIPTS),
    }
    parts["title"] = escape(parts["title"])
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], asset("page.html"))


def svgs(rows, traces=(), tables=(), runs=()):
    """{file name: SVG} of every figure, of the panels that weigh most where there are too many."""
    pictures = {f"timeline.{one.path.stem}.svg": timeline.draw(one) for one in traces}
    if tables:
        pictures["validation.svg"] = validation_section.picture(tables)
    if runs:
        pictures["training.svg"] = training_section.picture(runs)
    for figure, drawing in drawings(rows):
        kept = {panel.label for panel in drawing.panels if panel.weight < PANELS_SHOWN}
        points = [point for point in drawing.points if point["panel"] in kept]
        pictures[f"{figure.name}.{drawing.world}.svg"] = vl_convert.vegalite_to_svg(
            with_points(chart(figure, drawing), points),
            vl_version=VEGA_LITE,
            config=PAPER,
        )
    return pictures


@functools.cache
def vega():
    """The scripts that draw charts. Bundling them takes a third of the time of a page."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)


def asset(name):
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def payload(rows, drawn):
    return {
        "columns": [
            {"name": name, "kind": kind} for name, kind in [*COLUMNS.items(), ("file", "text")]
        ],
        "rows": [
            [plain(row[name]) for name in [*COLUMNS, "file"]] for row in rows.to_dict("records")
        ],
        "axes": filter_axes(rows),
        "provenance": PROVENANCE,
        "problem": PROBLEM,
        "worlds": WORLDS,
        "panelsShown": PANELS_SHOWN,
        "themes": THEMES,
        "figures": [
            {
                "id": markup.figure_id(figure, drawing),
                "name": f"{figure.name}.{drawing.world}",
                "spec": chart(figure, drawing),
                "points": drawing.points,
                "panels": [
                    {"label": panel.label, "weight": panel.weight} for panel in drawing.panels
                ],
                "logY": may_be_logarithmic(figure, drawing),
            }
            for figure, drawing in drawn
        ],
    }


def plain(value):
    """A value as JSON has it: null for not measured, whole numbers without a fraction."""
    if pd.isna(value):
        return None
    return value if isinstance(value, str) else number(value)


def filter_axes(rows):
    """The columns by which a reader may choose rows: those with two values or more."""
    names = list(dict.fromkeys(["schedule", "world", *PROBLEM, *PROVENANCE]))
    axes, partitions = [], []
    for name in names:
        values = [plain(value) for value in rows[name].dropna().unique()]
        partition = list(rows[name].factorize()[0])
        if (
            len(values) < 2 or partition in partitions
        ):  # or it would say again what another column says
            continue
        partitions.append(partition)
        values.sort(key={"schedule": schedule_order, "pass": ["", *PASSES].index}.get(name))
        colours = (
            {value: schedule_style(value, values)[0] for value in values}
            if name == "schedule"
            else {}
        )
        axes.append(
            {
                "column": name,
                "values": [
                    {"value": value, "text": filter_text(name, value), "colour": colours.get(value)}
                    for value in values
                ],
            }
        )
    return axes


def filter_text(name, value):
    if value == "":
        return "(none)"
    return tokens(value) if name == "sequence_length" else shorten(str(value), 32)
