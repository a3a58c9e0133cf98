"""Archives: what goes out comes back, and what must not come in stays out."""

from __future__ import annotations

import contextlib
import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetformer import archive
from budgetformer.archive import FILES, NEEDED, pack, unpack

PLAIN = dict.fromkeys(NEEDED, b"{}")


def zipped(
    files: dict[str, bytes] | list[tuple[str | zipfile.ZipInfo, bytes]],
    compression: int = zipfile.ZIP_DEFLATED,
) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in files.items() if isinstance(files, dict) else files:
            file.writestr(name, content)
    return buffer


def refused(file: io.BytesIO, into: Path) -> str:
    into.mkdir(parents=True, exist_ok=True)
    with pytest.raises(ValueError) as error:
        unpack(file, into)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_goes_out_comes_back(saved: Path, tmp_path: Path) -> None:
    (saved / "README.md").write_text("# größe\n")
    (saved / "run.json").write_text("{}")
    # A training's folder holds more than a model: its state, the texts of who watched.
    for private in ("control.json", "job.json", "state.safetensors", "events.jsonl", "stderr.log"):
        (saved / private).write_text("private")
    content = pack(saved, "mine")
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert {Path(name).parts[0] for name in file.namelist()} == {"mine"}
        names = {Path(name).name for name in file.namelist()}
    assert names == {*NEEDED, "metrics.json", "README.md", "run.json"}
    into = tmp_path / "into"
    into.mkdir()
    assert unpack(io.BytesIO(content), into) == []
    assert {p.name: p.read_bytes() for p in into.iterdir()} == {
        name: (saved / name).read_bytes() for name in names
    }


def test_the_same_files_give_the_same_archive(saved: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for name in sorted((p.name for p in saved.iterdir()), reverse=True):
        (copy / name).write_bytes((saved / name).read_bytes())
        (copy / name).chmod(0o600)
    assert pack(saved, "m") == pack(copy, "m")


def test_a_model_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine is not here any more"):
        pack(tmp_path / "nowhere", "mine")


@pytest.mark.parametrize("top", ["", "some folder/", "größe 中文/"])
def test_a_single_top_folder_is_stripped(tmp_path: Path, top: str) -> None:
    files = {f"{top}{name}": f'{{"{name}": 1}}'.encode() for name in NEEDED}
    entries: list[tuple[str | zipfile.ZipInfo, bytes]] = [(top, b"")] if top else []
    assert unpack(zipped([*entries, *files.items()]), tmp_path) == []
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        name: f'{{"{name}": 1}}'.encode() for name in NEEDED
    }


def test_what_file_managers_add_is_left_out(tmp_path: Path) -> None:
    files = {f"m/{name}": b"{}" for name in NEEDED}
    junk = {"__MACOSX/m/._config.json": b"x", "m/.DS_Store": b"x", "m/.gitattributes": b"x"}
    assert unpack(zipped({**files, **junk}), tmp_path) == []
    assert {p.name for p in tmp_path.iterdir()} == set(NEEDED)


def test_json_that_no_model_needs_is_named(tmp_path: Path) -> None:
    files = {**PLAIN, "tokenizer_config.json": b"{}", "control.json": b"{}"}
    assert unpack(zipped(files), tmp_path) == ["control.json", "tokenizer_config.json"]
    assert {p.name for p in tmp_path.iterdir()} == set(NEEDED)


@pytest.mark.parametrize(
    "name",
    [
        "../config.json", "m/../../config.json", "/etc/config.json", "//config.json", "./a.json",
        "C:/config.json", "C:config.json", "m\\config.json", "..\\config.json", "a//config.json",
        "m/./config.json", "config.json\0.exe", "a\nb.json", "\x1b[2J.json", "config.json/..",
    ],
)  # fmt: skip
def test_paths_that_lead_out(tmp_path: Path, name: str) -> None:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name
    entries: list[tuple[str | zipfile.ZipInfo, bytes]] = [*PLAIN.items(), (info, b"{}")]
    reason = refused(zipped(entries), tmp_path / "into" / "deep")
    assert "lead out of its folder" in reason
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize(
    "kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK]
)
def test_links_and_devices(tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("README.md")
    info.create_system, info.external_attr = 3, (kind | 0o777) << 16
    assert "link" in refused(zipped([*PLAIN.items(), (info, b"/etc/passwd")]), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({**PLAIN, "code.py": b""}, "'code.py' is no file of a model"),
        ({**PLAIN, "pytorch_model.bin": b""}, "is no file of a model"),
        ({**PLAIN, "state.safetensors": b""}, "'state.safetensors' is no file of a model"),
        ({**PLAIN, "inner.zip": b""}, "is no file of a model"),
        ({**PLAIN, "<img src=x onerror=alert(1)>": b""}, "is no file of a model"),
        ({**PLAIN, ".json": b""}, "is no file of a model"),
        ({**PLAIN, "Config.JSON": b""}, "is no file of a model"),
        ({**PLAIN, "more/notes.json": b""}, "lies in a folder"),
        ({f"a/b/{name}": b"" for name in NEEDED}, "lies in a folder"),
        ({f"{i}/{name}": b"" for i, name in enumerate(NEEDED)}, "lies in a folder"),
        ({"config.json": b"", "tokenizer.json": b""}, "model.safetensors is missing"),
        (dict.fromkeys(NEEDED[:2], b""), "tokenizer.json is missing"),
        ({}, "holds no file"),
        ({"__MACOSX/x": b""}, "holds no file"),
        ({**PLAIN, **{f"{i}.json": b"" for i in range(40)}}, "43 entries; at most 32"),
    ],
)
def test_what_is_no_model(tmp_path: Path, files: dict[str, bytes], reason: str) -> None:
    assert reason in refused(zipped(files), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        file = zipped([*PLAIN.items(), ("config.json", b"[]")])
    assert "'config.json' twice" in refused(file, tmp_path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_without_a_bound(tmp_path: Path, compression: int) -> None:
    assert "plain zip" in refused(zipped(PLAIN, compression), tmp_path)


def test_encryption(tmp_path: Path) -> None:
    content = bytearray(zipped(PLAIN).getvalue())
    place = content.find(b"PK\x01\x02")
    content[place + 8] |= 1
    assert "encrypted" in refused(io.BytesIO(bytes(content)), tmp_path)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        archive, "MOST_BYTES", {".safetensors": 3_000_000, ".json": 10_000, ".md": 100}
    )
    monkeypatch.setattr(archive, "MOST_UNPACKED", 3_010_000)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("model.safetensors", 3_000_001, "model.safetensors is larger than"),
        ("config.json", 10_001, "config.json is larger than"),
        ("README.md", 101, "README.md is larger than"),
    ],
)
def test_a_bomb_stops_at_the_limit(tmp_path: Path, name: str, size: int, reason: str) -> None:
    bomb = zipped({**PLAIN, name: b"\0" * size})
    assert len(bomb.getvalue()) < 5_000
    assert reason in refused(bomb, tmp_path)
    # No more than the limit was written before it was noticed.
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 3_000_000 + 20
    fits = zipped({**PLAIN, name: b"\0" * (size - 1)})
    into = tmp_path / "fits"
    into.mkdir()
    unpack(fits, into)
    assert (into / name).stat().st_size == size - 1


@pytest.mark.usefixtures("small_limits")
def test_the_sum_is_limited(tmp_path: Path) -> None:
    files = {"model.safetensors": b"\0" * 3_000_000, "config.json": b"\0" * 6_000}
    reason = refused(zipped({**files, "tokenizer.json": b"\0" * 6_000}), tmp_path)
    assert "together" in reason


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("declared", [0, 5, 2**32 - 2])
def test_a_declared_size_is_not_believed(tmp_path: Path, declared: int) -> None:
    content = bytearray(zipped({**PLAIN, "README.md": b"\0" * 5_000}).getvalue())
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        place = -1
        while (place := content.find(mark, place + 1)) >= 0:
            name_at = place + (46 if offset == 24 else 30)
            if content[name_at : name_at + 9] == b"README.md":
                content[place + offset : place + offset + 4] = struct.pack("<I", declared)
    refused(io.BytesIO(bytes(content)), tmp_path)
    assert all(p.stat().st_size <= 100 for p in tmp_path.iterdir())


def test_an_archive_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_ARCHIVE", 2**20)
    assert "larger than 1 MB" in refused(io.BytesIO(b"\0" * (2**20 + 1)), tmp_path)


def test_a_directory_of_millions_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the directory was read")

    # Two marks in each piece, one across every border.
    piece = archive.DIRECTORY_MARK * 2 + b"x" * (archive.CHUNK - 10)
    long = io.BytesIO((piece + archive.DIRECTORY_MARK) * 400)
    monkeypatch.setattr(zipfile, "ZipFile", read)
    assert "more than 32 files" in refused(long, tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all", b"\x1f\x8b" + b"\0" * 99])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    assert "no whole zip archive" in refused(io.BytesIO(content), tmp_path)


def mutate(content: bytes, changes: list[tuple[int, int]], keep: float) -> bytes:
    changed = bytearray(content)
    for place, value in changes:
        changed[place % len(changed)] = value
    return bytes(changed[: int(len(changed) * keep)])


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=12),
    st.sampled_from([1.0, 1.0, 0.99, 0.5]),
    st.booleans(),
)
def test_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, int]],
    keep: float,
    deflated: bool,
) -> None:
    root = tmp_path_factory.mktemp("damage")
    into = root / "into"
    into.mkdir()
    kind = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    content = zipped({**PLAIN, "README.md": b"words " * 30}, kind).getvalue()
    try:
        unpack(io.BytesIO(mutate(content, changes, keep)), into)
    except ValueError as error:
        assert "\n" not in str(error)
    assert {p.name for p in into.iterdir()} <= set(FILES)
    assert [p.name for p in root.iterdir()] == ["into"]


PART = st.sampled_from(
    ["..", ".", "", "a", "config.json", "C:", "\\", "~", "m", "README.md", "%2e"]
)


@given(st.lists(st.lists(PART, min_size=1, max_size=4).map("/".join), max_size=6))
def test_no_path_ever_leads_out(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    root = tmp_path_factory.mktemp("paths")
    into = root / "a" / "b"
    into.mkdir(parents=True)
    unique = {name: b"{}" for name in names if name}
    with contextlib.suppress(ValueError):
        unpack(zipped({**PLAIN, **unique}), into)
    inside = {p for p in root.rglob("*") if p.is_file()}
    assert all(p.parent == into and p.name in FILES for p in inside)
