"""Find the packages; everything else is in pyproject.toml.

The top-level folders export/ and plugins/ install as lenet_trt.export and lenet_trt.plugins, and the measured records
of docs/results as lenet_trt/records, which the discovery of pyproject.toml cannot say. A kernel's folder is data of
lenet_trt.plugins, so that adding one changes no list.
"""

from setuptools import find_packages, setup

ELSEWHERE = {"lenet_trt.export": "export", "lenet_trt.plugins": "plugins", "lenet_trt.records": "docs/results"}

setup(
    packages=[*find_packages(include=["lenet_trt", "lenet_trt.*"]), *ELSEWHERE],
    package_dir={"lenet_trt": "lenet_trt", **ELSEWHERE},
)
