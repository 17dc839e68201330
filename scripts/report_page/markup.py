# SPDX-License-Identifier: Apache-2.0
"""The parts of the page that are plain HTML: sections, captions and the small tables."""

from html import escape

from . import summary
from .columns import WORLDS, schedule_style
from .labels import plural, tokens


def figure_id(figure, drawing):
    return f"{figure.name}-{drawing.world}"


def figure_section(figure, drawn):
    mine = [drawing for other, drawing in drawn if other is figure]
    axis = figure.axes[0].split(" ")[0].replace("_", " ")
    body = "".join(figure_block(figure, drawing) for drawing in mine) or (
        f'<p class="absent">Nothing to draw: no two rows differ in {axis} alone and have a '
        f"{figure.y_title}.</p>"
    )
    return (
        f'<section id="{figure.name}"><h2>{escape(figure.title)}</h2>'
        f"<p>{escape(figure.text)}</p>{body}</section>"
    )


def figure_block(figure, drawing):
    lines = "<br>".join(escape(line) for line in drawing.shared)
    return (
        f'<figure id="{figure_id(figure, drawing)}"><figcaption>{world_badge(drawing.world)}'
        f'<span class="shared">{lines}</span><span class="tools"></span></figcaption>'
        '<div class="chart"></div><p class="panels"></p></figure>'
    )


def world_badge(world):
    return f'<span class="world {world}">{world}: {WORLDS[world]}</span>'


def timeline_section(pictures):
    """(world, SVG) of each trace; nothing where there is none."""
    if not pictures:
        return ""
    figures = "".join(
        f'<figure class="static"><figcaption>{world_badge(world)}</figcaption>'
        f'<div class="scroll">{svg}</div></figure>'
        for world, svg in pictures
    )
    return (
        '<section id="timeline"><h2>Timelines</h2><p>One pass: for each rank its kernels and '
        "waits, and below them what it sends. Nothing is drawn where a GPU waits for its host. The choice "
        f"of rows does not apply.</p>{figures}</section>"
    )


def fastest_tables(found):
    if not found:
        return '<p class="absent">No point was measured with two schedules on several ranks.</p>'
    return "".join(
        f"<p>{world_badge(world)}</p>"
        + fastest_table([point for point in found if point.world == world])
        for world in WORLDS
        if any(point.world == world for point in found)
    )


def fastest_table(found):
    lengths = sorted({point.sequence_length for point in found})
    at = {(point.place, point.sequence_length): point for point in found}
    head = "".join(f"<th>{tokens(length)} tokens</th>" for length in lengths)
    body = "".join(
        f"<tr><th>{escape(unbroken(place))}</th>"
        + "".join(f"<td>{fastest_cell(at.get((place, length)))}</td>" for length in lengths)
        + "</tr>"
        for place in dict.fromkeys(point.place for point in found)
    )
    return scrolled_table(f"<th></th>{head}", body)


def unbroken(place):
    """The same with lines that may end between its parts alone."""
    return place.replace(" ", "\u00a0").replace("\u00a0·\u00a0", "\u00a0· ")


def fastest_cell(point):
    if point is None:
        return ""
    dot = f'<i style="background:{schedule_style(point.schedule, [point.schedule])[0]}"></i>'
    name, behind = escape(point.schedule), escape(point.next_schedule)
    if not point.clear:
        return f"<span>{dot}{name}</span> <small>≈ {behind}</small>"
    ahead = f"{point.ratio:.2f}×" if point.ratio >= 1.005 else "&lt; 1.01×"
    return f"<span>{dot}<b>{name}</b></span> <small>{ahead} before {behind}</small>"


def provenance_table(rows):
    records = summary.provenance(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in records[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in record.values()) + "</tr>"
        for record in records
    )
    return scrolled_table(head, body)


def scrolled_table(head, body):
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def threads_note(rows):
    copied = ((rows["transport"] == "threads") & (rows["hop"] == "copy")).sum()
    if not copied:
        return ""
    return (
        "<li>On threads with copies nothing is hidden by nature: no copy engine works beside the "
        "cores, so the time to move bytes is taken from the time to compute. This holds for "
        f"{plural(int(copied), 'row')} here.</li>"
    )
