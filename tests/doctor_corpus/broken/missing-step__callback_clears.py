"""A trainer with callbacks; one of them looks after the gradients."""
import torch
import torch.nn as nn


class Callback:
    def on_batch_start(self, trainer): ...

    def on_after_backward(self, trainer): ...

    def on_batch_end(self, trainer): ...


class GradientHygiene(Callback):
    def on_after_backward(self, trainer):
        trainer.optimizer.zero_grad()  # BUG: missing-step


class History(Callback):
    def __init__(self):
        self.values = []

    def on_batch_end(self, trainer):
        self.values.append(trainer.last_loss)


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        self.criterion = nn.MSELoss()
        self.last_loss = None

    def fire(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def train_batch(self, x, y):
        self.fire("on_batch_start")
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.fire("on_after_backward")
        self.optimizer.step()
        self.last_loss = loss.item()
        self.fire("on_batch_end")


torch.manual_seed(0)
history = History()
trainer = Trainer(nn.Sequential(nn.Linear(7, 20), nn.Tanh(), nn.Linear(20, 2)), [GradientHygiene(), history])
truth = torch.randn(7, 2) / 3
for _ in range(40):
    x = torch.randn(32, 7)
    trainer.train_batch(x, x @ truth)
print("start", history.values[0], "end", history.values[-1])
