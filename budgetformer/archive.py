"""Checkpoint folders as zip archives: written alike every time, read without trusting them.

What an archive says about itself (sizes, counts, names) is the sender's word. Names are checked
before anything is written, and bytes are counted while they are unpacked.
"""

from __future__ import annotations

import io
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from budgetformer.checkpoint import CONFIG, METRICS, WEIGHTS
from budgetformer.tokenizer import FILE_NAME as TOKENIZER

CARD = "README.md"
NEEDED = (WEIGHTS, CONFIG, TOKENIZER)
FILES = (*NEEDED, METRICS, CARD, "run.json", "adaptivity.json", "sweep.json", "measured.json")
"""What belongs to a model. A training's folder holds more: its state, the texts of who watched."""
MIB = 2**20
MOST_ARCHIVE, MOST_UNPACKED, MOST_FILES = 200 * MIB, 256 * MIB, 32
"""Limits on the archive's bytes, on the bytes of what is in it, and on the number of files."""
MOST_BYTES = {".safetensors": 250 * MIB, ".json": 16 * MIB, ".md": MIB}
"""Limit on each file, by its ending."""
# What file managers and git add by themselves; never written.
JUNK_FOLDER, JUNK = "__MACOSX", (".DS_Store", "Thumbs.db", "desktop.ini", ".gitattributes")
CHUNK = 2**18
# Every file has an entry in the archive's directory that starts so. Python reads that directory
# whole, before its length can be asked for.
DIRECTORY_MARK, MOST_MARKS = b"PK\x01\x02", 1000
# What Python raises on archives that are not what they say.
DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error,
    ValueError, OverflowError, OSError,
)  # fmt: skip
EARLIEST = (1980, 1, 1, 0, 0, 0)


def pack(folder: Path, name: str) -> bytes:
    """Return a model's files as a zip archive; the same files give the same bytes.

    Args:
        folder: of the model.
        name: of the folder inside the archive.

    Raises:
        ValueError: if the folder is gone.
    """
    buffer = io.BytesIO()
    # Weights do not get smaller, and compressed bytes would depend on the version of zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for file in FILES:
            try:
                content = (folder / file).read_bytes()
            except FileNotFoundError:
                continue
            info = zipfile.ZipInfo(f"{name}/{file}", EARLIEST)
            info.create_system, info.external_attr = 3, 0o644 << 16  # as on Unix, everywhere
            archive.writestr(info, content)
        if not archive.infolist():
            raise ValueError(f"The model {name} is not here any more: it was renamed or deleted.")
    return buffer.getvalue()


def unpack(file: BinaryIO, into: Path) -> list[str]:
    """Write a model's files from a zip archive into an empty folder.

    Args:
        file: the archive, to be read from its start.
        into: the folder; on an error it may hold a part, which the caller removes.

    Returns:
        The names of JSON files in the archive that no model needs; they are left out.

    Raises:
        ValueError: if the archive is damaged, too large, or holds what it must not hold.
    """
    _check_size(file)
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGED as error:
        raise ValueError(f"this is no whole zip archive: {error}") from error
    with archive:
        members = _members(archive)
        room = MOST_UNPACKED
        for name, info in members.items():
            if name in FILES:
                room -= _write(_chunks(archive, info), into / name, room)
    return sorted(name for name in members if name not in FILES)


def _check_size(file: BinaryIO) -> None:
    """Refuse an archive that is too long, or whose directory is, before it is read in."""
    file.seek(0)
    total = marks = 0
    rest = b""
    while chunk := file.read(CHUNK):
        total += len(chunk)
        if total > MOST_ARCHIVE:
            raise ValueError(f"the archive is larger than {MOST_ARCHIVE // MIB} MB")
        window = rest + chunk
        marks += window.count(DIRECTORY_MARK)
        rest = window[-len(DIRECTORY_MARK) + 1 :]
    if marks > MOST_MARKS:
        raise ValueError(f"the archive holds more than {MOST_FILES} files")
    file.seek(0)


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Check every entry and return the files by their name in the model's folder."""
    infos = archive.infolist()
    if len(infos) > MOST_FILES:
        raise ValueError(f"the archive holds {len(infos)} entries; at most {MOST_FILES} may be")
    files: dict[PurePosixPath, zipfile.ZipInfo] = {}
    for info in infos:
        path = _safe_path(info)
        if info.is_dir() or path.parts[0] == JUNK_FOLDER or path.name in JUNK:
            continue
        if path in files:
            raise ValueError(f"the archive holds {_shown(str(path))} twice")
        files[path] = info
    if not files:
        raise ValueError("the archive holds no file")
    top = {path.parts[0] for path in files}
    strip = len(top) == 1 and all(len(path.parts) > 1 for path in files)
    members = {}
    for path, info in files.items():
        inner = PurePosixPath(*path.parts[1:]) if strip else path
        if len(inner.parts) > 1:
            raise ValueError(
                f"{_shown(str(path))} lies in a folder; a model is one folder of files"
            )
        _check_name(inner.name)
        members[inner.name] = info
    missing = [name for name in NEEDED if name not in members]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    return members


def _safe_path(info: zipfile.ZipInfo) -> PurePosixPath:
    """Return an entry's path if it is a plain file or folder below where the archive lies."""
    # Python cuts the other name at a zero byte.
    name = info.orig_filename
    shown = _shown(name)
    parts = name.removesuffix("/").split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or any(sign in name for sign in "\\:")
        or any(unicodedata.category(sign) in ("Cc", "Cs") for sign in name)
    ):
        raise ValueError(f"the archive holds the path {shown}, which may lead out of its folder")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ValueError(f"{shown} is a link or a device; only files may be in the archive")
    if info.flag_bits & 1:
        raise ValueError(f"{shown} is encrypted; send the archive without a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Python unpacks the other kinds without a limit on how much one step gives.
        raise ValueError(f"{shown} is compressed in a way that is not read here; use plain zip")
    return PurePosixPath(*parts)


def _check_name(name: str) -> None:
    if name in FILES or (name.endswith(".json") and not name.startswith(".")):
        return
    raise ValueError(
        f"{_shown(name)} is no file of a model: only {WEIGHTS}, .json files and {CARD} may be in it"
    )


def _chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Unpack one file piece by piece."""
    try:
        with archive.open(info) as source:
            while chunk := source.read(CHUNK):
                yield chunk
    except DAMAGED as error:
        name = _shown(info.orig_filename)
        raise ValueError(f"{name} is damaged: {str(error) or 'it is cut off'}") from error


def _write(chunks: Iterator[bytes], target: Path, room: int) -> int:
    """Write one file and return its size; what counts is what comes out, not what is declared."""
    most = MOST_BYTES[target.suffix]
    written = 0
    with target.open("xb") as out:
        for chunk in chunks:
            written += len(chunk)
            if written > most:
                raise ValueError(f"{target.name} is larger than {most // MIB} MB")
            if written > room:
                raise ValueError(f"the files are larger than {MOST_UNPACKED // MIB} MB together")
            out.write(chunk)
    return written


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "…")
