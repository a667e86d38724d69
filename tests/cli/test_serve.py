"""`serve` as a user types it: what it prints, where it refuses to listen, and how it ends. The server's own tests are in tests/web."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, writes


def test_beyond_this_machine_it_wants_tls_or_the_users_word(tmp_path: Path) -> None:
    """Whoever reads along would get the token."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("serve", "--host", "0.0.0.0", "--port", "0")
    assert done.code == 2
    assert "can be reached by other machines" in done.err
    assert "--tls-cert" in done.err
    assert "--insecure" in done.err
    assert done.out == ""


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    """Half of TLS is none."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("serve", "--tls-cert", "cert.pem")
    assert done.code == 2
    assert "a certificate needs its key" in done.err


def test_a_folder_that_is_no_repository_is_named(tmp_path: Path) -> None:
    """A typing mistake ends before anything listens."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("serve", "nowhere")
    assert done.code == 2
    assert 'there is no folder "nowhere"' in done.err


def test_a_port_is_a_number_of_a_port(tmp_path: Path) -> None:
    """A usage error says what is wrong."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("serve", "--port", "70000")
    assert done.code == 2
    assert "70000 is not a port" in done.err


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """The token is as good as a key."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    kept = tmp_path / "token"
    kept.write_text("x" * 43)
    kept.chmod(0o644)
    done = cli("serve", "--token-file", str(kept))
    assert done.code == 2
    assert "others can read" in done.err
    assert "chmod 600" in done.err
