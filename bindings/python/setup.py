# SPDX-License-Identifier: Apache-2.0
"""Only what pyproject.toml has no word for: the C module that cffi makes."""

from setuptools import setup

setup(cffi_modules=["src/xfer/_build.py:ffi"])
