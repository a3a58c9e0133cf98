"""python -m budgetformer."""

import sys

from budgetformer.cli import main

sys.exit(main())
