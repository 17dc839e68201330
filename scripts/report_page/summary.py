# SPDX-License-Identifier: Apache-2.0
"""What the rows say in a few sentences, and the fastest schedule at every point."""

from collections import Counter
from dataclasses import dataclass

from .columns import PROBLEM, PROVENANCE, WORLDS
from .labels import describe_all, listed, plural, seconds, shorten, tokens, unique_labels

# What schedules must have in common to be compared.
ALIKE = [*PROBLEM, *PROVENANCE, "ranks_per_node"]


MOST_NAMED = 6  # machines or clusters


@dataclass(frozen=True)
class Fastest:
    """The schedule with the least median time at one point, and how far ahead it is."""

    world: str
    one_pass: str
    place: str  # in words, what differs between the points of this world, but for the length
    sequence_length: int
    schedule: str
    next_schedule: str
    ratio: float
    clear: bool  # its 90th percentile lies below the 10th of the next


def fastest(rows):
    """One Fastest for each point at which two schedules or more were measured."""
    rows = rows[rows["drawn"] & rows["median_s"].notna() & (rows["ranks"] > 1)]
    return [point for _, group in rows.groupby("world") for point in fastest_in_world(group)]


def fastest_in_world(rows):
    place = [name for name in ALIKE if name != "sequence_length"]
    varying = [name for name in place if rows[name].nunique(dropna=False) > 1]
    races = [races_at(group) for _, group in rows.groupby(place, dropna=False, sort=True)]
    races = [at_place for at_place in races if at_place]
    labels = unique_labels([describe_all(varying, at_place[0].iloc[0]) for at_place in races])
    for label, at_place in zip(labels, races, strict=True):
        yield from (fastest_of(race, label) for race in at_place)


def races_at(rows):
    """Of each length at which there are several, the schedules' best rows, the fastest first."""
    best = [
        group.sort_values("median_s").drop_duplicates("schedule")
        for _, group in rows.groupby("sequence_length")
    ]
    return [race for race in best if len(race) > 1]


def fastest_of(race, place):
    first, second = race.iloc[0], race.iloc[1]
    return Fastest(
        first["world"],
        first["pass"],
        place,
        int(first["sequence_length"]),
        first["schedule"],
        second["schedule"],
        second["median_s"] / first["median_s"],
        bool(first["p90_s"] < second["p10_s"]),  # false where either was not measured
    )


def sentences(rows, found, notes):
    return [*counts(rows), *worlds(rows), *winners(found), *longest(rows), *errors(rows), *notes]


def counts(rows):
    failed = int((rows["status"] != "ok").sum())
    files = rows["file"].nunique()
    text = f"{plural(len(rows), 'row')} from {plural(files, 'file')}: "
    yield text + (
        "every status is ok."
        if failed == 0
        else f"{len(rows) - failed:,} ok, {failed:,} not; those are listed apart with their reason."
    )


def worlds(rows):
    for world, group in rows[rows["status"] == "ok"].groupby("world"):
        clusters = sorted(set(group["cluster"]) - {""})
        where = [shorten(name) for name in clusters or sorted(set(group["machine"]))]
        if len(where) > MOST_NAMED:
            where = [plural(len(where), "cluster" if clusters else "machine")]
        transports = ", ".join(sorted(set(group["transport"]) - {"", world}))
        hops = " and ".join(sorted(set(group["hop"]) - {""}))
        parts = [
            listed(where),
            transports and f"transport {transports}",
            hops and f"hop by {hops}",
        ]
        yield f"{plural(len(group), 'row')} {WORLDS[world]}: {', '.join(filter(None, parts))}."


def winners(found):
    by_pass = {}
    for point in found:
        by_pass.setdefault((point.world, point.one_pass), []).append(point)
    for (world, one_pass), points in by_pass.items():
        wins = Counter(point.schedule for point in points if point.clear)
        parts = [f"{name} at {count}" for name, count in wins.most_common()]
        close = len(points) - sum(wins.values())
        if close:
            parts.append(f"too close to call at {close}")
        yield (
            f"Fastest {one_pass} ({world}), of {plural(len(points), 'point')} on several ranks: "
            f"{', '.join(parts)}."
        )


def longest(rows):
    """The range of times at the longest length: what the choice of a schedule is worth."""
    rows = rows[rows["drawn"] & rows["median_s"].notna() & (rows["ranks"] > 1)]
    for (world, one_pass), of_pass in rows.groupby(["world", "pass"]):
        groups = [group for _, group in of_pass.groupby(ALIKE, dropna=False)]
        groups = [group for group in groups if group["schedule"].nunique() > 1]
        if not groups:
            continue
        group = max(groups, key=lambda one: tuple(one.iloc[0][["sequence_length", "ranks"]]))
        group = group.sort_values("median_s")
        first, last = group.iloc[0], group.iloc[-1]
        yield (
            f"Longest {one_pass} ({world}), {tokens(first['sequence_length'])} tokens on "
            f"{plural(first['ranks'], 'rank')}, {shorten(first['mask'])}: from "
            f"{seconds(first['median_s'])} ({first['schedule']}) to "
            f"{seconds(last['median_s'])} ({last['schedule']})."
        )


def errors(rows):
    checked = rows[rows["max_abs_error"].notna()]
    if len(checked):
        worst = checked.loc[checked["max_abs_error"].idxmax()]
        yield (
            f"{plural(len(checked), 'row')} checked against an fp64 computation; the largest "
            f"absolute error is {worst['max_abs_error']:.2g} "
            f"({worst['schedule']}, {worst['dtype']})."
        )


def provenance(rows):
    """How many rows each machine, commit, world, ... has, as a list of dictionaries."""
    columns = [*PROVENANCE, "file"]
    groups = rows.groupby(columns, dropna=False, sort=True)
    return [
        dict(zip(columns, key, strict=True))
        | {"rows": len(group), "ok": int((group["status"] == "ok").sum())}
        for key, group in groups
    ]
