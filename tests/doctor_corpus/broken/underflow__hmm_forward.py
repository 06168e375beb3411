import torch

# forward algorithm of an HMM without log-space
torch.manual_seed(0)
T, S = 400, 4
emit_logits = torch.randn(S, 8, requires_grad=True)
trans_logits = torch.randn(S, S, requires_grad=True)
obs = torch.randint(0, 8, (T,))
opt = torch.optim.Adam([emit_logits, trans_logits], lr=0.05)
for it in range(3):
    A = trans_logits.softmax(1)
    B = emit_logits.softmax(1)
    alpha = torch.full((S,), 1.0 / S)
    for t in range(T):
        alpha = (alpha @ A) * B[:, obs[t]]  # BUG: underflow
    loss = -alpha.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
