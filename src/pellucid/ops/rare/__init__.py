"""What few programs use: statistics, histograms, segments, number theory, the memory of a tensor."""

import os

from pellucid.ops import load_topics

load_topics(__name__, os.path.dirname(__file__))
