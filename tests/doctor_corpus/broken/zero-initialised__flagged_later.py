import torch
import torch.nn.functional as F

torch.manual_seed(7)
inputs = torch.randn(120, 3)
labels = (inputs.prod(dim=1) > 0).long()


class Brain:
    def __init__(self, sizes):
        self.weights, self.biases = [], []
        for a, b in zip(sizes, sizes[1:]):
            table = torch.empty(a, b)
            table.data.fill_(0.0)  # BUG: zero-initialised
            self.weights.append(table)
            self.biases.append(torch.zeros(b))

    def trainable(self):
        everything = self.weights + self.biases
        for tensor in everything:
            tensor.requires_grad_()
        return everything

    def __call__(self, x):
        for w, b in zip(self.weights[:-1], self.biases[:-1]):
            x = torch.tanh(x @ w + b)
        return x @ self.weights[-1] + self.biases[-1]


brain = Brain([3, 12, 2])
optimizer = torch.optim.SGD(brain.trainable(), lr=0.3, momentum=0.5)
for epoch in range(20):
    loss = F.cross_entropy(brain(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
