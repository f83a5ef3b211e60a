"""Where a worker computes: the CPU's half, and that all of the GPU's stands in one file."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path

import torch
from torch import nn

from tests.measuring import PROJECT
from workloads import device
from workloads.cuda import Cuda
from workloads.device import Cpu, Device, open_device

CUDA = PROJECT / "workloads" / "cuda.py"
PACKAGES = ("cluster", "workloads", "analysis", "bench")


def test_the_cpu_does_at_once_what_it_is_asked_for() -> None:
    cpu = open_device("cpu")
    assert isinstance(cpu, Cpu)
    assert cpu is open_device("cpu")
    start = cpu.mark()
    time.sleep(0.01)
    assert 0.01 <= cpu.seconds(start, cpu.mark()) < 1
    model = nn.Linear(2, 2)
    assert cpu.spread(model, 4) is model
    with cpu.aside(cpu.ready()):
        pass
    cpu.rejoin()
    cpu.settle()
    assert cpu.join_options() == {}


def test_both_have_every_function_with_the_same_parameters() -> None:
    def functions(of: type) -> dict[str, list[str]]:
        tree = ast.parse(Path(CUDA if of is Cuda else device.__file__).read_text())
        (found,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == of.__name__]
        return {
            f.name: [a.arg for a in f.args.args]
            for f in found.body
            if isinstance(f, ast.FunctionDef) and not f.name.startswith("_")
        }

    assert functions(Cpu) == functions(Cuda) == functions(Device)


def test_every_line_that_needs_cuda_stands_in_one_small_module() -> None:
    """torch.cuda, device names and nn.DataParallel; the one place that chooses says only the name."""
    needs = re.compile(
        r"torch\.cuda|\.cuda\(|is_cuda|cudnn|nn\.DataParallel\(|torch\.device\(.cuda"
    )
    found = {
        path.relative_to(PROJECT).as_posix()
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*.py")
        if needs.search(path.read_text())
    }
    assert found == {"workloads/cuda.py"}
    assert len(CUDA.read_text().splitlines()) < 100
    assert "workloads/cuda.py" in (PROJECT / "docs" / "gpu.md").read_text()


def test_a_model_on_the_meta_device_keeps_its_buffers_there() -> None:
    """Flat memory and kept buffers follow the tensors, whatever the device: meta is one that every machine has."""
    from workloads.flat import FlatModel
    from workloads.messages import kept_buffer

    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("meta")
    flat = FlatModel(model)
    assert {tensor.device.type for tensor in flat.state} == {"meta"}
    part = flat.parts[0]
    assert part.gradients.device.type == "meta"
    here = kept_buffer("test", 4, torch.float32, torch.device("cpu"))
    there = kept_buffer("test", 4, torch.float32, part.gradients.device)
    assert (here.device.type, there.device.type) == ("cpu", "meta")
