# SPDX-License-Identifier: Apache-2.0
"""Runs scripts/report on synthetic rows and opens its pages in Debian's chromium."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts"))

from report_page.__main__ import main  # noqa: E402

MARKS = ".mark-symbol.role-mark path"  # points of a figure


def run_report(*arguments):
    """scripts/report as a user starts it."""
    return subprocess.run(
        [SOURCE / "scripts/report", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def report(*arguments):
    """The same in this process, for starting one takes longer than most of these tests."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as stdout,
        contextlib.redirect_stderr(io.StringIO()) as stderr,
    ):
        status = main([str(argument) for argument in arguments])
    return subprocess.CompletedProcess(arguments, status, stdout.getvalue(), stderr.getvalue())


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser):
    """Opens a page offline; it may neither complain nor ask for anything from elsewhere."""
    troubles = []
    contexts = []

    def open_file(path, **options):
        context = browser.new_context(
            offline=True, **{"viewport": {"width": 1400, "height": 1000}} | options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20000)
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("data:", "blob:", path.as_uri()))
                or troubles.append(f"asks for {request.url}")
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-drawn]")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert troubles == []
