"""Short Korean and English children's stories from a grammar of our own.

`stories(seed)` yields an endless sequence that depends on the seed alone. Seeds below
`HELD_OUT_SEED` are for training, the others for measuring.
"""

import random

from .teller import Story, Teller

HELD_OUT_SEED = 1_000_000
_SEQUEL_PERCENT = 20


def stories(seed: int, languages=("ko", "en")):
    """Endless stories; after one in five follows another day of the same hero."""
    rng = random.Random(seed)
    tellers = [Teller(code) for code in languages]
    while True:
        teller = rng.choice(tellers)
        story = teller.tell(rng)
        yield story
        while rng.randrange(100) < _SEQUEL_PERCENT:
            story = teller.tell(rng, sequel_of=story)
            yield story
