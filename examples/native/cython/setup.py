"""The extension; all else is in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, setup

from ranking.native import include_dir

setup(
    ext_modules=cythonize(
        Extension(
            "ranking_example_cython._native",
            ["ranking_example_cython/_native.pyx"],
            include_dirs=[str(include_dir())],
        ),
        language_level=3,
    )
)
