"""What is tried: the laws, workers and sizes; and what a worker tells of its part."""

from dataclasses import field

from cluster.spec.documents.codec import Document
from cluster.spec.documents.events import ConnectionBytes
from cluster.spec.schedules.recorded import PlannedMessage

ENDS, MEAN, SAME, MESSAGES = "ends", "leaves the mean", "same bits everywhere", "messages"
LAWS = {
    ENDS: "the exchange ends on every worker, without an error",
    MEAN: "every worker has the mean of all workers",
    SAME: "all workers have the same bits",
    MESSAGES: "every pair of workers sends what messages() says",
}

WORKERS = (1, 2, 3, 4, 5, 6)
SIZES = (1, 7, 21_840, 200_001)
"""Numbers in a tensor: fewer than workers, odd, and several chunks."""
ROUNDS = 2
COUNTED_SIZE = 300_001
"""Numbers in a tensor whose bytes are counted: Gloo's framing is below 0.1 % of them."""
COUNTED_ROUNDS = 3
ITEM_BYTES = 4

Case = tuple[int, int]
"""Numbers in the tensor, and the round."""
CASES: tuple[Case, ...] = tuple((size, index) for size in SIZES for index in range(ROUNDS))


class Counted(Document):
    """A worker's connections before and after a round."""

    before: list[ConnectionBytes]
    after: list[ConnectionBytes]


class Told(Document):
    """What one worker tells at its end; its tensors are beside it, as raw float32."""

    error: str | None = None
    """Why it ended early, in one line."""
    messages: list[list[PlannedMessage]] | None = None
    """Of each counted round, from the first worker; null where the file has no messages()."""
    counted: list[Counted] = field(default_factory=list)
    """By round."""
