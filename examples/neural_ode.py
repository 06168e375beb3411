"""A neural ordinary differential equation learns the law of motion of a spiral from points on it.

    python examples/neural_ode.py

The network is the right-hand side of dx/dt = f(x). Four calls of it make one Runge–Kutta step, twenty steps make a
path, and the gradient flows back through all of them.

prints

    step   1   loss 3.11647
    step 100   loss 0.00581
    step 200   loss 0.00071
    step 300   loss 0.00016
    step 400   loss 0.00008
    from a start it has not seen (. is the truth, o the model):




                   .o
                o
              o
              .
            o
           o
           .                                                 o
           o
                                                            .o
            o                                              o
             o
                o                                       o
                                                    .o
                    o   o                       .o
                            o    .o   .o   .o


    loss 3.116 -> 0.00008
"""

import sys

import pellucid as torch

nn, F = torch.nn, torch.nn.functional
STEPS, TIME_STEP = 20, 0.1
LAW = [[-0.1, 2.0], [-2.0, -0.1]]  # the truth: turns, and loses a tenth of its radius per second


def runge_kutta(law, place, step: float):
    """The classical step of fourth order."""
    first = law(place)
    second = law(place + step / 2 * first)
    third = law(place + step / 2 * second)
    fourth = law(place + step * third)
    return place + step / 6 * (first + 2 * second + 2 * third + fourth)


def path(law, starts):
    """The places at times 0, 0.1, … 2.0: (times, starts, 2)."""
    places = [starts]
    for _ in range(STEPS):
        places.append(runge_kutta(law, places[-1], TIME_STEP))
    return torch.stack(places)


def draw(observed, learned, width: int = 61, height: int = 21) -> str:
    """Truth as dots, the learned path as o."""
    grid = [[" "] * width for _ in range(height)]
    for places, mark in ((observed, "."), (learned, "o")):
        for x, y in places.tolist():
            column, row = round((x + 2.2) / 4.4 * (width - 1)), round((2.2 - y) / 4.4 * (height - 1))
            if 0 <= column < width and 0 <= row < height:
                grid[row][column] = mark
    return "\n".join("".join(line).rstrip() for line in grid)


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    law = torch.tensor(LAW)
    starts = 4 * torch.rand(16, 2) - 2
    observed = path(lambda place: place @ law.T, starts)

    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    losses = []
    for count in range(1, (40 if quick else 400) + 1):
        loss = F.mse_loss(path(model, starts), observed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if count == 1 or count % (10 if quick else 100) == 0:
            print(f"step {count:3}   loss {losses[-1]:.5f}")

    with torch.no_grad():
        unseen = torch.tensor([[2.0, 0.0]])
        truth, learned = path(lambda place: place @ law.T, unseen), path(model, unseen)
    print(f"from a start it has not seen (. is the truth, o the model):\n{draw(truth[:, 0], learned[:, 0])}")
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.5f}")


if __name__ == "__main__":
    main()
