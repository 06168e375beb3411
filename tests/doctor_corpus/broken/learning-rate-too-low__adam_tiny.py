import torch
import torch.nn as nn

torch.manual_seed(0)


class Fitter:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-9)  # BUG: learning-rate-too-low

    def fit(self, x, y, epochs=40):
        for epoch in range(epochs):
            loss = nn.functional.mse_loss(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if epoch % 10 == 0:
                print(epoch, loss.item())


x = torch.linspace(-3, 3, 100).unsqueeze(1)
Fitter().fit(x, torch.sin(x))
