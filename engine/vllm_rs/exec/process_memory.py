"""Memory of this process, from /proc."""

import resource


def resident_bytes() -> int:
    """Resident set of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
