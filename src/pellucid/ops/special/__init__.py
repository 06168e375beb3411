"""Special functions, most of them SciPy's with derivatives of ours."""

import os

from pellucid.ops import load_topics

load_topics(__name__, os.path.dirname(__file__))
