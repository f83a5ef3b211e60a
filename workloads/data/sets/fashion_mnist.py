"""Fashion-MNIST: pieces of clothing, in MNIST's format (Xiao, Rasul and Vollgraf 2017)."""

from functools import partial

from workloads.data.dataset import Dataset, Package, parse_files
from workloads.data.sets.mnist import read_idx_images

DATASET = Dataset(
    name="fashion-mnist",
    files=parse_files("""
c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888 47040016 train-images-idx3-ubyte
bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9    60008 train-labels-idx1-ubyte
5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b  7840016 t10k-images-idx3-ubyte
0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34    10008 t10k-labels-idx1-ubyte
"""),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    packages=(
        Package(
            registry="debian",
            name="dataset-fashion-mnist",
            folder="usr/share/datasets/fashion-mnist",
        ),
    ),
    usual_folder="FashionMNIST/raw",
    read=partial(read_idx_images, mean=0.2860, std=0.3530),
)
