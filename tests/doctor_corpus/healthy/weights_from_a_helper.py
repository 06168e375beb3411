import torch


def make(*shape):
    return (torch.randn(*shape) / shape[0] ** 0.5).requires_grad_()


torch.manual_seed(1)
encoder = [make(5, 10), make(10, 3)]
decoder = [make(3, 10), make(10, 5)]
reserve = make(10, 10)  # no optimizer holds it: it is for later
optimizer = torch.optim.Adam(encoder + decoder, lr=0.01)
data = torch.randn(64, 2) @ torch.randn(2, 5)
for epoch in range(30):
    code = torch.tanh(data @ encoder[0]) @ encoder[1]
    back = torch.tanh(code @ decoder[0]) @ decoder[1]
    loss = (back - data).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item(), reserve.shape)
