# SPDX-License-Identifier: BSD-2-Clause
"""The guest's flag: environment variables that tell a session it runs inside a virtual machine of the host's.

The host's session boots the machine and repeats the command line inside, with these two variables set.
"""

import os

# The path of the run directory, which the host made and shares with the guest.
GUEST = "SEEKMETER_GUEST"
# "UID:GID" of the user on the host who asked for the run.
GUEST_OWNER = "SEEKMETER_GUEST_OWNER"


def inside() -> bool:
    """Return whether this session runs in a virtual machine that a host's session booted."""
    return GUEST in os.environ
