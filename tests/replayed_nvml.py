"""pynvml without a driver: recorded readings through the library's own structures and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pynvml

RECORDED = Path(__file__).resolve().parent / "data" / "nvml"


class ReplayedNvml:
    """Constants, structures and errors are pynvml's; readings come in order, then the last."""

    def __init__(self, name: str) -> None:
        self._gpus = json.loads((RECORDED / f"{name}.json").read_text())["gpus"]
        self._at = [-1] * len(self._gpus)
        self.is_open = False

    def __getattr__(self, name: str) -> Any:
        assert not name.startswith("nvml"), f"{name} would ask a driver"
        return getattr(pynvml, name)

    def nvmlInit(self) -> None:
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        """Every round of questions begins with it."""
        if not self.is_open:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if index >= len(self._gpus):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._at[index] = min(self._at[index] + 1, len(self._gpus[index]["readings"]) - 1)
        return index

    def _reading(self, gpu: int) -> dict[str, Any]:
        reading: dict[str, Any] = self._gpus[gpu]["readings"][self._at[gpu]]
        return reading

    def _said(self, gpu: int, what: str) -> Any:
        if (said := self._reading(gpu)[what]) is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return said

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return str(self._gpus[gpu]["name"])

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> Any:
        return pynvml.c_nvmlUtilization_t(**self._said(gpu, "utilization"))

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> Any:
        return pynvml.c_nvmlMemory_t(**self._said(gpu, "memory"))

    def nvmlDeviceGetPcieThroughput(self, gpu: int, way: int) -> int:
        return int(self._said(gpu, "pcie")[str(way)])

    def nvmlDeviceGetFieldValues(self, gpu: int, fields: list[Any]) -> Any:
        values = (pynvml.c_nvmlFieldValue_t * len(fields))()
        for value, field in zip(values, fields, strict=True):
            value.fieldId, value.scopeId = field if isinstance(field, tuple) else (field, 0)
            found = self._reading(gpu)["fields"][str(value.fieldId)]
            value.nvmlReturn, value.valueType = found["return"], found["type"]
            if found["value"] is not None:
                value.value.ullVal = found["value"]
        return values
