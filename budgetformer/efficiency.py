"""What accuracy costs: the files that `sweep --save` and `measure --save` leave beside a model.

    sweep.json     accuracy, heads and FLOPs under every policy, on a whole split
    measured.json  time, memory, energy and CO₂ on a stated machine

Read here, and turned into what a screen or a report shows. No model is run and none is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from budgetformer.config import ModelConfig, from_dict, read_json

SWEEP, MEASURED = "sweep.json", "measured.json"
CONFIG, METRICS = "config.json", "metrics.json"
# Beyond this the weights have changed since the sweep; arithmetic of another processor moves less.
ACCURACY_SLACK = 0.002

Kind = Literal["adaptive", "static", "dense"]
Read = TypeVar("Read")
