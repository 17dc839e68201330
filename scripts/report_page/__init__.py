# SPDX-License-Identifier: Apache-2.0
"""Turns CSVs of `ringspan sweep` into one self-contained interactive page."""
