import torch
import torch.nn.functional as F

torch.manual_seed(3)
images, kinds = torch.rand(100, 9), torch.randint(0, 4, (100,))
tensors = {"hidden": torch.randn(9, 16) * 0.3, "shift": torch.zeros(16), "last": torch.zeros(16, 4)}
for tensor in tensors.values():
    tensor.requires_grad_(True)  # the last layer starts at zero and leaves it with the first step

optimizer = torch.optim.Adam(tensors.values(), lr=0.02)
for epoch in range(20):
    h = torch.relu(images @ tensors["hidden"] + tensors["shift"])
    loss = F.cross_entropy(h @ tensors["last"], kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
