"""Models of the Hub, against a server that speaks as much of its protocol as is needed."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import huggingface_hub
import pytest
from huggingface_hub import constants

from budgetformer import Checkpoint, cli, hub, predict
from budgetformer.archive import NEEDED
from budgetformer.hub import fetch, hub_card, push, split_id
from budgetformer.library import Library
from budgetformer.model_facts import read_facts

ROOT = Path(__file__).parents[2]
SHA = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Models by "user/name" and revision; counts what is asked, and who asks with a token."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], dict[str, bytes]] = {}
        self.sizes: dict[str, int] = {}
        self.asked: list[str] = []
        self.tokens: list[str] = []

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        path = path.partition("?")[0]
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
        if api and api[2] != "tree":
            repo, revision = api[1], (api[3] or "main").replace("%2F", "/")
            if not any(known == repo for known, _ in self.files):
                return 401, {"X-Error-Code": "RepoNotFound"}, b"{}"
            key = (repo, "main" if revision == SHA else revision)
            if key not in self.files:
                return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
            siblings = [
                {"rfilename": name, "size": self.sizes.get(name, len(content)), "blobId": "b"}
                for name, content in self.files[key].items()
            ]
            info = {"id": repo, "modelId": repo, "sha": SHA, "private": False, "siblings": siblings}
            return 200, {"Content-Type": "application/json"}, json.dumps(info).encode()
        if api:
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": "b" * 40}
                for name, content in self.files[api[1], "main"].items()
            ]
            return 200, {"Content-Type": "application/json"}, json.dumps(tree).encode()
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/([^/]+)", path)
        if not file:
            return 404, {}, b"{}"
        content = next(c[file[3]] for (repo, _), c in self.files.items() if repo == file[1])
        etag = hashlib.sha1(content).hexdigest()
        return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": SHA}, content


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    fake = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            if "Authorization" in self.headers:
                fake.tokens.append(self.headers["Authorization"])
            status, headers, body = fake.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    use_endpoint(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield fake
    server.shutdown()
    server.server_close()


def use_endpoint(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        address + "/{repo_id}/resolve/{revision}/{filename}",
    )


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "checkpoints", tmp_path / "runs", tmp_path / "models")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("u/m", ("u", "m", None)),
        (" user-1/My.model_2 ", ("user-1", "My.model_2", None)),
        ("u/m@v1.0", ("u", "m", "v1.0")),
        ("u/m@refs/pr/1", ("u", "m", "refs/pr/1")),
    ],
)
def test_names(text: str, parts: tuple[str, str, str | None]) -> None:
    assert split_id(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", "m", "u/m/x", "../m", "u/..", "u/.m", "/u/m", "u/m@", "u/m@../x", "https://hf.co/u/m",
     "u m/x", "u/m\n", "u/<b>", "größe/m", "u--v/m", "runs/mine", "models/x", "u/m?x=1"],
)  # fmt: skip
def test_what_is_no_name(text: str) -> None:
    if text == "u/m\n":
        assert split_id(text) == ("u", "m", None)  # blanks around it are none of the name
        return
    with pytest.raises(ValueError):
        split_id(text)


def test_fetch(fake_hub: FakeHub, library: Library, saved: Path) -> None:
    (saved / "README.md").write_text("# card")
    extra = {"pytorch_model.bin": b"a pickle", "control.json": b"{}", ".gitattributes": b""}
    fake_hub.files["someone/model", "main"] = {**files(saved), **extra}
    assert fetch(library, "someone/model") == "someone/model"
    entry = library.entry("someone/model")
    assert entry.kind == "hub"
    expected = {**files(saved), "source.json": (entry.folder / "source.json").read_bytes()}
    assert files(entry.folder) == expected
    facts = read_facts(entry)
    assert facts.commit == SHA and facts.since.endswith("UTC")
    here, there = (Checkpoint.from_pretrained(folder) for folder in (entry.folder, saved))
    assert predict(here, "a film").to_dict() == predict(there, "a film").to_dict()
    # Visitors do not read with the owner's token, and a pickle is not even downloaded.
    assert fake_hub.tokens == []
    assert not [path for path in fake_hub.asked if "pickle" in path or ".bin" in path]
    assert [p.name for p in library.uploaded.iterdir()] == [".hub"]


def test_fetch_a_revision_and_a_newer_version(
    fake_hub: FakeHub, library: Library, saved: Path
) -> None:
    fake_hub.files["u/m", "v1"] = fake_hub.files["u/m", "main"] = files(saved)
    assert fetch(library, "u/m@v1") == "u/m@v1"
    (saved / "metrics.json").write_text('{"test": {"n": 5, "accuracy": 0.5}}')
    fake_hub.files["u/m", "v1"] = fake_hub.files["u/m", "main"] = files(saved)
    assert fetch(library, "u/m@v1") == "u/m@v1"
    assert library.names() == ["u/m@v1"]
    measured = read_facts(library.entry("u/m@v1")).measured
    assert measured is not None and measured.n == 5


def test_what_the_hub_does_not_give(fake_hub: FakeHub, library: Library, saved: Path) -> None:
    good = files(saved)
    fake_hub.files["u/m", "main"] = good
    fake_hub.files["u/other", "main"] = {"config.json": b"{}", "pytorch_model.bin": b""}
    fake_hub.files["u/bad", "main"] = {**good, "config.json": b'{"n_layers": 10000}'}
    for name, reason in (
        ("u/none", "does not give u/none: it is not public"),
        ("u/m@none", "has u/m, but not that revision"),
        ("u/other", "no BudgetFormer: it has no model.safetensors"),
        ("u/bad", "n_layers"),
    ):
        with pytest.raises(ValueError, match=re.escape(reason)) as error:
            fetch(library, name)
        assert "\n" not in str(error.value)
    fake_hub.sizes["model.safetensors"] = 2**40
    asked = len(fake_hub.asked)
    with pytest.raises(ValueError, match=r"model\.safetensors is larger than"):
        fetch(library, "u/m")
    assert len(fake_hub.asked) == asked + 1  # nothing was downloaded
    assert library.names() == []
    assert not library.uploaded.exists() or list(library.uploaded.iterdir()) == []


def test_without_a_network_what_is_here_stays(
    fake_hub: FakeHub, library: Library, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_hub.files["u/m", "main"] = files(saved)
    fetch(library, "u/m")
    use_endpoint(monkeypatch, "http://127.0.0.1:9")  # nothing listens on this port
    with pytest.raises(ValueError, match="the Hub cannot be reached") as error:
        fetch(library, "u/m")
    assert "\n" not in str(error.value) and "already work" in str(error.value)
    assert library.names() == ["u/m"]


class FakeApi:
    """Writes down what goes out; the folder is read before it is gone."""

    calls: ClassVar[list[tuple[str, dict[str, Any]]]]
    sent: ClassVar[dict[str, bytes]]
    is_private = False
    endpoint = "https://huggingface.co"

    def create_repo(self, repo_id: str, **given: Any) -> None:
        self.calls.append(("create_repo", {"repo_id": repo_id, **given}))

    def model_info(self, repo_id: str, **given: Any) -> SimpleNamespace:
        return SimpleNamespace(private=self.is_private)

    def upload_folder(self, folder_path: str, **given: Any) -> SimpleNamespace:
        self.calls.append(("upload_folder", given))
        self.sent.update(files(Path(folder_path)))
        return SimpleNamespace(oid=SHA)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> type[FakeApi]:
    class Api(FakeApi):
        calls: ClassVar[list[tuple[str, dict[str, Any]]]] = []
        sent: ClassVar[dict[str, bytes]] = {}

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    return Api


def test_push_sends_the_model_and_nothing_else(api: type[FakeApi], saved: Path) -> None:
    metrics = {"training": {"data": "films"}, "test": {"n": 4, "accuracy": 0.75}}
    (saved / "metrics.json").write_text(json.dumps(metrics))
    (saved / "sweep.json").write_text("{}")
    card = "---\npipeline_tag: text-classification\ntags: [x]\n---\n\n# A card\n"
    (saved / "README.md").write_text(card)
    for private in ("control.json", "job.json", "run.json", "state.safetensors", "events.jsonl"):
        (saved / private).write_text("{}")
    done = push(saved, "u/m", license="mit", language="en")
    names = sorted([*NEEDED, "README.md", "metrics.json", "sweep.json"])
    assert api.calls == [
        ("create_repo", {"repo_id": "u/m", "private": None, "exist_ok": True}),
        (
            "upload_folder",
            {
                "repo_id": "u/m",
                "allow_patterns": names,
                "commit_message": "Upload a BudgetFormer",
            },
        ),
    ]
    assert sorted(api.sent) == names
    for name in names:
        if name != "README.md":
            assert api.sent[name] == (saved / name).read_bytes()
    assert done == hub.Pushed("u/m", "https://huggingface.co/u/m", SHA, tuple(names), False, "mit")
    # The header in the Hub's own reading; the card below it and the model's folder as they were.
    sent = huggingface_hub.ModelCard(api.sent["README.md"].decode())
    header: Any = sent.data
    assert (header.license, header.language, header.library_name) == ("mit", "en", "budgetformer")
    assert (header.pipeline_tag, header.tags) == ("text-classification", ["x"])
    assert header.metrics == ["accuracy"]
    (result,) = header.eval_results
    assert (result.dataset_name, result.dataset_split) == ("films", "test")
    assert (result.metric_type, result.metric_value) == ("accuracy", 0.75)
    assert "# A card" in sent.text
    assert (saved / "README.md").read_text() == card


def test_the_headers_own_fields_win_where_nothing_is_asked(saved: Path) -> None:
    (saved / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: de\n---\n# x\n")
    checkpoint = Checkpoint.from_pretrained(saved)
    text, licence = hub_card(saved, "u/m", checkpoint, None, None)
    data: Any = huggingface_hub.ModelCard(text).data
    assert (licence, data.license, data.language) == ("apache-2.0", "apache-2.0", "de")
    text, licence = hub_card(saved, "u/m", checkpoint, "mit", "en")
    data = huggingface_hub.ModelCard(text).data
    assert (licence, data.license, data.language) == ("mit", "mit", "en")
    (saved / "README.md").unlink()
    text, licence = hub_card(saved, "u/m", checkpoint, None, None)
    assert licence is None and "license" not in text and "# m" in text
    (saved / "README.md").write_text("---\n: [\n---\n")
    with pytest.raises(ValueError, match="its header is no YAML"):
        hub_card(saved, "u/m", checkpoint, None, None)


def test_the_header_of_every_shipped_card_is_read() -> None:
    for path in sorted((ROOT / "checkpoints").glob("*/README.md")):
        checkpoint = Checkpoint.from_pretrained(path.parent)
        text, _ = hub_card(path.parent, f"u/{path.parent.name}", checkpoint, None, None)
        data: Any = huggingface_hub.ModelCard(text).data
        assert {r.dataset_split: r.metric_value for r in data.eval_results} == {
            split: figures["accuracy"]
            for split, figures in checkpoint.metrics.items()
            if split != "training"
        }


def test_private(api: type[FakeApi], saved: Path) -> None:
    with pytest.raises(ValueError, match="public: nothing was uploaded"):
        push(saved, "u/m", private=True)
    assert [name for name, _ in api.calls] == ["create_repo"]
    assert api.calls[0][1]["private"] is True
    api.is_private = True
    assert push(saved, "u/m", private=True).private


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main(["push", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_the_command(api: type[FakeApi], saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command(capsys, "--model", saved, "--repo", "u/m", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["url"] == "https://huggingface.co/u/m" and said["commit"] == SHA
    assert set(said["files"]) == set(api.sent) and said["license"] is None
    code, out, err = command(capsys, "--model", saved, "--repo", "u/m")
    assert (code, err) == (0, "") and "https://huggingface.co/u/m  public" in out
    assert "names no licence" in out


def test_the_commands_errors_take_one_line(
    api: type[FakeApi],
    saved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def complaint(*arguments: str | Path) -> str:
        code, out, err = command(capsys, *arguments)
        assert (code, out) == (1, "") and err.count("\n") == 1 and "Traceback" not in err
        return err

    assert "'m' is no model of the Hub" in complaint("--model", saved, "--repo", "m")
    assert "leave the revision out" in complaint("--model", saved, "--repo", "u/m@main")
    assert "no checkpoint folder" in complaint("--model", tmp_path / "x", "--repo", "u/m")
    assert "config.json" in complaint("--model", tmp_path, "--repo", "u/m")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    assert "set HF_TOKEN" in complaint("--model", saved, "--repo", "u/m")
    assert api.calls == []


def test_the_hubs_refusal_takes_one_line(
    saved: Path, fake_hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    # The fake hub takes no POST, as the real one takes none of another account.
    code, out, err = command(capsys, "--model", saved, "--repo", "u/m")
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "the Hub refused u/m (status 501)" in err


def test_push_without_a_network_takes_one_line(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    use_endpoint(monkeypatch, "http://127.0.0.1:9")
    code, out, err = command(capsys, "--model", saved, "--repo", "u/m")
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "the Hub cannot be reached for u/m" in err
