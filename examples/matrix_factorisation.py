"""Matrix factorisation guesses how people would rate films they have not seen.

    python examples/matrix_factorisation.py

Each person and each film gets a vector and a bias; a rating is the product of the vectors plus the biases. The
ratings are made up by the same rule plus noise of 0.3, which is therefore the best error that any model can reach.

prints

    epoch  5   error on known ratings 0.414, on hidden ones 0.479
    epoch 10   error on known ratings 0.295, on hidden ones 0.328
    epoch 15   error on known ratings 0.300, on hidden ones 0.333
    error on hidden ratings: constant guess 1.13 -> 0.33
"""

import sys

import pellucid as torch

nn, F = torch.nn, torch.nn.functional
TASTES, NOISE = 4, 0.3


class Factors(nn.Module):
    def __init__(self, people: int, films: int):
        super().__init__()
        self.person, self.film = nn.Embedding(people, TASTES), nn.Embedding(films, TASTES)
        self.person_bias, self.film_bias = nn.Embedding(people, 1), nn.Embedding(films, 1)
        self.mean = nn.Parameter(torch.zeros(1))
        for table in (self.person, self.film, self.person_bias, self.film_bias):
            nn.init.normal_(table.weight, std=0.4)

    def forward(self, people, films):
        agreement = (self.person(people) * self.film(films)).sum(1)
        return self.mean + agreement + (self.person_bias(people) + self.film_bias(films)).squeeze(1)


def make_ratings(people: int, films: int, count: int):
    """`count` ratings as three columns: person, film, rating."""
    who, what = torch.randint(0, people, (count,)), torch.randint(0, films, (count,))
    tastes, traits = torch.randn(people, TASTES), 0.5 * torch.randn(films, TASTES)
    liking = 0.4 * torch.randn(films)
    rating = 3.5 + (tastes[who] * traits[what]).sum(1) + liking[what] + NOISE * torch.randn(count)
    return who, what, rating


def root_mean_square(model, who, what, rating) -> float:
    with torch.no_grad():
        return F.mse_loss(model(who, what), rating).item() ** 0.5


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    people, films, count = (60, 40, 4_000) if quick else (400, 200, 30_000)
    ratings = make_ratings(people, films, count)
    cut = count * 9 // 10
    known, hidden = [column[:cut] for column in ratings], [column[cut:] for column in ratings]

    model = Factors(people, films)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2, weight_decay=0.02)
    constant_guess = hidden[2].std().item()
    epochs = 15
    for epoch in range(1, epochs + 1):
        for chosen in torch.randperm(cut).split(100 if quick else 256):
            who, what, rating = (column[chosen] for column in known)
            loss = F.mse_loss(model(who, what), rating)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 5 == 0:
            seen, unseen = root_mean_square(model, *known), root_mean_square(model, *hidden)
            print(f"epoch {epoch:2}   error on known ratings {seen:.3f}, on hidden ones {unseen:.3f}")
    print(f"error on hidden ratings: constant guess {constant_guess:.2f} -> {unseen:.2f}")


if __name__ == "__main__":
    main()
