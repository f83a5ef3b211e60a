"""Record NVML readings of this machine's GPUs: python -m tests.record_nvml NAME [READINGS]

Writes tests/data/nvml/NAME.json, a reading per second, for tests/replayed_nvml.py. Train something
meanwhile.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from cluster.gpu.nvml import ALL_LINKS, VALUES
from tests.replayed_nvml import RECORDED


def record(library: Any, readings: int, pause_s: float = 1.0) -> list[dict[str, Any]]:
    """The name and some readings of every GPU."""
    library.nvmlInit()
    found: list[dict[str, Any]] = [{"readings": []} for _ in range(library.nvmlDeviceGetCount())]
    for _ in range(readings):
        for index, entry in enumerate(found):
            gpu = library.nvmlDeviceGetHandleByIndex(index)
            entry["name"] = library.nvmlDeviceGetName(gpu)
            entry["readings"].append(_reading(library, gpu))
        time.sleep(pause_s)
    library.nvmlShutdown()
    return found


def _reading(library: Any, gpu: Any) -> dict[str, Any]:
    def said(ask: Any) -> Any:
        try:
            return ask()
        except library.NVMLError:
            return None

    def parts(answer: Any, *names: str) -> Any:
        return answer and {name: int(getattr(answer, name)) for name in names}

    ways = (library.NVML_PCIE_UTIL_TX_BYTES, library.NVML_PCIE_UTIL_RX_BYTES)
    rates = said(lambda: {str(w): int(library.nvmlDeviceGetPcieThroughput(gpu, w)) for w in ways})
    return {
        "utilization": parts(
            said(lambda: library.nvmlDeviceGetUtilizationRates(gpu)), "gpu", "memory"
        ),
        "memory": parts(
            said(lambda: library.nvmlDeviceGetMemoryInfo(gpu)), "total", "free", "used"
        ),
        "fields": {
            str(field): _field(library, gpu, (field, scope))
            for field, scope in (
                (library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
                (library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
                (library.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
                (library.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
            )
        },
        "pcie": rates,
    }


def _field(library: Any, gpu: Any, field: tuple[int, int]) -> dict[str, Any]:
    (found,) = library.nvmlDeviceGetFieldValues(gpu, [field])
    known = found.nvmlReturn == library.NVML_SUCCESS
    value = int(getattr(found.value, VALUES[found.valueType])) if known else None
    return {"value": value, "type": int(found.valueType), "return": int(found.nvmlReturn)}


def main(arguments: list[str]) -> int:
    import pynvml

    name, *rest = arguments
    gpus = record(pynvml, int(rest[0]) if rest else 5)
    origin = f"Recorded by python -m tests.record_nvml on {time.strftime('%Y-%m-%d')}."
    text = json.dumps({"origin": origin, "gpus": gpus}, indent=1)
    (RECORDED / f"{name}.json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
