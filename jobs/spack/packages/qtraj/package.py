"""Builds this checkout: spack repo add jobs/spack && spack install qtraj (docs/cluster.md)."""

from pathlib import Path

from spack.package import *

try:  # Spack 1.0 moved the classes of build systems out of spack.package
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Qtraj(CMakePackage):
    """Measures how post-training quantization hurts a language model along its training run."""

    git = "file://" + str(Path(__file__).resolve().parents[4])

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconf", type="build")
    depends_on("python@3.9:", type="build")  # man pages and completion
    depends_on("cmocka", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10: +hl")
    depends_on("openblas threads=none")
    depends_on("netlib-scalapack")
    depends_on("libyaml")
    depends_on("jansson@2.13:")
    depends_on("xxhash")
    depends_on("pcre2")
    depends_on("utf8proc")
    depends_on("zlib-api")
    depends_on("zstd")

    generator("ninja")

    build_targets = ["qtraj", "manuals"]  # without the tests
