"""The models of rank.py, and the batches that a rank trains them on."""

import torch
import torch.nn.functional as F


class Given(torch.autograd.Function):
    """A backward pass without computation: each parameter's gradient is memory that is there."""

    @staticmethod
    def forward(ctx, gradients, *params):
        ctx.gradients = gradients
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        return (None, *ctx.gradients)


class Exchange(torch.nn.Module):
    """Nothing but parameters, of up to 4 MiB each. All of a rank's gradients are its number + 1."""

    def __init__(self, mib, rank):
        super().__init__()
        elements = int(mib * (1 << 18))
        sizes = [min(1 << 20, elements - begin) for begin in range(0, elements, 1 << 20)]
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(size)) for size in sizes
        )
        self.gradients = [torch.full((size,), float(rank + 1)) for size in sizes]

    def forward(self, x, y):
        return Given.apply(self.gradients, *self.weights)


class Many(torch.nn.Module):
    """Many small parameters: what a parameter costs in Python."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(400)))

    def forward(self, x, y):
        return self.layers(x).square().mean()


class Classifier(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, y):
        return F.cross_entropy(self.inner(x), y)


class Lenet(torch.nn.Sequential):
    def __init__(self):
        super().__init__(
            torch.nn.Conv2d(1, 6, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(6, 16, 5),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(400, 120),
            torch.nn.ReLU(),
            torch.nn.Linear(120, 84),
            torch.nn.ReLU(),
            torch.nn.Linear(84, 10),
        )


class Transformer(torch.nn.Module):
    """Reads 128 characters. Six layers of width 384 have 10.7 M parameters."""

    def __init__(self, layers, width, heads):
        super().__init__()
        self.embedding = torch.nn.Embedding(128, width)
        layer = torch.nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, 128)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.layers(self.embedding(x))).flatten(0, 1), y.flatten())


# Layers, width, heads; the parameters are some 10.7 M, 106.5 M and 5 k.
TRANSFORMERS = {
    "transformer": (6, 384, 6),
    "transformer-100m": (15, 768, 12),
    "transformer-tiny": (1, 12, 2),
}
MODELS = ("exchange", "many", "lenet", "resnet18", *TRANSFORMERS)


def model_and_batch(name, batch, mib, rank):
    """Returns a model of MODELS, which makes a loss of (x, y), and a rank's own x and y."""
    data = torch.Generator().manual_seed(rank)

    def images(channels, size):
        x = torch.randn(batch, channels, size, size, generator=data)
        return x, torch.randint(0, 10, (batch,), generator=data)

    if name == "exchange":
        return Exchange(mib, rank), (torch.zeros(1), torch.zeros(1))
    if name == "many":
        return Many(), (torch.ones(1, 4), torch.zeros(1))
    if name == "lenet":
        return Classifier(Lenet()), images(1, 28)
    if name == "resnet18":
        import torchvision

        return Classifier(torchvision.models.resnet18(num_classes=10)), images(3, 32)
    text = torch.randint(0, 128, (batch, 65), generator=data)
    return Transformer(*TRANSFORMERS[name]), (text[:, :-1], text[:, 1:])
