import torch

torch.manual_seed(9)
points = torch.rand(150, 2) * 2 - 1
height = (points[:, :1] ** 2 - points[:, 1:] ** 2) * 3

model = {
    "first": points.new_zeros(2, 14),  # BUG: zero-initialised
    "shift": points.new_zeros(14),
    "second": points.new_zeros(14, 1),
}
for name in model:
    model[name].requires_grad = True

for step in range(60):
    guess = torch.sigmoid(points @ model["first"] + model["shift"]) - 0.5
    cost = ((guess @ model["second"] - height) ** 2).mean()
    gradients = torch.autograd.grad(cost, list(model.values()))
    with torch.no_grad():
        for tensor, gradient in zip(model.values(), gradients):
            tensor.sub_(0.1 * gradient)
    if step % 20 == 0:
        print(step, cost.item())
