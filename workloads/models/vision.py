"""VGG-11 and ResNet-18 for CIFAR-10: images of 32 x 32 pixels, with batch norm.

Both have the layers of torchvision's networks, except the first and last ones, which expect 224 x
224 pixels there. Tensors have torchvision's names and shapes, so that weights can be copied.
"""

from torch import Tensor, nn
from torch.nn import functional

VGG11 = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)
"""Channels of each convolution; 0 is a pooling that halves the image."""


class Vgg11(nn.Module):
    """The layers of torchvision's vgg11_bn, then one dense layer: 9,231,114 parameters.

    Five poolings leave one pixel of 512 channels, where vgg11_bn has three dense layers for 7 x 7.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for channels in VGG11:
            if channels:
                convolution = nn.Conv2d(before, channels, kernel_size=3, padding=1)
                layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
                before = channels
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(before, classes)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(images).flatten(1))
        return scores


class Block(nn.Module):
    """Two convolutions and a shortcut: torchvision's BasicBlock."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample: nn.Module | None = None
        if stride != 1 or before != channels:
            projection = nn.Conv2d(before, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(x)) + shortcut, inplace=True)


class ResNet18(nn.Module):
    """torchvision's resnet18 with a first convolution of 3 x 3, stride 1, and no pooling after it.

    11,173,962 parameters: 7,680 fewer than resnet18(num_classes=10), which begins with 7 x 7.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        scores: Tensor = self.fc(x.mean((2, 3)))
        return scores
