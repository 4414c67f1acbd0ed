# SPDX-License-Identifier: BSD-2-Clause
"""FilesystemPlan: the command lines that make, mount and check the file system of one run.

Commands are argument lists. The device names are filled in when the disks are open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workloads.disks import Devices
from workloads.filesystems.schema import Filesystem


@dataclass(frozen=True)
class FilesystemPlan:
    """One file system with the options of its study and of the user; {journal} stands for a device."""

    filesystem: Filesystem  # the content of its TOML file
    mkfs_argv: tuple[str, ...]  # without the devices, which come last
    mkfs_env: Mapping[str, str]
    mount_needed: tuple[str, ...]  # options without which the mount fails
    mount_options: tuple[str, ...]  # the other options: the study's, then the user's
    fsck_argv: tuple[str, ...]  # without the device, which comes last; empty: no fsck exists

    @property
    def name(self) -> str:
        """The file system's name, as in FS=."""
        return self.filesystem.name

    def format_commands(self, devices: Devices) -> list[list[str]]:
        """Return the commands that make the file system: for an external journal first, then mkfs."""
        journal = self.filesystem.journal
        prepare = _fill(journal.prepare, devices) if devices.journal and journal else []
        return [*([prepare] if prepare else []), self.mkfs_command(devices)]

    def mkfs_command(self, devices: Devices) -> list[str]:
        """Return the mkfs command."""
        pool = [devices.pool] if self.filesystem.pool else []
        return [*_fill(self.mkfs_argv, devices), *pool, devices.main, *devices.more]

    def mount_source(self, devices: Devices) -> str:
        """Return the source of the mount: the main device, or the pool's name."""
        return devices.pool if self.filesystem.pool else devices.main

    def mount_command(self, devices: Devices, mountpoint: str) -> list[str]:
        """Return the mount command."""
        return self.mount_with(self.mount_options, devices, mountpoint)

    def mount_with(self, options: Sequence[str], devices: Devices, mountpoint: str) -> list[str]:
        """Return the mount command with these options in place of the study's and the user's."""
        all_options = [*_fill(self.mount_needed, devices), *options]
        if devices.more:
            for disk in (devices.main, *devices.more):
                all_options += [option.replace("{disk}", disk) for option in self.filesystem.several]
        # nosuid and nodev come last, because the last option counts. Without them, a user who can write the
        # disk below the mounted file system could make a set-user-id file of root's, or a device node.
        all_options += ["nosuid", "nodev"]
        argv = ["mount", "-t", self.filesystem.kernel_type, "-o", ",".join(all_options)]
        return [*argv, self.mount_source(devices), mountpoint]

    def fsck_command(self, devices: Devices) -> list[str]:
        """Return the command that checks the file system and changes nothing; empty if none exists."""
        return [*_fill(self.fsck_argv, devices), devices.main] if self.fsck_argv else []


def _fill(arguments: Sequence[str], devices: Devices) -> list[str]:
    return [argument.replace("{journal}", devices.journal) for argument in arguments]
