# SPDX-License-Identifier: BSD-2-Clause
"""The words by which jobs are started here, for messages: make, seekmeter or ./seekmeter.

make in the source tree, seekmeter where it is installed (make install), ./seekmeter in a bundle, which only
records. Known from the tree, not from the environment: sudo clears that.
"""

from workloads.system.tree import BUNDLED, TREE

# The jobs of a bundle (collectors/front/seekmeter).
_BUNDLE_JOBS = ("trace", "watch", "plan", "doctor", "list", "help")


IS_SOURCE = (TREE / "Makefile").exists()


def _by_kind(tree: str, installed: str, bundle: str) -> str:
    if BUNDLED:
        return bundle
    return tree if IS_SOURCE else installed


NAME = _by_kind("make", "seekmeter", "./seekmeter")
# The remedy for a program of ours that is missing or broken.
REBUILD = _by_kind("run make build", "install Seekmeter again", "unpack the bundle again")
# The remedy for a program of the distribution's that is missing. A bundle installs nothing.
INSTALL = _by_kind("run make setup", "run seekmeter setup", "install it")


def command(words: str) -> str:
    """Return the command that starts a job: "doctor" is make doctor, or ./seekmeter doctor.

    A bundle has no report and no virtual machines: such a job says where it is done.
    """
    job = words.split()[0]
    if BUNDLED and (job not in _BUNDLE_JOBS or " VM=" in words):
        return f"where Seekmeter is installed: make {words}"
    return f"{NAME} {words}"


def installs(words: str, packages: str) -> str:
    """Return the remedy for missing packages, which a job with these words installs."""
    return f"install {packages}" if BUNDLED else f"{NAME} {words} installs {packages}"


def shown(command: str) -> str:
    """Return a command of run.json or sweep.json, which is make's, as it is typed here."""
    return NAME + command.removeprefix("make") if command.startswith("make ") else command
