"""A folder at an address of each kind: in the memory, on a path, and on an S3 server on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec  # pyright: ignore[reportMissingTypeStubs]
import pytest
from moto.server import ThreadedMotoServer

from sonde.store import lock
from tests.experiments.conftest import decoder as decoder
from tests.experiments.conftest import project as project


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of a bucket on a server of this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "a-name-for-the-test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "a-key-for-the-test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        # A file system keeps the keys that it was made with, and fsspec keeps the file system.
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        fsspec.filesystem("s3", skip_instance_cache=True).mkdir("bucket")
        yield "s3://bucket"
    server.stop()


@pytest.fixture(params=["memory", "file", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of each kind of store, and a cache of the test's own."""
    computer(1, tmp_path, monkeypatch)
    monkeypatch.setattr(lock, "EXPIRY_SECONDS", 2.0)
    places = {"memory": "memory:/", "file": f"file://{tmp_path / 'store'}"}
    begin = places.get(request.param) or request.getfixturevalue("s3")
    return f"{begin}/{request.node.name.replace('[', '-').rstrip(']')}"


def computer(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be another computer, which has no local copy of anything yet."""
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / f"cache-{number}"))


def silent(_: str) -> None:
    """Hear a note, and say nothing."""


class Place:
    """What lies at an address, seen without sonde.

    Args:
        address: The address.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.system, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
        self.root = str(root).rstrip("/")

    def content(self) -> dict[str, bytes]:
        """Every object with its bytes, by relative path."""
        self.system.invalidate_cache()
        begin = self.root.removeprefix("/")
        return {
            path.removeprefix("/").removeprefix(begin).removeprefix("/"): self.system.cat_file(path)
            for path in self.system.find(self.root)
        }

    def put(self, name: str, content: bytes) -> None:
        """Write an object."""
        if "file" in self.system.protocol:
            self.system.makedirs(f"{self.root}/{name}".rpartition("/")[0], exist_ok=True)
        self.system.pipe_file(f"{self.root}/{name}", content)

    def flip(self, name: str) -> None:
        """Change one bit in the middle of an object."""
        content = bytearray(self.system.cat_file(f"{self.root}/{name}"))
        content[len(content) // 2] ^= 1
        self.put(name, bytes(content))
