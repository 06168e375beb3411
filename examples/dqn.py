"""Deep Q-learning finds the way through a small maze by trial and error.

    python examples/dqn.py

A step costs a little, a pit ends the walk with a loss, the goal ends it with a win. The network gives the worth of
each of the four moves in a cell; a slow copy of it gives the worth of the cell that a move leads to.

prints

    after  50 walks   return -0.80   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    after 100 walks   return +0.86   >>>v>vvv
    after 150 walks   return +0.86   >>>v>vvv
    after 200 walks   return +0.86   >>>v>vvv
    steps to the goal: 8; the shortest way has 8
"""

import random
import sys
from collections import deque

import pellucid as torch

nn, F = torch.nn, torch.nn.functional

MAZE = [
    "S...#",  # start, wall
    ".#...",
    ".#.X.",  # pit
    "...#.",
    ".X..G",  # goal
]
SIZE = len(MAZE)
CELLS = {(row, column): MAZE[row][column] for row in range(SIZE) for column in range(SIZE)}
MOVES = {"^": (-1, 0), "v": (1, 0), "<": (0, -1), ">": (0, 1)}
DISCOUNT, LONGEST_WALK, SHORTEST_WAY = 0.95, 40, 8


def step(place: tuple, move: int) -> tuple[tuple, float, bool]:
    """Where the move leads, what it pays, and whether the walk ends there. Walls and borders stop a move."""
    down, right = list(MOVES.values())[move]
    wanted = (place[0] + down, place[1] + right)
    place = wanted if CELLS.get(wanted, "#") != "#" else place
    return place, {"G": 1.0, "X": -1.0}.get(CELLS[place], -0.02), CELLS[place] in "GX"


def as_input(places):
    """One-hot: a row with a single 1 for each place."""
    return F.one_hot(torch.tensor([row * SIZE + column for row, column in places]), SIZE * SIZE).float()


def best_move(network, place: tuple) -> int:
    with torch.no_grad():
        return network(as_input([place])).argmax().item()


def learn(network, slow, optimizer, batch: list) -> None:
    places, moves, rewards, next_places, ends = zip(*batch)
    with torch.no_grad():
        future = slow(as_input(next_places)).max(1).values * (1 - torch.tensor(ends).float())
    worth = network(as_input(places)).gather(1, torch.tensor(moves).view(-1, 1)).squeeze(1)
    loss = F.smooth_l1_loss(worth, torch.tensor(rewards) + DISCOUNT * future)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def walk(network, curiosity: float, remember=None) -> tuple[str, float]:
    """One walk from the start; with `remember`, each step is handed to it."""
    place, path, total = (0, 0), "", 0.0
    while len(path) < LONGEST_WALK:
        move = random.randrange(4) if random.random() < curiosity else best_move(network, place)
        next_place, reward, ends = step(place, move)
        if remember:
            remember((place, move, reward, next_place, ends))
        place, path, total = next_place, path + "^v<>"[move], total + reward
        if ends:
            break
    return path, total


def main() -> None:
    quick = "--quick" in sys.argv
    random.seed(0)
    torch.manual_seed(0)
    network, slow = (nn.Sequential(nn.Linear(SIZE**2, 32), nn.ReLU(), nn.Linear(32, 4)) for _ in range(2))
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    memory: deque = deque(maxlen=2_000)

    def remember(experience: tuple) -> None:
        memory.append(experience)
        if len(memory) >= 64:
            learn(network, slow, optimizer, random.sample(memory, 32))

    walks = 100 if quick else 200
    for count in range(1, walks + 1):
        walk(network, max(0.1, 1 - 1.5 * count / walks), remember)
        if count % 4 == 0:
            slow.load_state_dict(network.state_dict())
        if count % (walks // 4) == 0:
            path, total = walk(network, curiosity=0.0)
            print(f"after {count:3} walks   return {total:+.2f}   {path}")
    print(f"steps to the goal: {len(path)}; the shortest way has {SHORTEST_WAY}")


if __name__ == "__main__":
    main()
