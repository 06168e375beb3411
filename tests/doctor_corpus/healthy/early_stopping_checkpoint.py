import copy

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau


class Trainer:
    def __init__(self, model, patience=3):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=2e-2)
        self.sched = ReduceLROnPlateau(self.opt, factor=0.5, patience=2)
        self.best, self.best_state, self.bad, self.patience = float("inf"), None, 0, patience
        self.history = {"train": [], "val": []}

    def fit(self, train, val, epochs):
        for _ in range(epochs):
            self.model.train()
            for x, y in train:
                self.opt.zero_grad(set_to_none=True)
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.opt.step()
            self.history["train"].append(loss.item())
            score = self.score(val)
            self.sched.step(score)
            if score < self.best:
                self.best, self.bad = score, 0
                self.best_state = copy.deepcopy(self.model.state_dict())
            else:
                self.bad += 1
                if self.bad > self.patience:
                    break
        self.model.load_state_dict(self.best_state)

    @torch.inference_mode()
    def score(self, val):
        self.model.eval()
        return sum(nn.functional.mse_loss(self.model(x), y).item() for x, y in val) / len(val)


torch.manual_seed(41)
x = torch.rand(120, 3)
y = (x.sum(1, keepdim=True) * 2).sin()
batches = list(zip(x.split(20), y.split(20)))
t = Trainer(nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Dropout(0.05), nn.Linear(32, 1)))
t.fit(batches[:5], batches[5:], 12)
print(t.best)
