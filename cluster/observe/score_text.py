"""The score of a model as text: accuracy, or of a text loss, bits per byte and perplexity."""

import math

from cluster.observe.units import bits_per_byte_text, percent_text
from cluster.spec.options import BITS_PER_NAT, is_judged_by_bits


def score_text(
    dataset: object, loss_function: object, accuracy: float | None, loss: float | None
) -> str:
    """Empty for emulated compute, which has no score; `loss` is in nats a byte."""
    if is_judged_by_bits(str(dataset), str(loss_function)):
        if loss is None:
            return "loss not finite"
        bits = bits_per_byte_text(loss * BITS_PER_NAT)
        return f"loss {loss:.3f}, {bits}, perplexity {perplexity(loss):.4g}"
    return "" if accuracy is None else f"accuracy {percent_text(accuracy)}"


def perplexity(loss: float) -> float:
    """Of a byte: as many equally likely ones are as hard to predict."""
    return math.exp(min(loss, 700.0))
