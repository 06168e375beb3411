"""The functions of neural networks: convolution, pooling, normalisation, losses, attention."""

import os

from pellucid.ops import load_topics

load_topics(__name__, os.path.dirname(__file__))
