"""Scoring a split once: what a model says about every example, written chunk by chunk.

Finished chunks wait in a folder beside the file, so a run that was stopped goes on where it was; at
the end they become one file. Only one chunk's logits and encodings are in memory at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np

from budgetformer.adaptivity import linear_reference
from budgetformer.checkpoint import WEIGHTS, Checkpoint
from budgetformer.config import read_json, write_json
from budgetformer.cost import flops
from budgetformer.data import Examples
from budgetformer.evaluate import Records, check_segments, evaluate_ids
from budgetformer.progress import Progress, counted
from budgetformer.records import (
    REFERENCES,
    Reference,
    ScoredSet,
    Source,
    entropy,
    library_version,
    row_hash,
    table_writer,
    weights_hash,
    write_scored,
)
from budgetformer.tokenizer import TokenIds

CHUNK_ROWS = 1024
BATCH_ROWS = 32
JOB = "job.json"

Judge = Checkpoint | Reference
"""A model that judges chunk by chunk, or judgements of all rows."""


def score(
    checkpoint: Checkpoint,
    examples: Examples,
    out: Path,
    data: str,
    split: str = "test",
    references: Mapping[str, Judge] | None = None,
    keep_texts: bool = True,
    chunk_rows: int = CHUNK_ROWS,
    progress: Progress | None = None,
) -> Source:
    """Score examples and write them to a file; go on where an earlier run of the same was stopped.

    Args:
        checkpoint: the model, read from a folder.
        examples: the split, with labels in the model's numbers.
        out: the Parquet file.
        data: name of the data set, for the file's metadata.
        split: name of the split, likewise.
        references: other judges by name of REFERENCES.
        keep_texts: whether the file holds the texts.
        chunk_rows: rows in memory at a time, and lost by a kill.
        progress: called after each batch; the rows of a dense twin count too.

    Returns:
        What the file says about itself.

    Raises:
        ValueError: if there are no examples, they do not fit the model, or a judge's classes
            differ from it.
    """
    references = dict(references or {})
    _check(checkpoint, examples, references)
    source = source_of(checkpoint, data, split, references)
    parts = out.with_name(out.name + ".parts")
    starts = range(0, len(examples), chunk_rows)
    files = [parts / f"{number:06d}.parquet" for number in range(len(starts))]
    _open_job(parts, _job(source, examples, keep_texts, chunk_rows))
    n_models = 1 + sum(isinstance(judge, Checkpoint) for judge in references.values())
    advance = counted(progress, n_models * len(examples))
    waiting = []
    for start, file in zip(starts, files, strict=True):
        chunk = range(start, min(start + chunk_rows, len(examples)))
        if file.is_file():
            advance(n_models * len(chunk))
        else:
            waiting.append((chunk, file))
    for (chunk, file), (inputs, truncated) in zip(
        waiting, _encoded_ahead(checkpoint, examples, [chunk for chunk, _ in waiting]), strict=True
    ):
        part = examples.take(chunk)
        judged = {name: _rows_of(judge, chunk) for name, judge in references.items()}
        scored = _score_chunk(
            checkpoint, part, chunk, inputs, truncated, source, judged, keep_texts, advance
        )
        write_scored(scored, file)
    _join(files, out)
    shutil.rmtree(parts)
    return source


def source_of(
    checkpoint: Checkpoint, data: str, split: str, references: Mapping[str, Judge]
) -> Source:
    """Describe what is scored and by whom."""
    assert checkpoint.path is not None  # a model without a file has no weights to name
    config = checkpoint.config
    return Source(
        model=model_name(checkpoint.path),
        data=data,
        split=split,
        labels=config.labels,
        n_layers=config.n_layers,
        n_heads=config.n_heads,
        routed=config.routed,
        weights=weights_hash(checkpoint.path / WEIGHTS),
        version=library_version(),
        references={name: _judge_name(judge) for name, judge in references.items()},
    )


def model_name(folder: Path) -> str:
    """Return a checkpoint's name: its folder's, or its name on the Hub."""
    folder = folder.resolve()
    if folder.parent.name == "snapshots":  # the Hub's cache: models--user--name/snapshots/<commit>
        return folder.parent.parent.name.removeprefix("models--").replace("--", "/")
    return folder.name


def linear_judge(train: Examples, examples: Examples) -> Reference:
    """Return what TF-IDF and logistic regression, fitted on the training rows, say of examples."""
    return _as_reference(linear_reference(train, examples))


def encode(checkpoint: Checkpoint, examples: Examples) -> tuple[list[TokenIds], list[bool]]:
    """Encode examples as `Tokenizer.encode_ids` does, and tell which were cut."""
    max_len, tokenizer = checkpoint.config.max_len, checkpoint.tokenizer
    # With room for one token more, what needs that room is what would have been cut.
    longer = tokenizer.encode_ids(examples.texts, examples.text_pairs, max_len + 1)
    cut = [len(row.ids) > max_len for row in longer]
    if examples.text_pairs is None:
        shorter = [
            _without_last_piece(row) for row, was_cut in zip(longer, cut, strict=True) if was_cut
        ]
    else:
        again = examples.take([i for i, was_cut in enumerate(cut) if was_cut])
        shorter = tokenizer.encode_ids(again.texts, again.text_pairs, max_len)
    shortened = iter(shorter)
    inputs = [next(shortened) if was_cut else row for row, was_cut in zip(longer, cut, strict=True)]
    return inputs, cut


def _without_last_piece(row: TokenIds) -> TokenIds:
    """Drop the piece before [SEP]: the end of a single text is what is cut."""
    return TokenIds(np.delete(row.ids, -2), row.segments[:-1])


def _encoded_ahead(
    checkpoint: Checkpoint, examples: Examples, chunks: Sequence[range]
) -> Iterator[tuple[list[TokenIds], list[bool]]]:
    """Encode a chunk while the model reads the one before."""
    with ThreadPoolExecutor(1) as pool:
        coming = None
        for chunk in chunks:
            following = pool.submit(encode, checkpoint, examples.take(chunk))
            if coming:
                yield coming.result()
            coming = following
        if coming:
            yield coming.result()


def _score_chunk(
    checkpoint: Checkpoint,
    examples: Examples,
    rows: range,
    inputs: Sequence[TokenIds],
    truncated: Sequence[bool],
    source: Source,
    references: Mapping[str, Judge],
    keep_texts: bool,
    advance: Callable[[int], None],
) -> ScoredSet:
    config = checkpoint.config
    records = _evaluate(checkpoint, inputs, examples.labels, advance)
    judged = {}
    for name, judge in references.items():
        if isinstance(judge, Checkpoint):
            judge = _ask(judge, examples, config.labels, advance)
        judged[name] = judge
    pairs = examples.text_pairs or [None] * len(examples)
    hashes = [row_hash(text, pair) for text, pair in zip(examples.texts, pairs, strict=True)]
    counts = zip(records.n_tokens.tolist(), records.executed_heads.tolist(), strict=True)
    return ScoredSet(
        source=source,
        rows=np.array(rows, np.int64),
        records=records,
        truncated=np.array(truncated, np.bool_),
        flops=np.array([flops(config, n, ks).model for n, ks in counts], np.int64),
        hashes=np.array(hashes, np.uint64),
        references=judged,
        texts=examples.texts if keep_texts else None,
        text_pairs=examples.text_pairs if keep_texts else None,
    )


def _ask(
    judge: Checkpoint, examples: Examples, labels: Sequence[str], advance: Callable[[int], None]
) -> Reference:
    """Let another model judge; its classes may be in another order."""
    own = judge.config.labels
    gold = [own.index(labels[label]) for label in examples.labels]
    inputs = judge.tokenizer.encode_ids(examples.texts, examples.text_pairs, judge.config.max_len)
    said = _as_reference(_evaluate(judge, inputs, gold, advance))
    order = np.array([list(labels).index(label) for label in own])
    return Reference(order[said.predicted], said.losses, said.entropies)


def _evaluate(
    checkpoint: Checkpoint,
    inputs: Sequence[TokenIds],
    labels: Sequence[int],
    advance: Callable[[int], None],
) -> Records:
    return evaluate_ids(
        checkpoint.model, checkpoint.tokenizer, inputs, labels, BATCH_ROWS, after_batch=advance
    )


def _as_reference(records: Records) -> Reference:
    return Reference(
        predicted=np.asarray(records.probabilities.argmax(axis=1), np.int64),
        losses=records.losses,
        entropies=entropy(records.probabilities),
    )


def _rows_of(judge: Judge, rows: range) -> Judge:
    if isinstance(judge, Checkpoint):
        return judge
    part = slice(rows.start, rows.stop)
    return Reference(judge.predicted[part], judge.losses[part], judge.entropies[part])


def _check(checkpoint: Checkpoint, examples: Examples, references: Mapping[str, Judge]) -> None:
    if not len(examples):
        raise ValueError("there are no examples to score")
    config = checkpoint.config
    check_segments(checkpoint, examples)
    for name, judge in references.items():
        if name not in REFERENCES:
            raise ValueError(f"no judge is called {name!r}; known: {', '.join(REFERENCES)}")
        if isinstance(judge, Checkpoint):
            other = judge.config
            if set(other.labels) != set(config.labels) or other.n_segments != config.n_segments:
                raise ValueError(
                    f"the reference decides between {', '.join(other.labels)} for "
                    f"{other.n_segments} text(s), the model between {', '.join(config.labels)} "
                    f"for {config.n_segments}"
                )


def _judge_name(judge: Judge) -> str:
    if isinstance(judge, Reference):
        return "TF-IDF and logistic regression"
    return model_name(judge.path) if judge.path else "a model"


def _job(source: Source, examples: Examples, keep_texts: bool, chunk_rows: int) -> dict[str, str]:
    """What a run does: parts of another one do not fit."""
    content = sha256()
    pairs = examples.text_pairs or [None] * len(examples)
    for label, text, pair in zip(examples.labels, examples.texts, pairs, strict=True):
        content.update(f"{label} {row_hash(text, pair)} ".encode())
    return {
        "source": repr(source),
        "examples": content.hexdigest(),
        "texts": str(keep_texts),
        "chunk_rows": str(chunk_rows),
    }


def _open_job(parts: Path, job: dict[str, str]) -> None:
    """Keep the parts of a stopped run of the same job; throw away any other."""
    if (parts / JOB).is_file():
        try:
            if read_json(parts / JOB) == job:
                return
        except ValueError:
            pass  # damaged: the run starts over
    if parts.exists():
        shutil.rmtree(parts)
    parts.mkdir(parents=True)
    write_json(parts / JOB, job)


def _join(files: Sequence[Path], out: Path) -> None:
    """Write the parts into one file, one after the other, and move it into place."""
    import pyarrow.parquet as pq

    temporary = out.with_name(out.name + ".tmp")
    with table_writer(temporary, pq.read_schema(files[0])) as writer:
        for file in files:
            writer.write_table(pq.read_table(file))
    temporary.replace(out)
