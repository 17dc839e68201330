# SPDX-License-Identifier: Apache-2.0
"""A trace of `ringspan trace` as a picture: what each rank computes, and what moves meanwhile."""

import json
import math
from html import escape
from pathlib import Path

from .columns import WORLDS
from .labels import tokens
from .read_rows import BadInput

RANKS_SHOWN = 8  # as many as can be told apart on paper
TRACKS_SHOWN = 4  # of messages; more are drawn on the last of them

# Of what the library calls a span, and what a reader should see in it.
CATEGORIES = {
    "attention": ("#0072B2", "attention"),
    "merge": ("#E69F00", "merging blocks and gradients"),
    "pack": ("#009E73", "packing and copies"),
    "other": ("#7F7F7F", "other kernels"),
    "wait": ("#E8D9E4", "waiting for messages"),
    "message": ("#CC79A7", "messages sent"),
}

INK, SOFT, LINE = "#24292f", "#5b6570", "#e3e6ea"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
LEFT, RIGHT, TOP, BOTTOM, WIDTH = 66, 14, 84, 34, 980  # pixels
QUEUE, TRACK, GAP = 15, 5, 9  # heights: kernels, a track of messages, between ranks
SHORTEST = 1e-3  # microseconds, to which `ringspan trace` rounds

# What title and subtitle say of the point.
ABOUT = ("schedule", "pass", "sequence_length", "heads", "kv_heads", "mask", "dtype", "kernel")


class Trace:
    """Spans of the ranks that are drawn, and what they are of."""

    def __init__(self, path):
        self.path = Path(path)
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            self.about = document["otherData"]
            self.ranks = int(self.about["ranks"])
            self.world = self.about["world"]
            self.spans = [
                (event["pid"], event["tid"], event["cat"], event["ts"], event["ts"] + event["dur"])
                for event in document["traceEvents"]
                if event["ph"] == "X"
            ]
            self.end = max(span[4] for span in self.spans)  # microseconds
            if not self.is_whole():
                raise ValueError(path)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise BadInput(f"{path}: is not a trace that `ringspan trace` wrote") from error
        if self.end < SHORTEST:
            raise BadInput(f"{path}: all of it ends within a nanosecond; there is nothing to draw")

    def is_whole(self):
        """Whether all that is drawn is there; raises where it is not of its type."""
        int(self.about["sequence_length"])
        return (
            all(isinstance(self.about[name], str) for name in ABOUT)
            and isinstance(self.about.get("cluster") or self.about["machine"], str)
            and self.world in WORLDS
            and all(span[2] in CATEGORIES for span in self.spans)
            and all(rank in range(self.ranks) and track >= 0 for rank, track, *_ in self.spans)
            and all(0 <= start <= end < math.inf for *_, start, end in self.spans)
        )

    def title(self):
        passes = {"both": "forward and backward"}.get(self.about["pass"], self.about["pass"])
        return f"{self.about['schedule']} on {self.ranks} ranks, {passes}"

    def subtitle(self):
        about = self.about
        where = about.get("cluster") or about["machine"]
        what = (
            f"{tokens(int(about['sequence_length']))} tokens, {about['heads']} heads, "
            f"{about['kv_heads']} KV heads, {about['mask']}, {about['dtype']}, {about['kernel']}"
        )
        return f"{self.world}: {WORLDS[self.world]}; {where}; {what}"

    def shown(self):
        """Ranks, evenly from the first to the last where there are too many."""
        if self.ranks <= RANKS_SHOWN:
            return list(range(self.ranks))
        return [round(i * (self.ranks - 1) / (RANKS_SHOWN - 1)) for i in range(RANKS_SHOWN)]


def draw(trace):
    """The picture as SVG text, on white, for a page as for paper."""
    shown = trace.shown()
    tracks = max((min(span[1], TRACKS_SHOWN) for span in trace.spans), default=0)
    row = QUEUE + tracks * TRACK + GAP
    height = TOP + len(shown) * row + BOTTOM
    scale = (WIDTH - LEFT - RIGHT) / trace.end
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="{FONT}" font-size="11" fill="{INK}" role="img">',
        f"<title>{escape(trace.title())}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="22" font-size="15" font-weight="bold">{escape(trace.title())}</text>',
        f'<text x="10" y="40" fill="{SOFT}">{escape(trace.subtitle())}</text>',
        *legend({span[2] for span in trace.spans}),
        *time_axis(trace.end, scale, height),
    ]
    for place, rank in enumerate(shown):
        top = TOP + place * row
        spans = [span for span in trace.spans if span[0] == rank]
        parts.append(f'<text x="10" y="{top + 12}">rank {rank}</text>')
        parts.extend(bars(spans, top, scale))
    if len(shown) < trace.ranks:
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="22" text-anchor="end" fill="{SOFT}">'
            f"{len(shown)} of {trace.ranks} ranks</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def legend(used):
    x = 10
    for name, (colour, text) in CATEGORIES.items():
        if name not in used:
            continue
        yield f'<rect x="{x}" y="53" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 15}" y="62">{text}</text>'
        x += 32 + 6 * len(text)


def time_axis(end, scale, height):
    step = 10 ** math.floor(math.log10(end / 4))
    step = next(step * factor for factor in (1, 2, 5, 10) if end / (step * factor) <= 8)
    units = [(1e6, "s"), (1e3, "ms"), (1, "µs")]
    unit, name = next((one for one in units if end >= one[0]), units[-1])
    for i in range(int(end / step) + 1):
        x = round(LEFT + i * step * scale, 1)
        label = f"{i * step / unit:g}" + (f" {name}" if i == 0 else "")
        yield f'<line x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{height - 24}" stroke="{LINE}"/>'
        yield f'<text x="{x}" y="{height - 10}" text-anchor="middle" fill="{SOFT}">{label}</text>'


def bars(spans, top, scale):
    """Rectangles of one rank. What is too short to be seen joins its like beside it."""
    tracks = {}
    for _, track, category, start, end in spans:
        tracks.setdefault(min(track, TRACKS_SHOWN), []).append((start, end, category))
    for track, own in sorted(tracks.items()):
        y = top if track == 0 else top + QUEUE + 1 + (track - 1) * TRACK
        tall = QUEUE if track == 0 else TRACK - 1
        for left, right, category in joined(sorted(own), scale):
            yield (
                f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 0.2):.1f}" '
                f'height="{tall}" fill="{CATEGORIES[category][0]}"/>'
            )


def joined(spans, scale):
    open_bar = None
    for start, end, category in spans:
        left, right = LEFT + start * scale, LEFT + end * scale
        if open_bar and category == open_bar[2] and left - open_bar[1] < 0.3 > right - left:
            open_bar = (open_bar[0], max(open_bar[1], right), category)
            continue
        if open_bar:
            yield open_bar
        open_bar = (left, right, category)
    if open_bar:
        yield open_bar
