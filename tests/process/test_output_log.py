"""An offset into a launch's output means the same byte for ever."""

from __future__ import annotations

from pathlib import Path

from holdfast.process.output_log import read_output


def test_output_is_read_on_across_segments(tmp_path: Path) -> None:
    """The second segment begins where the first ends; the older ones are left out."""
    log = str(tmp_path / "output.log")
    Path(f"{log}.100").write_bytes(b"a" * 10)
    Path(f"{log}.110").write_bytes(b"b" * 5)
    assert read_output(log, 0) == (100, b"a" * 10 + b"b" * 5, 115)
    assert read_output(log, 108, most=4) == (108, b"aabb", 115)
    assert read_output(log, 200) == (200, b"", 200)


def test_what_a_full_disk_lost_reads_as_zeros(tmp_path: Path) -> None:
    """Output printed later is still found at its offset, also from within the loss."""
    log = str(tmp_path / "output.log")
    Path(log).write_bytes(b"abc")
    Path(f"{log}.6").write_bytes(b"def")
    assert read_output(log, 0) == (0, b"abc\0\0\0def", 9)
    assert read_output(log, 4) == (4, b"\0\0def", 9)
    assert read_output(log, 0, most=5) == (0, b"abc\0\0", 9)
    assert read_output(log, 3, most=2) == (3, b"\0\0", 9)
