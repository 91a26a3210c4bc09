"""Find the packages, and write the description of the package; everything else is in pyproject.toml.

The top-level folders export/ and plugins/ install as lenet_trt.export and lenet_trt.plugins, and the measured records
of docs/results as lenet_trt/records, which the discovery of pyproject.toml cannot say. A kernel's folder is data of
lenet_trt.plugins, so that adding one changes no list.
"""

import re
from pathlib import Path

from setuptools import find_namespace_packages, find_packages, setup

REPOSITORY = "https://github.com/lenet-trt/lenet-trt"
ELSEWHERE = {"lenet_trt.export": "export", "lenet_trt.plugins": "plugins", "lenet_trt.records": "docs/results"}


def absolute(link: re.Match[str]) -> str:
    """Lead a link of README.md to the repository: an index of packages has no other files."""
    return f"]({REPOSITORY}/{'raw' if link[1].endswith(('.svg', '.png')) else 'blob'}/main/{link[1]})"


setup(
    long_description=re.sub(r"\]\((?!\w+:|#)([^)\s]+)\)", absolute, Path("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
    packages=[
        *find_packages(include=["lenet_trt", "lenet_trt.*"]),
        *ELSEWHERE,
        *(f"{name}.{below}" for name, folder in ELSEWHERE.items() for below in find_namespace_packages(folder)),
    ],
    package_dir={"lenet_trt": "lenet_trt", **ELSEWHERE},
)
