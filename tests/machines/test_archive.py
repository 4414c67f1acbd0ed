# SPDX-License-Identifier: BSD-2-Clause
"""Which kernels a distribution's archive offers, and their download: the real apt on an archive made here."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from workloads.machines import archive, kernels
from workloads.machines.archive import architecture
from workloads.system.errors import MachineError, OptionError
from workloads.system.units import show_size

pytestmark = [
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="not a Debian: no apt-get to ask"),
    pytest.mark.skipif(
        None in (shutil.which("gpg"), shutil.which("gpg-agent")),
        reason="no gpg and gpg-agent to sign an archive with: apt-get install gpg gpg-agent",
    ),
]
CODENAME = "fakeworm"
OLD = f"6.1.0-9-{architecture()}"
NEW = f"7.2.1+deb14-{architecture()}"


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=cwd).stdout


@dataclass
class Archive:
    """An archive of two servers, and a machine whose sources list one suite of it."""

    place: Path
    suites: dict[str, list[str]] = field(default_factory=dict)  # the stanzas of each

    @property
    def cache(self) -> Path:
        """Where the product keeps its lists and kernels."""
        return self.place / "cache/seekmeter"

    def package(self, name: str, suite: str, files: dict[str, str], depends: str = "") -> Path:
        """Put a package into a suite."""
        tree = self.place / "build" / name
        for path, text in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        (tree / "DEBIAN").mkdir(parents=True)
        control = f"Package: {name}\nVersion: 1.0\nArchitecture: {architecture()}\nMaintainer: nobody\n"
        control += f"Depends: {depends}\n" if depends else ""
        control += "Installed-Size: 7\nDescription: made by a test\n"
        (tree / "DEBIAN/control").write_text(control)
        server, _, _ = suite.partition("/")
        pool = self.place / server / "pool"
        pool.mkdir(parents=True, exist_ok=True)
        file = pool / f"{name}.deb"
        run("dpkg-deb", "--root-owner-group", "-b", tree, file)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        stanza = f"{control}Filename: pool/{name}.deb\nSize: {file.stat().st_size}\nSHA256: {digest}\n"
        self.suites.setdefault(suite, []).append(stanza)
        return file

    def publish(self, suite: str, codename: str, key: str = "right") -> None:
        """Write and sign a suite's lists."""
        server, _, name = suite.partition("/")
        folder = self.place / server / "dists" / name
        index = folder / f"main/binary-{architecture()}/Packages"
        index.parent.mkdir(parents=True, exist_ok=True)
        index.write_text("\n".join(self.suites[suite]))
        digest = hashlib.sha256(index.read_bytes()).hexdigest()
        release = f"Origin: Debian\nSuite: {name}\nCodename: {codename}\nComponents: main\n"
        date = time.strftime("%a, %d %b %Y %H:%M:%S UTC", time.gmtime())
        release += f"Architectures: {architecture()}\nDate: {date}\n"
        release += f"SHA256:\n {digest} {index.stat().st_size} {index.relative_to(folder)}\n"
        (folder / "Release").write_text(release)
        (folder / "InRelease").unlink(missing_ok=True)
        self.gpg("--clearsign", "-u", key, "-o", folder / "InRelease", folder / "Release")

    def gpg(self, *words: str | Path) -> str:
        """Run gpg with the keys of this archive."""
        return run("gpg", "--homedir", self.place / "keys", "--batch", "-q", "--passphrase", "", *words)


SOURCES = {
    "one-line": (
        "sources.list",
        "deb [arch={arch}] copy:{place}/main stable main\n"
        "deb copy:{place}/security stable-security main\n"
        "deb copy:{place}/somebody nodistro main\n",
    ),
    "deb822": (
        "sources.list.d/archive.sources",
        f"Types: deb\nURIs: copy:{{place}}/main\nSuites: {CODENAME}\nComponents: main\n\n"
        f"Types: deb\nURIs: copy:{{place}}/security\nSuites: {CODENAME}-security\nComponents: main\n",
    ),
}


@pytest.fixture(params=SOURCES)
def made(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Archive]:
    """An archive with Linux 6.1 in stable and Linux 7.2, split into packages, in testing; no other suite."""
    made = Archive(tmp_path)
    (tmp_path / "keys").mkdir(mode=0o700)
    request.addfinalizer(
        lambda: subprocess.run(["gpgconf", "--homedir", tmp_path / "keys", "--kill", "all"], check=False)
    )
    for key in ("right", "wrong"):
        made.gpg("--quick-generate-key", key, "rsa2048", "sign", "never")
    (tmp_path / "keyrings").mkdir()
    made.gpg("-o", tmp_path / "keyrings/debian-archive-keyring.gpg", "--export", "right")
    put_kernels(made)
    for suite, codename in (
        ("main/stable", CODENAME),
        ("main/testing", "next"),
        ("security/stable-security", f"{CODENAME}-security"),
    ):
        made.publish(suite, codename)
    (tmp_path / "os-release").write_text(f'ID=debian\nVERSION_CODENAME={CODENAME}\nNAME="Fake"\n')
    monkeypatch.setattr(archive, "_OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(archive, "_KEYRINGS", tmp_path / "keyrings")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The machine's own apt: its lists were never fetched.
    machine = tmp_path / "machine"
    for part in (
        "etc/sources.list.d",
        "etc/apt.conf.d",
        "etc/preferences.d",
        "lists/partial",
        "cache/archives/partial",
    ):
        (machine / part).mkdir(parents=True)
    (machine / "status").touch()
    name, text = SOURCES[request.param]
    (machine / "etc" / name).write_text(text.format(place=tmp_path, arch=architecture()))
    (machine / "etc/apt.conf.d/hooks").write_text(
        f'APT::Update::Post-Invoke {{ "touch {machine}/hook"; }};\n'
        f'APT::Update::Post-Invoke-Success {{ "touch {machine}/hook"; }};\n'
    )
    (machine / "apt.conf").write_text(
        f'Dir::Etc "{machine}/etc";\nDir::State "{machine}";\nDir::State::lists "{machine}/lists";\n'
        f'Dir::State::status "{machine}/status";\nDir::Cache "{machine}/cache";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(machine / "apt.conf"))
    archive.kernels_of_machine.cache_clear()
    yield made
    archive.kernels_of_machine.cache_clear()


def put_kernels(made: Archive) -> None:
    """Put the packages in, as Debian 12 and Debian 14 have them."""
    image = f"linux-image-{OLD}"
    files = {f"boot/vmlinuz-{OLD}": "image of 6.1", f"boot/config-{OLD}": "CONFIG_SMP=y\n"}
    files |= {f"lib/modules/{OLD}/modules.order": "", f"lib/modules/{OLD}/modules.builtin": ""}
    made.package(image, "main/stable", files, "kmod, linux-base (>= 4.3~)")
    made.package(f"linux-image-{architecture()}", "main/stable", {}, f"{image} (= 1.0)")
    made.package(f"linux-image-6.1.0-9-rt-{architecture()}", "main/stable", {})
    made.package("linux-libc-dev", "security/stable-security", {})
    base = f"usr/lib/modules/{NEW}"
    parts = {
        f"linux-base-{NEW}": {f"{base}/config": "CONFIG_SMP=y\n", f"{base}/modules.builtin": ""},
        f"linux-binary-{NEW}": {f"{base}/vmlinuz": "image of 7.2"},
        f"linux-modules-{NEW}": {f"{base}/modules.order": ""},
    }
    for name, files in parts.items():
        made.package(name, "main/testing", files, "" if "-base-" in name else f"linux-base-{NEW} (= 1.0)")
    depends = f"dracut | initramfs-tools, linux-binary-{NEW} (= 1.0), linux-modules-{NEW} (= 1.0)"
    made.package(f"linux-image-{NEW}", "main/testing", {}, depends)


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file below a folder: when it was changed, and what is in it. Not what apt has parsed."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".bin")
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_kernel_of_an_unlisted_suite_is_downloaded(made: Archive) -> None:
    """Found in testing, put together from its packages; the machine's own apt stays as it was."""
    before = contents(made.place / "machine")
    said: list[str] = []
    found = kernels.find("7.2", said.append)
    base = made.cache / f"kernels/{NEW}/usr/lib/modules/{NEW}"
    assert found.name == NEW
    assert found.image is not None and found.image.read_text() == "image of 7.2"
    assert found.config is not None and found.config.read_text() == "CONFIG_SMP=y\n"
    assert found.modules is not None and found.modules.resolve() == base
    assert (base / "modules.dep").exists()
    debs = [
        made.place / f"main/pool/linux-{part}-{NEW}.deb" for part in ("image", "base", "binary", "modules")
    ]
    sizes = show_size(sum(deb.stat().st_size for deb in debs)), show_size(4 * 7 * 1024)
    assert len(said) == 2
    assert said[0].startswith("fetching the package lists of every suite of the distribution's archive")
    assert said[1].endswith(f"({sizes[0]}, {sizes[1]} unpacked)")
    assert contents(made.place / "machine") == before
    # Here now, it is neither looked for nor fetched again.
    shutil.rmtree(made.place / "main")
    assert kernels.find("7.2", pytest.fail) == found


def test_default_kernel_is_found_without_apt_lists(made: Archive) -> None:
    """Not the newest of all suites: the one that this release's linux-image-ARCHITECTURE depends on."""
    found = kernels.find(None, lambda text: None)
    assert found.name == OLD
    assert found.image is not None and found.image.read_text() == "image of 6.1"


def test_suite_with_a_foreign_signature_is_skipped(made: Archive) -> None:
    made.publish("main/testing", "next", key="wrong")
    with pytest.raises(OptionError, match=r"KERNEL=7\.2 is no kernel of the distribution's archive"):
        kernels.identify("7.2", lambda text: None)
    assert kernels.identify("6.1", pytest.fail).name == OLD


def test_archive_without_a_valid_signature_is_refused(made: Archive) -> None:
    for suite in made.suites:
        made.publish(suite, CODENAME, key="wrong")
    with pytest.raises(MachineError, match="is not here, and the distribution's archive cannot be read"):
        kernels.identify("6.1", lambda text: None)


def test_package_with_a_wrong_hash_is_refused(made: Archive) -> None:
    with (made.place / f"main/pool/linux-binary-{NEW}.deb").open("r+b") as file:
        file.seek(100)
        file.write(b"other")
    # Of a file that lies here apt 3.0 says no more than that it has an error; apt 2.6 names its hash.
    with pytest.raises(MachineError, match=r"apt-get could not download .*([Hh]ash|Undetermined Error)"):
        kernels.find("7.2", lambda text: None)
    assert not (made.cache / f"kernels/{NEW}").exists()


def test_missing_keyring_stops_the_search(made: Archive) -> None:
    shutil.rmtree(made.place / "keyrings")
    with pytest.raises(
        MachineError, match="has no debian-archive-keyring, which signatures are checked with"
    ):
        kernels.identify("7.2", lambda text: None)


def test_kernel_lists_are_kept_for_a_day(made: Archive) -> None:
    lists = archive.Lists(made.cache / "archive")
    said: list[str] = []

    def offered(release: str) -> bool:
        said.clear()
        return release in lists.offers(lambda offers: release in offers.kernels, said.append).kernels

    def age(hours: float) -> None:
        made_s = time.time() - hours * 3600
        os.utime(made.cache / "archive/kernels.json", (made_s, made_s))

    assert offered(OLD) and said
    assert offered(OLD) and not said
    age(23)
    assert offered(OLD) and not said
    age(25)
    assert offered(OLD) and said
    # A word that is not found asks again, but not twice in an hour.
    added = f"6.1.0-10-{architecture()}"
    made.package(f"linux-image-{added}", "main/stable", {})
    made.publish("main/stable", CODENAME)
    assert not offered(added) and not said
    age(2)
    assert offered(added) and said
    # Without a network, yesterday's do.
    age(25)
    shutil.rmtree(made.place / "main")
    shutil.rmtree(made.place / "security")
    assert offered(added)
    assert said[-1].startswith("the distribution's archive cannot be read (")
    assert offered(added) and len(said) == 2  # and it is tried again next time
