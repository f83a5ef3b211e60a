"""Readings of NVIDIA GPUs through NVML (package nvidia-ml-py), which only this module imports.

Every value is read by itself, and what a GPU or its driver does not have stays empty: laptops have
no NVLink, older drivers count no PCIe bytes, and neither should fail a run.
"""

import ctypes
from typing import Any

from cluster.spec.documents.records import GpuReading

ALL_LINKS = 2**32 - 1
"""Scope of a field: the sum over all NVLinks of a GPU."""
KIB, KB = 1024, 1000
VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of the library's union by value type."""
UNSIGNED_INT = VALUES.index("uiVal")
WRAP = 2**32
"""Where a 32-bit counter restarts at 0; more than one restart between two readings is not seen."""


class Nvml:
    """Readings by GPU number. `library` is pynvml, or a module with its interface."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._seen: dict[tuple[int, Any], int] = {}
        library.nvmlInit()

    def close(self) -> None:
        self._library.nvmlShutdown()

    def count(self) -> int:
        return int(self._library.nvmlDeviceGetCount())

    def read(self, index: int) -> GpuReading:
        """Read the GPU with this number in nvidia-smi; empty where there is none."""
        nvml = self._library
        gpu = self._ask("nvmlDeviceGetHandleByIndex", index)
        if gpu is None:
            return GpuReading()
        sent = self._count(index, gpu, nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES)
        received = self._count(index, gpu, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
        counts = sent is not None and received is not None
        return GpuReading(
            utilisation_percent=self._attribute("nvmlDeviceGetUtilizationRates", gpu, "gpu"),
            memory_bytes=self._attribute("nvmlDeviceGetMemoryInfo", gpu, "used"),
            pcie_sent_bytes=sent,
            pcie_received_bytes=received,
            # A rate takes 20 ms to read: only where bytes are not counted.
            pcie_sent_rate=None if counts else self._pcie_rate(gpu, "TX"),
            pcie_received_rate=None if counts else self._pcie_rate(gpu, "RX"),
            nvlink_sent_bytes=self._nvlink(index, gpu, "TX"),
            nvlink_received_bytes=self._nvlink(index, gpu, "RX"),
        )

    def _attribute(self, function: str, gpu: Any, name: str) -> int | None:
        found = self._ask(function, gpu)
        return None if found is None else int(getattr(found, name))

    def _pcie_rate(self, gpu: Any, direction: str) -> int | None:
        kind = getattr(self._library, f"NVML_PCIE_UTIL_{direction}_BYTES")
        found = self._ask("nvmlDeviceGetPcieThroughput", gpu, kind)
        return None if found is None else int(found) * KB

    def _nvlink(self, index: int, gpu: Any, direction: str) -> int | None:
        field = getattr(self._library, f"NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_{direction}")
        count = self._count(index, gpu, (field, ALL_LINKS))
        return None if count is None else count * KIB

    def _count(self, index: int, gpu: Any, field: int | tuple[int, int]) -> int | None:
        """A cumulative count; counters of 32 bits are continued when they restart."""
        found = self._field(gpu, field)
        if found is None or found.valueType != UNSIGNED_INT:
            return None if found is None else _value(found)
        seen = self._seen.get((index, field), 0)
        self._seen[index, field] = seen + (_value(found) - seen) % WRAP
        return self._seen[index, field]

    def _field(self, gpu: Any, field: int | tuple[int, int]) -> Any:
        """A field value, or None: the call may fail, and so may each field."""
        (found,) = self._ask("nvmlDeviceGetFieldValues", gpu, [field]) or (None,)
        return found if found and found.nvmlReturn == self._library.NVML_SUCCESS else None

    def _ask(self, function: str, *arguments: Any) -> Any:
        """The library's answer, or None where the GPU or its driver does not have it."""
        try:
            return getattr(self._library, function)(*arguments)
        except self._library.NVMLError:
            return None


def _value(found: Any) -> int:
    return int(getattr(found.value, VALUES[found.valueType]))


def open_nvml() -> Nvml | None:
    """NVML, or None without an NVIDIA driver or without pynvml."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")  # faster than the import where there is no driver
        import pynvml
    except (OSError, ImportError):
        return None
    try:
        return Nvml(pynvml)
    except pynvml.NVMLError:
        return None
