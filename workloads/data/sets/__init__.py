"""The data sets, one file each: files with checksums, sources, reader.

The data set NAME of cluster/spec/catalogue.py is the file NAME.py here, with _ for -, and its
DATASET. Readers import torch when they are called: the command line reads these files without it.
"""

import importlib

from cluster.spec import catalogue
from workloads.data.dataset import Dataset

DATASETS: dict[str, Dataset] = {
    name: importlib.import_module(f"{__name__}.{name.replace('-', '_')}").DATASET
    for name, facts in catalogue.DATASETS.items()
    if facts.gives != catalogue.NOTHING
}
