#!/usr/bin/env python3
"""Trains a recommender with NumPy alone: embeddings of users and items, and a layer above.

  strata run -n 4 recommender.py
  strata run -n 4 --nodes 2 --mode async recommender.py --epochs 20

Ratings are made up: each user and item has hidden tastes, and a rating says how well they agree.
What the model explains of their variance is reported as `explained`: 0 by guessing the mean, 1 at
best.
"""

import argparse
import os

import numpy as np

import strata


def make_up(users, items, count, seed=1, tastes=4):
    """Returns (user, item) pairs and their ratings, the same on every rank."""
    random = np.random.default_rng(seed)
    of_users = random.normal(size=(users, tastes))
    of_items = random.normal(size=(items, tastes))
    pairs = np.stack(
        [random.integers(users, size=count), random.integers(items, size=count)], axis=1
    )
    ratings = np.tanh((of_users[pairs[:, 0]] * of_items[pairs[:, 1]]).sum(1) / 2)
    return pairs, ratings.astype("f4")


def first_params(users, items, width, hidden):
    random = np.random.default_rng(int(os.environ.get("STRATA_SEED", "1")))

    def normal(*shape, scale):
        return (scale * random.normal(size=shape)).astype("f4")

    return {
        "user": normal(users, width, scale=0.3),
        "item": normal(items, width, scale=0.3),
        "w1": normal(3 * width, hidden, scale=(3 * width) ** -0.5),
        "b1": np.zeros(hidden, "f4"),
        "w2": normal(hidden, scale=hidden**-0.5),
        "b2": np.zeros((), "f4"),
    }


def forward(w, pairs):
    """Returns the ratings that the weights give, and what the backward pass needs."""
    user, item = w["user"][pairs[:, 0]], w["item"][pairs[:, 1]]
    x = np.concatenate([user, item, user * item], axis=1)
    hidden = np.maximum(x @ w["w1"] + w["b1"], 0)
    return hidden @ w["w2"] + w["b2"], (user, item, x, hidden)


def backward(w, pairs, error, saved):
    """Returns the gradients of the mean of error² / 2."""
    user, item, x, hidden = saved
    error = error / len(error)
    at_hidden = np.outer(error, w["w2"]) * (hidden > 0)
    at_user, at_item, at_product = np.split(at_hidden @ w["w1"].T, 3, axis=1)
    gradients = {name: np.zeros_like(w[name]) for name in ("user", "item")}
    np.add.at(gradients["user"], pairs[:, 0], at_user + at_product * item)
    np.add.at(gradients["item"], pairs[:, 1], at_item + at_product * user)
    gradients["w1"], gradients["b1"] = x.T @ at_hidden, at_hidden.sum(0)
    gradients["w2"], gradients["b2"] = hidden.T @ error, error.sum()
    return gradients


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--ratings", type=int, default=200000)
    parser.add_argument("--width", type=int, default=16, help="numbers in an embedding")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=256, help="ratings of each rank in a step")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()

    pairs, ratings = make_up(args.users, args.items, args.ratings)
    seen, unseen = slice(0, -args.ratings // 10), slice(-args.ratings // 10, None)
    params = first_params(args.users, args.items, args.width, args.hidden)
    sampler = strata.Sampler(len(ratings[seen]), shuffle=True)
    steps = args.epochs * (len(sampler) // args.batch)
    optimizer = strata.Adam(lr=args.lr)

    with strata.Session(
        params, optimizer, samples_per_epoch=len(ratings[seen]), total_steps=steps
    ) as session:
        step = 0
        for epoch in strata.epochs(args.epochs):
            sampler.set_epoch(epoch)
            order = np.fromiter(sampler, int)
            for first in range(0, len(order) - args.batch + 1, args.batch):
                optimizer.lr = args.lr * (1 - step / steps)
                batch = order[first : first + args.batch]
                weights = session.weights()
                guesses, saved = forward(weights, pairs[batch])
                error = guesses - ratings[batch]
                gradients = backward(weights, pairs[batch], error, saved)
                session.step(gradients, samples=len(batch), loss=float((error**2).mean()))
                step += 1
            error = forward(session.weights(), pairs[unseen])[0] - ratings[unseen]
            explained = 1 - float((error**2).mean() / ratings[unseen].var())
            strata.report(explained=explained)
            if session.rank == 0:
                print(
                    f"epoch {epoch + 1}: explains {explained:.3f} of the variance of unseen ratings"
                )


if __name__ == "__main__":
    main()
