# SPDX-License-Identifier: BSD-2-Clause
"""Options of a recorder that writes into a ring (recorder/ring.h), and ends what it keeps at triggers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ring:
    """A ring of segments, bounded in time and size."""

    keep_ns: int
    after_ns: int
    times: int
    gap_ns: int
    ram_bytes: int  # of all files together
    triggers: tuple[tuple[str, str], ...]  # the specification (recorder/triggers.h), and the user's words

    def argv(self) -> list[str]:
        """Return the recorder's options."""
        options = {
            "--ring": self.keep_ns,
            "--after-ns": self.after_ns,
            "--times": self.times,
            "--gap-ns": self.gap_ns,
            "--ram-bytes": self.ram_bytes,
        }
        words = [word for name, value in options.items() for word in (name, str(value))]
        return words + [word for spec, shown in self.triggers for word in ("--trigger", f"{spec}={shown}")]
