"""A scored set: what a model said about every example of a split, kept in one Parquet file.

The file is written once, by `budgetformer score`, and read by everything that looks at many
examples at once. Each row is an example; what holds for all of them stands in the file's metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from hashlib import blake2b, sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgetformer.data import Examples
from budgetformer.evaluate import Records

if TYPE_CHECKING:
    import pyarrow as pa

SHIPPED = "records.parquet"
"""Name of the file in a checkpoint's folder."""
METADATA = b"budgetformer"
REFERENCES = {"dense": "dense twin", "linear": "linear model"}
"""Other judges of the same examples, and what people call them."""


@dataclass(frozen=True)
class Source:
    """What was scored, and by which model."""

    model: str
    """Name of the checkpoint's folder."""
    data: str
    """Name or path of the data set."""
    split: str
    """Which of its splits; "all" for a table as it stands."""
    labels: tuple[str, ...]
    """The model's classes, in its order."""
    n_layers: int
    """L."""
    n_heads: int
    """H, of each layer."""
    routed: bool
    """Whether the model chooses its heads."""
    weights: str
    """SHA-256 of the weights' file."""
    version: str
    """Of this library."""
    references: dict[str, str] = field(default_factory=dict)
    """Who the other judges were: names of REFERENCES and what stood for them."""


@dataclass(frozen=True)
class Reference:
    """What another model said about the same N examples: a difficulty that is not our own."""

    predicted: NDArray[np.int64]
    """Most probable class, in the numbers of the scored model, (N,)."""
    losses: NDArray[np.float32]
    """Negative log-likelihood of the gold class in nats, (N,)."""
    entropies: NDArray[np.float32]
    """Entropy of its class probabilities in nats, (N,)."""


@dataclass(frozen=True)
class ScoredSet:
    """N scored examples, in the order of the file."""

    source: Source
    rows: NDArray[np.int64]
    """Row number in the split, from 0, (N,)."""
    records: Records
    """Labels, probabilities, losses, tokens, budgets and heads."""
    truncated: NDArray[np.bool_]
    """Whether a part of the text was cut off, (N,)."""
    flops: NDArray[np.int64]
    """FLOPs of the whole model in closed form, see cost.py, (N,)."""
    hashes: NDArray[np.uint64]
    """`row_hash` of the texts, by which they are found again, (N,)."""
    references: Mapping[str, Reference] = field(default_factory=dict)
    """By name of REFERENCES; only those that were asked."""
    texts: tuple[str | None, ...] | None = None
    """The texts as typed; None for one that is not at hand, or for all of them."""
    text_pairs: tuple[str | None, ...] | None = None
    """The second texts, for pair tasks."""

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.rows)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Most probable class, (N,)."""
        return np.asarray(self.records.probabilities.argmax(axis=1), np.int64)

    @property
    def entropies(self) -> NDArray[np.float32]:
        """Entropy of the class probabilities in nats, (N,)."""
        return entropy(self.records.probabilities)

    @property
    def has_budgets(self) -> bool:
        """Whether s differs between examples: not for a dense model."""
        return self.source.routed and bool(np.ptp(self.records.mean_budgets) > 0)

    def take(self, indices: NDArray[Any] | Sequence[int]) -> ScoredSet:
        """Return the examples at these positions, or where a mask is true, in this order."""
        i = np.asarray(indices)
        i = np.flatnonzero(i) if i.dtype == bool else i.astype(np.int64)

        def texts(column: tuple[str | None, ...] | None) -> tuple[str | None, ...] | None:
            return None if column is None else tuple(column[at] for at in i)

        return replace(
            self,
            rows=self.rows[i],
            records=_take_arrays(self.records, i),
            truncated=self.truncated[i],
            flops=self.flops[i],
            hashes=self.hashes[i],
            references={name: _take_arrays(r, i) for name, r in self.references.items()},
            texts=texts(self.texts),
            text_pairs=texts(self.text_pairs),
        )

    def with_texts(self, examples: Examples) -> tuple[ScoredSet, int]:
        """Put texts beside the scores, each only where it is the text that was scored.

        Args:
            examples: the split that was scored, from `load_dataset`.

        Returns:
            The set with texts, and how many rows were left without because the text there is
            another one.
        """
        texts: list[str | None] = [None] * len(self)
        pairs: list[str | None] = [None] * len(self)
        for i, (row, wanted) in enumerate(
            zip(self.rows.tolist(), self.hashes.tolist(), strict=True)
        ):
            if row >= len(examples):
                continue
            pair = None if examples.text_pairs is None else examples.text_pairs[row]
            if row_hash(examples.texts[row], pair) == wanted:
                texts[i], pairs[i] = examples.texts[row], pair
        joined = replace(
            self,
            texts=tuple(texts),
            text_pairs=None if examples.text_pairs is None else tuple(pairs),
        )
        return joined, texts.count(None)


def entropy(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return −Σ p·ln p of each row in nats, (N, C) -> (N,)."""
    p = probabilities.astype(np.float64)
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1), np.float32)


def row_hash(text: str, text_pair: str | None = None) -> int:
    """Return 64 bits that tell one input from another."""
    both = text if text_pair is None else f"{text}\x1f{text_pair}"
    digest = blake2b(both.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def weights_hash(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        ValueError: if it cannot be read.
    """
    digest = sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()


@cache
def library_version() -> str:
    """Return this library's version, also where it is used without being installed."""
    try:
        return metadata.version("budgetformer")
    except metadata.PackageNotFoundError:
        import tomllib

        project = Path(__file__).parent.parent / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


def read_scored(path: str | Path) -> ScoredSet:
    """Read a scored set.

    Raises:
        ValueError: if the file is missing, damaged, or does not hold what `score` writes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from budgetformer.records_table import from_table

    if not Path(path).is_file():
        raise ValueError(f"{path} does not exist; write it with: python -m budgetformer score")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error
    try:
        return from_table(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def write_scored(scored: ScoredSet, path: str | Path) -> None:
    """Write a scored set under a temporary name, then move it into place."""
    from budgetformer.records_table import to_table

    write_table(to_table(scored), Path(path))


def write_table(table: pa.Table, path: Path) -> None:
    """Write one table, whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with table_writer(temporary, table.schema) as writer:
        writer.write_table(table)
    os.replace(temporary, path)


def table_writer(path: Path, schema: pa.Schema) -> Any:
    """Open a Parquet file for tables of this schema, packed for floats and short texts."""
    import pyarrow.parquet as pq

    from budgetformer.records_table import float_columns

    floats = float_columns(schema)
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=9,
        use_dictionary=["label", "predicted"],
        # The bytes of neighbouring numbers that look alike, side by side.
        use_byte_stream_split=floats,
    )


def source_to_json(source: Source) -> bytes:
    """Return the metadata that describes a file."""
    return json.dumps(asdict(source), ensure_ascii=False, sort_keys=True).encode()


def source_from_json(text: bytes) -> Source:
    """Read a file's metadata.

    Raises:
        ValueError: if a field is missing or of another kind.
    """
    try:
        values = json.loads(text)
        known = {f.name for f in fields(Source)}
        source = Source(**{k: v for k, v in values.items() if k in known})
        source = replace(source, labels=tuple(map(str, source.labels)))
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"the file's metadata cannot be read: {error}") from error
    if source.n_layers < 1 or source.n_heads < 1 or len(source.labels) < 2:
        raise ValueError("the file's metadata names no layers, no heads or fewer than two classes")
    return source


def _take_arrays(record: Any, i: NDArray[np.int64]) -> Any:
    """Return the rows of a dataclass of arrays."""
    return replace(record, **{f.name: getattr(record, f.name)[i] for f in fields(record)})
