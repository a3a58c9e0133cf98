"""Models of the Hub: fetched into the library, and pushed from a folder.

What is fetched is checked like an upload. The app fetches without the server's token: its visitors
shall not read what only its owner may.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetformer.archive import CARD, FILES, MOST_BYTES, MOST_UNPACKED, NEEDED
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import write_json
from budgetformer.library import Library
from budgetformer.model_facts import SOURCE
from budgetformer.upload import check, now

HUB_ID = re.compile(r"([\w][\w.-]*)/([\w][\w.-]*?)(?:@([\w][\w./-]*))?", re.ASCII)
TIMEOUT_S = 10.0
# Names that the list gives to folders of its own.
RESERVED = ("runs", "models")
LIBRARY_NAME, TASK = "budgetformer", "text-classification"
PUSHED = tuple(name for name in FILES if name != "run.json")
"""Files that go to the Hub; what run.json says is in metrics.json too."""


@dataclass(frozen=True)
class Pushed:
    """What a push has done."""

    repo: str
    url: str
    """Address of the model's page."""
    commit: str
    """The new version."""
    files: tuple[str, ...]
    private: bool
    license: str | None
    """As the card's header says."""


def split_id(text: str) -> tuple[str, str, str | None]:
    """Split "user/name@revision" into its parts; the revision may lack.

    Raises:
        ValueError: if it is no such name.
    """
    match = HUB_ID.fullmatch(text.strip())
    if not match or ".." in text or "--" in text.partition("@")[0]:
        raise ValueError(
            f"{text.strip()[:100]!r} is no model of the Hub: write user/name, or "
            "user/name@revision with a branch, tag or commit"
        )
    user, name, revision = match.groups()
    if user in RESERVED:
        raise ValueError(f"{text!r}: names that start with {user}/ are folders here")
    return user, name, revision


def fetch(library: Library, hub_id: str) -> str:
    """Download a public model, check it and take it in; an earlier version makes room.

    Args:
        library: where it goes.
        hub_id: "user/name", or "user/name@revision".

    Returns:
        The model's name in the list.

    Raises:
        ValueError: with the reason, in one line; what was here before stays.
    """
    from huggingface_hub import HfApi, snapshot_download

    user, name, revision = split_id(hub_id)
    repo = f"{user}/{name}"
    with _hub_errors(hub_id, "it is not public, or there is none of that name"):
        info = HfApi().model_info(
            repo, revision=revision, files_metadata=True, timeout=TIMEOUT_S, token=False
        )
    assert info.sha is not None  # it is one of the fields that are always sent
    wanted = _wanted({s.rfilename: s.size or 0 for s in info.siblings or ()}, hub_id)
    try:
        with library.staging() as place:
            folder = place / name
            with _hub_errors(hub_id, "it went while it was read"):
                snapshot_download(
                    repo, revision=info.sha, allow_patterns=wanted, local_dir=folder, token=False
                )
            # Where the download keeps its notes.
            shutil.rmtree(folder / ".cache", ignore_errors=True)
            for file in wanted:
                if (folder / file).stat().st_size > MOST_BYTES[Path(file).suffix]:
                    raise ValueError(f"{file} is larger than the Hub said")
            check(folder)
            write_json(folder / SOURCE, {"added": now(), "hub": repo, "commit": info.sha})
            return library.add_from_hub(folder, user, name + (f"@{revision}" if revision else ""))
    except OSError as error:
        raise ValueError(f"it cannot be stored here: {error.strerror or error}") from error


def _wanted(sizes: dict[str, int], hub_id: str) -> list[str]:
    """Return the files to download, if they are a model's and not too large."""
    missing = [name for name in NEEDED if name not in sizes]
    if missing:
        raise ValueError(f"{hub_id} is no BudgetFormer: it has no {missing[0]}")
    wanted = [name for name in FILES if name in sizes]
    for name in wanted:
        most = MOST_BYTES[Path(name).suffix]
        if sizes[name] > most:
            raise ValueError(f"{hub_id}: {name} is larger than {most // 2**20} MB")
    if sum(sizes[name] for name in wanted) > MOST_UNPACKED:
        raise ValueError(f"{hub_id}: its files are larger than {MOST_UNPACKED // 2**20} MB")
    return wanted


def push(
    folder: Path,
    repo: str,
    private: bool = False,
    license: str | None = None,
    language: str | None = None,
) -> Pushed:
    """Upload a model's files with its card; the repository is made where there is none.

    The token is that of HF_TOKEN, or of a login with `hf auth login`.

    Args:
        folder: of the model.
        repo: "user/name".
        private: only its owner may see it; an existing public repository is refused.
        license: the Hub's name of a licence, such as "mit"; the card's own when None.
        language: ISO 639 code of the texts; the card's own when None.

    Raises:
        ValueError: if the folder holds no usable model, the name is none, there is no token, or the
            Hub refuses.
    """
    from huggingface_hub import HfApi, get_token

    if split_id(repo)[2] is not None:
        raise ValueError(f"{repo!r}: a push goes to user/name; leave the revision out")
    if not folder.is_dir():
        raise ValueError(f"no checkpoint folder at {str(folder)!r}")
    checkpoint = Checkpoint.from_pretrained(folder)
    if not get_token():
        raise ValueError("no token for the Hub: set HF_TOKEN, or log in with `hf auth login`")
    card, licence = hub_card(folder, repo, checkpoint, license, language)
    with tempfile.TemporaryDirectory() as place, _hub_errors(repo, "its owner is another account"):
        files = [name for name in PUSHED if name != CARD and (folder / name).is_file()]
        for name in files:
            shutil.copyfile(folder / name, Path(place) / name)
        (Path(place) / CARD).write_text(card, encoding="utf-8")
        api = HfApi()
        api.create_repo(repo, private=private or None, exist_ok=True)
        is_private = bool(api.model_info(repo, timeout=TIMEOUT_S).private)
        if private and not is_private:
            raise ValueError(f"{repo} is there already, and public: nothing was uploaded")
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=place,
            allow_patterns=sorted([*files, CARD]),
            commit_message="Upload a BudgetFormer",
        )
        page = f"{api.endpoint}/{repo}"
    return Pushed(repo, page, commit.oid, tuple(sorted([*files, CARD])), is_private, licence)


def hub_card(
    folder: Path, repo: str, checkpoint: Checkpoint, license: str | None, language: str | None
) -> tuple[str, str | None]:
    """Return a model's card with the header that the Hub reads, and the licence in it.

    Fields of a header that is there stay, what was measured is added from metrics.json.
    """
    from huggingface_hub import ModelCard

    text = f"# {repo.partition('/')[2]}\n"
    if (folder / CARD).is_file():
        text = (folder / CARD).read_text(encoding="utf-8")
    try:
        card = ModelCard(text, ignore_metadata_errors=True)
    except Exception as error:  # YAML's errors are of many kinds
        raise ValueError(f"{folder / CARD}: its header is no YAML: {error}") from error
    data: Any = card.data
    data.library_name = data.library_name or LIBRARY_NAME
    data.pipeline_tag = data.pipeline_tag or TASK
    data.license = license or data.license
    data.language = language or data.language
    metrics = checkpoint.metrics or {}
    results = _results(metrics)
    if results:
        data.model_name, data.eval_results, data.metrics = repo, results, ["accuracy"]
    return str(card), data.license


def _results(metrics: dict[str, Any]) -> list[Any]:
    """Return the measured accuracies in the Hub's form."""
    from huggingface_hub import EvalResult

    training = metrics.get("training")
    trained_on = training.get("data") if isinstance(training, dict) else None
    results = []
    for split in ("test", "validation"):
        figures = metrics.get(split)
        if not isinstance(figures, dict) or not isinstance(figures.get("accuracy"), float):
            continue
        data = str(figures.get("data") or trained_on or "unknown")
        results.append(
            EvalResult(TASK, data, data, "accuracy", figures["accuracy"], dataset_split=split)
        )
    return results


@contextmanager
def _hub_errors(name: str, refused: str) -> Iterator[None]:
    """Turn what the Hub's client raises into one line."""
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        HTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except RevisionNotFoundError as error:
        raise ValueError(f"the Hub has {name.partition('@')[0]}, but not that revision") from error
    except (RepositoryNotFoundError, GatedRepoError) as error:
        raise ValueError(f"the Hub does not give {name}: {refused}") from error
    except HFValidationError as error:
        raise ValueError(f"{name!r} is no name of the Hub: {error}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "?"
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise ValueError(f"the Hub refused {name} (status {status}): {reason}") from error
    except (OfflineModeIsEnabled, LocalEntryNotFoundError, HTTPError, ConnectionError) as error:
        raise ValueError(
            f"the Hub cannot be reached for {name}: no network, or it is down. Models that are "
            "here already work without it"
        ) from error
