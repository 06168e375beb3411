import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


def augment_and_encode(encoder, images):
    with torch.inference_mode():
        flipped = images.flip(-1)
        a = encoder(images)  # BUG: no-grad-region
        b = encoder(flipped)
    return a.clone(), b.clone()


encoder = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 8))
projector = nn.Linear(8, 4)
opt = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=1e-3)
for step in range(12):
    images = torch.rand(16, 1, 6, 6)
    a, b = augment_and_encode(encoder, images)
    za, zb = F.normalize(projector(a), dim=1), F.normalize(projector(b), dim=1)
    logits = za @ zb.t() / 0.2
    loss = F.cross_entropy(logits, torch.arange(16))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
