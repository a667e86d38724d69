"""Which control groups a launch gets, for machines that look like this on disk."""

from __future__ import annotations

from pathlib import Path

from holdfast.process.cgroups import available_groups, orders_for
from tests.support.repositories import write

TOKEN = "0a1b"
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
SPLIT = "".join(
    f"3{number} 31 0:2{number} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
    for number, name in enumerate(("cpu,cpuacct", "memory", "pids"))
)


def machine(root: Path, mounts: str, groups: str, *folders: str, control: str = "") -> str:
    """Make what the kernel shows of control groups; return the folder that stands for `/`."""
    write(root / "proc/self/mountinfo", mounts)
    write(root / "proc/self/cgroup", groups)
    for folder in folders:
        write(root / "sys/fs/cgroup" / folder / "cgroup.procs", "")
        write(root / "sys/fs/cgroup" / folder / "cgroup.subtree_control", "")
    if control:
        write(root / "sys/fs/cgroup" / control / "cgroup.subtree_control", "memory pids cpu\n")
    return str(root)


def test_in_a_session_of_systemd_the_groups_are_beside_ours(tmp_path: Path) -> None:
    """Where processes are, no group below can have a bound; the group around ours is the user's, too."""
    groups = "0::/user/app/term.scope\n"
    root = machine(tmp_path, UNIFIED, groups, "user/app/term.scope", "user/app", "user", control="user/app")
    (order,) = orders_for(TOKEN, 100, 2**30, 1.5, root)
    assert order == (
        f"{root}/sys/fs/cgroup/user/app/holdfast-{TOKEN}",
        f"{root}/sys/fs/cgroup/user/app/term.scope",
        [("pids.max", "100"), ("memory.max", str(2**30)), ("cpu.max", "150000 100000")],
    )


def test_a_hierarchy_that_was_not_given_to_the_user_is_left_alone(tmp_path: Path) -> None:
    """Such as that of a login by ssh: then there are no bounds, and `doctor` says so."""
    root = machine(tmp_path, UNIFIED, "0::/user/session-3.scope\n", "user/session-3.scope", "user")
    assert available_groups(root) == {}
    assert orders_for(TOKEN, 100, 0, 0, root) == []


def test_each_hierarchy_of_the_older_kind_gets_its_own_group(tmp_path: Path) -> None:
    """Below ours, so that what bounds us still bounds the launch. Without a bound to set, none is made."""
    groups = "4:cpu,cpuacct:/\n3:memory:/box/1\n2:pids:/\n0::/\n"
    root = machine(tmp_path, SPLIT, groups, "cpu,cpuacct", "memory/box/1", "pids")
    orders = orders_for(TOKEN, 100, 2**30, 2, root)
    top = f"{root}/sys/fs/cgroup"
    assert [(folder, settings) for folder, _, settings in orders] == [
        (
            f"{top}/cpu,cpuacct/holdfast-{TOKEN}",
            [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "200000")],
        ),
        (f"{top}/memory/box/1/holdfast-{TOKEN}", [("memory.limit_in_bytes", str(2**30))]),
        (f"{top}/pids/holdfast-{TOKEN}", [("pids.max", "100")]),
    ]
    assert [folder for folder, _, _ in orders_for(TOKEN, 100, 0, 0, root)] == [f"{top}/pids/holdfast-{TOKEN}"]
