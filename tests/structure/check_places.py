# SPDX-License-Identifier: Apache-2.0
"""Scripts find their place by themselves: neither CDPATH nor a link to them leads them elsewhere."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = re.compile(r"^(cd|(here|scripts|self)=).*\$0.*\n", re.M)


def checked(path, line, folder):
    """What a script of this line says of its place, called by its path, from its top and by a link."""
    top, decoy = folder / "top", folder / "decoy"
    for root in (top, decoy):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
    link = folder / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(top / path)
    (top / path).write_text(f'#!/usr/bin/env bash\n{line}echo "$PWD ${{scripts-}} ${{here-}} ${{self-}}"\n')
    (top / path).chmod(0o755)
    environment = os.environ | {"CDPATH": str(decoy)}
    return [
        subprocess.run([command], cwd=top, env=environment, capture_output=True, text=True).stdout
        for command in (top / path, path, link)
    ]


def main(source):
    listed = subprocess.check_output(["git", "grep", "-lE", "^#!.*bash"], cwd=source, text=True)
    texts = {path: (source / path).read_text() for path in listed.splitlines()}
    places = {path: line[0] for path, text in texts.items() if (line := HERE.search(text))}
    lost = []
    with tempfile.TemporaryDirectory() as folder:
        for path, line in places.items():
            plain, relative, linked = checked(path, line, Path(folder).resolve())
            if not plain == relative == linked:
                lost.append(f"{path}: is at {plain!r}, at {relative!r} by CDPATH, {linked!r} by a link")
    print("\n".join(lost) or f"{len(places)} scripts find their place")
    return 1 if lost else 0


sys.exit(main(Path(sys.argv[1]).resolve()))
