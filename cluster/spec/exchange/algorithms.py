"""Published algorithms (--algorithm): a strategy, its local steps, codec and outer optimiser.

Standard library only.

Options given beside the name replace its own, the strategy excepted. Local steps are 8 unless
given: published ones, 30 to 500, are those of runs with far more steps.
"""

from dataclasses import dataclass

NONE = "none"
"""In a list of algorithms: the strategy as it is, for comparison."""


@dataclass(frozen=True)
class Algorithm:
    summary: str
    paper: str
    options: dict[str, str | float]
    """As --flags have them; `strategy` is among them."""


ALGORITHMS = {
    "diloco": Algorithm(
        "workers train locally; an outer Nesterov step takes the mean change",
        "Douillard et al., DiLoCo, 2023",
        {"strategy": "local-sgd", "local_steps": 8, "outer": "nesterov:0.7:0.9"},
    ),
    "streaming-diloco": Algorithm(
        "diloco by fragments: one is exchanged in a round, while workers train on",
        "Douillard et al., Streaming DiLoCo with overlapping communication, 2025",
        {
            "strategy": "local-sgd",
            "local_steps": 2,
            "stream": "4:1:0.5",
            "outer": "nesterov:0.7:0.9",
            "compress": "int4",
        },
    ),
    "sparseloco": Algorithm(
        "diloco without momentum, whose changes are few numbers of 2 bits, with decaying error"
        " feedback",
        "Sarfi et al., SparseLoCo, 2025",
        {
            "strategy": "local-sgd",
            "local_steps": 8,
            "outer": "sgd:1",
            "compress": "topk:0.03:2bit",
            "error_feedback": 0.95,
        },
    ),
    "noloco": Algorithm(
        "workers train locally; random pairs average, each with an outer Nesterov step",
        "Kolehmainen et al., NoLoCo, 2025 (there Nesterov's step has one term more)",
        {
            "strategy": "pairwise",
            "passes": 1,
            "schedule": "random",
            "local_steps": 8,
            "outer": "nesterov:0.7:0.3",
        },
    ),
    "sgp": Algorithm(
        "after every step half of the parameters goes to one other worker, by a directed graph",
        "Assran et al., Stochastic Gradient Push, 2019",
        {"strategy": "sgp"},
    ),
    "sparta": Algorithm(
        "after every step a random half per cent of the parameters is averaged",
        "Beton et al., SPARTA, 2025",
        {"strategy": "allreduce", "average": "parameters", "compress": "randk:0.005"},
    ),
    "powersgd": Algorithm(
        "gradients as products of two thin matrices",
        "Vogels et al., PowerSGD, 2019",
        {"strategy": "allreduce", "compress": "powersgd:4"},
    ),
    "signsgd": Algorithm(
        "signs of gradients, with error feedback",
        "Karimireddy et al., Error feedback fixes signSGD, 2019",
        {"strategy": "allreduce", "compress": "sign"},
    ),
    "top-k": Algorithm(
        "the largest one per cent of the gradients, with error feedback",
        "Aji and Heafield, Sparse communication, 2017; Stich et al., 2018",
        {"strategy": "allreduce", "compress": "topk:0.01"},
    ),
}
