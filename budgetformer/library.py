"""Where models live: shipped, trained, uploaded and fetched ones under one set of names.

    checkpoints/<name>            shipped   "<name>"
    runs/<name>                   trained   "runs/<name>"
    models/<name>                 uploaded  "models/<name>"
    models/.hub/<user>/<model>    fetched   "<user>/<model>" or "<user>/<model>@<revision>"

A folder appears, moves and goes as a whole: it is made elsewhere on the same disk and renamed. What
is deleted lies in a .trash folder until it is brought back, replaced by the next, or a day old.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
import unicodedata
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from budgetformer.runs import is_finished

Kind = Literal["shipped", "trained", "uploaded", "hub"]
KINDS: dict[Kind, str] = {
    "shipped": "shipped",
    "trained": "trained here",
    "uploaded": "uploaded",
    "hub": "from the Hub",
}
"""Each kind of model in words."""
MODELS_VARIABLE, RUNS_VARIABLE = "BUDGETFORMER_MODELS", "BUDGETFORMER_RUNS"
"""Environment variables that name the folders of uploaded and of trained models."""
NAME = re.compile(r"\w(?:[\w .+-]{0,58}\w)?")
HUB, TRASH, STAGING = ".hub", ".trash", ".staging-"
# Nobody comes back for a deletion after a day, or for a staging folder that a crash left behind.
KEPT_S, STAGING_S = 86_400.0, 3_600.0


@dataclass(frozen=True)
class Entry:
    """A model in the list."""

    name: str
    """What it is called everywhere, its folder's prefix included."""
    kind: Kind
    folder: Path

    @property
    def own(self) -> bool:
        """Whether it may be deleted here: it was not shipped."""
        return self.kind != "shipped"

    @property
    def renamable(self) -> bool:
        """Whether it may be renamed here; a model of the Hub is called what the Hub calls it."""
        return self.kind in ("trained", "uploaded")


@dataclass(frozen=True)
class Deleted:
    """A model in the trash, and where it came from."""

    entry: Entry
    place: Path
    """Its folder in the trash."""


@dataclass(frozen=True)
class Library:
    """The folders of models."""

    shipped: Path
    trained: Path
    uploaded: Path

    def entries(self) -> list[Entry]:
        """List the models that are whole: shipped, trained, uploaded, fetched, each by name."""
        found = [Entry(path.name, "shipped", path) for path in _models(self.shipped)]
        found += [
            Entry(f"runs/{path.name}", "trained", path)
            for path in _models(self.trained)
            if is_finished(path)
        ]
        found += [Entry(f"models/{p.name}", "uploaded", p) for p in _models(self.uploaded)]
        hub = self.uploaded / HUB
        for user in sorted(path for path in hub.glob("*") if path.is_dir()):
            found += [
                Entry(f"{user.name}/{unquote(path.name)}", "hub", path) for path in _models(user)
            ]
        return found

    def names(self) -> list[str]:
        """List the models' names in the order of entries()."""
        return [entry.name for entry in self.entries()]

    def entry(self, name: str) -> Entry:
        """Find a model by its name.

        Raises:
            ValueError: if it is not here.
        """
        for entry in self.entries():
            if entry.name == name:
                return entry
        raise ValueError(
            f"The model {name} is not here: it was renamed or deleted, or it never was. "
            "Pick another one."
        )

    def name_of(self, folder: Path) -> str:
        """Return the name of the model in a folder; the folder's own name where it is not here."""
        return next((e.name for e in self.entries() if e.folder == folder), folder.name)

    def rename(self, name: str, new: str) -> str:
        """Give a trained or uploaded model another name, and return it with its prefix.

        Raises:
            ValueError: if the model may not be renamed, or the name is taken or no name.
        """
        entry = self.entry(name)
        if not entry.renamable:
            raise ValueError(f"{name} is {KINDS[entry.kind]}: its name stays as it is")
        target = entry.folder.with_name(valid_name(new))
        if target == entry.folder:
            return name
        _move(entry.folder, target)
        return f"{name.partition('/')[0]}/{target.name}"

    def delete(self, name: str) -> Deleted:
        """Move a model into the trash; what has been there for a day goes for good.

        Raises:
            ValueError: if it is shipped, or not here any more.
        """
        entry = self.entry(name)
        if not entry.own:
            raise ValueError(f"{name} is shipped with the app: it cannot be deleted here")
        root = self.trained if entry.kind == "trained" else self.uploaded
        _sweep((root / TRASH).glob("*"), KEPT_S)
        place = root / TRASH / uuid.uuid4().hex / entry.folder.name
        place.parent.mkdir(parents=True)
        _move(entry.folder, place)
        return Deleted(entry, place)

    def restore(self, deleted: Deleted) -> str:
        """Bring a model back, under the next free name if another has its name now.

        Raises:
            ValueError: if it is not in the trash any more.
        """
        entry = deleted.entry
        if not deleted.place.is_dir():
            raise ValueError(f"{entry.name} cannot be brought back: it has been deleted for good")
        target = entry.folder
        if target.exists():
            if entry.kind == "hub":
                raise ValueError(f"{entry.name} was opened again meanwhile: it is in the list")
            target = target.with_name(free_name(target.parent, target.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        _move(deleted.place, target)
        self.forget(deleted)
        return entry.name if target == entry.folder else self.name_of(target)

    def forget(self, deleted: Deleted) -> None:
        """Delete what is in the trash for good."""
        shutil.rmtree(deleted.place.parent, ignore_errors=True)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Make an empty folder on the disk of the uploaded models; what is left in it goes."""
        self.uploaded.mkdir(parents=True, exist_ok=True)
        _sweep(self.uploaded.glob(f"{STAGING}*"), STAGING_S)
        place = Path(tempfile.mkdtemp(prefix=STAGING, dir=self.uploaded))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def is_taken(self, name: str) -> bool:
        """Whether an upload of this name would meet another one."""
        return (self.uploaded / name).exists()

    def add(self, staged: Path, name: str, replace: bool = False) -> tuple[str, Deleted | None]:
        """Move a checked folder in among the uploaded models.

        Args:
            staged: a folder inside staging().
            name: of the model, without prefix.
            replace: put a model that has this name into the trash; False refuses.

        Returns:
            The model's name with its prefix, and the model that made room, if any.

        Raises:
            ValueError: if the name is taken or no name.
        """
        target, replaced = self.uploaded / valid_name(name), None
        if replace and target.exists():
            replaced = self.delete(f"models/{target.name}")
        try:
            _move(staged, target)
        except ValueError:
            if replaced:
                self.restore(replaced)
            raise
        return f"models/{target.name}", replaced

    def add_from_hub(self, staged: Path, user: str, model: str) -> str:
        """Move a checked folder in as a model of the Hub, in place of an earlier one.

        Args:
            staged: a folder inside staging().
            user: the part of the Hub's name before the slash.
            model: the part after it, "@revision" included.

        Returns:
            The model's name.
        """
        target = self.uploaded / HUB / user / quote(model, safe="@ ")
        target.parent.mkdir(parents=True, exist_ok=True)
        name = f"{user}/{model}"
        replaced = self.delete(name) if target.is_dir() else None
        _move(staged, target)
        if replaced:
            self.forget(replaced)
        return name


def valid_name(name: str) -> str:
    """Return a name for a model's folder as it is stored.

    Raises:
        ValueError: if it is no such name.
    """
    clean = unicodedata.normalize("NFC", name.strip())
    if not NAME.fullmatch(clean):
        raise ValueError(
            f"{name[:80]!r} cannot be a model's name: take 1 to 60 letters, digits, blanks, dots, "
            "plus signs, dashes and underscores, with a letter or digit first and last"
        )
    return clean


def suggested_name(text: str) -> str:
    """Make a valid name of any text, such as a file's name."""
    clean = unicodedata.normalize("NFC", text.strip())
    clean = re.sub(r"[^\w .+-]+", "-", clean)[:60]
    clean = re.sub(r"^\W+|\W+$", "", clean)
    return clean or "model"


def free_name(folder: Path, name: str) -> str:
    """Return the first of name, name-2, name-3 … that nothing in a folder has."""
    number, free = 1, name
    while (folder / free).exists():
        number += 1
        free = f"{name[: 60 - len(str(number)) - 1]}-{number}"
    return free


def _models(folder: Path) -> list[Path]:
    """Return the folders that say they hold a model, by name."""
    return sorted(
        path.parent for path in folder.glob("*/config.json") if not path.parent.name.startswith(".")
    )


def _move(source: Path, target: Path) -> None:
    """Rename a folder, in one step, to a name that is free.

    Raises:
        ValueError: if the name is taken, or the folder is gone.
    """
    if target.exists():
        raise ValueError(f"the name {target.name} is taken: choose another one")
    try:
        # On a folder that somebody made since, with files in it, this fails.
        os.rename(source, target)
    except FileNotFoundError as error:
        raise ValueError(f"{source.name} is gone: somebody renamed or deleted it") from error
    except OSError as error:
        if target.exists():
            raise ValueError(f"the name {target.name} is taken: choose another one") from error
        raise


def _sweep(folders: Iterator[Path], age_s: float) -> None:
    """Delete folders that are older than this."""
    for path in folders:
        try:
            old = time.time() - path.stat().st_mtime > age_s
        except FileNotFoundError:
            continue  # somebody else sweeps
        if old:
            shutil.rmtree(path, ignore_errors=True)
