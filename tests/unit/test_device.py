"""Devices: the CPU's behaviour, and that all code for CUDA is in one file."""

from __future__ import annotations

import ast
import inspect
import re
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from cluster.spec.experiment import Experiment
from cluster.spec.synthetic import PREFIX, parse
from tests.measuring import PROJECT
from workloads.comm.flat import FlatModel
from workloads.device import Device, open_device
from workloads.device.cuda import Cuda
from workloads.models.networks import MODELS
from workloads.models.synthetic import SyntheticNet
from workloads.optimizers import make_optimizer

CUDA = PROJECT / "workloads" / "device" / "cuda.py"
PACKAGES = ("cluster", "workloads", "analysis", "bench")


def test_the_cpu_runs_operations_synchronously() -> None:
    cpu = open_device("cpu")
    assert type(cpu) is Device
    assert cpu is open_device("cpu")
    began = time.perf_counter()
    start = cpu.mark()
    time.sleep(0.01)
    assert 0.01 <= cpu.seconds(start, cpu.mark()) <= time.perf_counter() - began
    model = nn.Linear(2, 2)
    assert cpu.data_parallel(model, 4) is model
    with cpu.side_stream(cpu.record_computed()):
        pass
    cpu.join_side_stream()
    cpu.synchronize()
    assert cpu.process_group_options() == {}


def test_cuda_overrides_every_function_of_the_cpu_with_its_parameters() -> None:
    def functions(of: type) -> dict[str, list[str]]:
        tree = ast.parse(Path(inspect.getfile(of)).read_text())
        (found,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == of.__name__]
        return {
            f.name: [a.arg for a in f.args.args]
            for f in found.body
            if isinstance(f, ast.FunctionDef) and not f.name.startswith("_")
        }

    assert functions(Cuda) == functions(Device)


def test_all_code_that_needs_cuda_is_in_one_small_module() -> None:
    """torch.cuda, device names and nn.DataParallel."""
    needs = re.compile(
        r"torch\.cuda|\.cuda\(|is_cuda|cudnn|nn\.DataParallel\(|torch\.device\(.cuda"
    )
    found = {
        path.relative_to(PROJECT).as_posix()
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*.py")
        if needs.search(path.read_text())
    }
    assert found == {"workloads/device/cuda.py"}
    assert len(CUDA.read_text().splitlines()) < 100
    assert "workloads/device/cuda.py" in (PROJECT / "docs" / "gpu.md").read_text()


INPUTS = {
    "mnist-cnn": (1, 28, 28),
    "mnist-bn": (1, 28, 28),
    "vgg11": (3, 32, 32),
    "resnet18": (3, 32, 32),
    "bert-minilm": (3, 16),
    "bert-base-cased": (3, 16),
    "gpt-tiny": (16,),
    "gpt-small": (16,),
    "synthetic:64k:4": (1,),
}


def test_tensors_of_two_devices_do_not_mix() -> None:
    """Without this the test below could not fail. The device `meta` exists on every machine."""
    with pytest.raises(RuntimeError, match="device"):
        torch.empty(2, device="meta") + torch.empty(2)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", INPUTS)
def test_a_step_of_every_model_stays_on_the_device_of_the_model(name: str, optimizer: str) -> None:
    with torch.device("meta"):
        made = SyntheticNet(parse(name)) if name.startswith(PREFIX) else MODELS[name]()
    flat = FlatModel(made)
    update = make_optimizer(Experiment(optimizer=optimizer, weight_decay=0.01), flat)
    kind = torch.long if name.startswith(("bert", "gpt")) else torch.float32
    outputs = made(torch.zeros(4, *INPUTS[name], dtype=kind, device="meta"))
    by_byte = INPUTS[name] if name.startswith("gpt") else ()
    labels = torch.zeros(4, *by_byte, dtype=torch.long, device="meta")
    functional.cross_entropy(outputs, labels).backward()
    update.step()
    assert outputs.device.type == "meta"
    assert {tensor.device.type for tensor in flat.state} == {"meta"}
    assert set(INPUTS) >= set(MODELS)
