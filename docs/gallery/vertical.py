"""Columns at each organisation: a bank and a shop know different things about the same customers."""

# %% [markdown]
# # Columns at each organisation
#
# A bank knows incomes and savings, a shop knows how often and for how much the same customers buy. The rows are
# the same customers in the same order (in a study an id column puts them in order).

# %%
import numpy as np
from matplotlib.figure import Figure

from coterie import SecureKMeans

rng = np.random.default_rng(5)
kind = rng.integers(3, size=300)
bank = np.array([(25_000, 4_000), (48_000, 30_000), (90_000, 12_000)])[kind] + rng.normal(0, (4_000, 3_000), (300, 2))
shop = np.array([(4, 35), (9, 20), (2, 150)])[kind] + rng.normal(0, (1, 6), (300, 2))
bounds = [(0, 200_000), (-20_000, 100_000), (-10, 40), (-50, 500)]

# %% [markdown]
# Incomes in the ten thousands would drown visits in single figures, so each party standardises its own columns, at
# home. Centres come back in the units of the data.

# %%
options = {"n_clusters": 3, "partition": "vertical", "bounds": bounds, "scale": "standard", "random_state": 4}
private = SecureKMeans(**options).fit_parties([bank, shop])
print(np.round(private.cluster_centers_).astype(int))

# %% [markdown]
# What each sees: its own two columns of the centres, and the labels of all customers.

# %%
figure = Figure(figsize=(7, 3.2), layout="constrained")
sides = (bank, ("income", "savings")), (shop, ("visits", "spent"))
for at, (rows, (x, y)) in enumerate(sides):
    axes = figure.add_subplot(1, 2, at + 1, title=("the bank", "the shop")[at], xlabel=x, ylabel=y)
    axes.scatter(*rows.T, s=10, c=[f"C{cluster}" for cluster in private.labels_], alpha=0.7, linewidths=0)
    axes.plot(*private.cluster_centers_[:, 2 * at : 2 * at + 2].T, "kP", markersize=10, markeredgecolor="white")
figure.set_label("Two scatter plots of the same customers: the bank's two columns, the shop's two, coloured alike.")

# %% [markdown]
# The bank learns its own two columns of the centres and the shop its own two. Every customer is a row of both, so
# both learn every label, at the end.

# %%
for entry in private.disclosures_:
    if entry.iteration is None:
        print(f"{entry.what:10} {entry.detail:10} to {', '.join(entry.to)}")

# %% [markdown]
# SVK-means (`labels="revealed"`) is faster, since each party updates its own columns in the clear. To do so it
# opens all labels to both parties *in every iteration*. Here it finds the same clusters.

# %%
revealed = SecureKMeans(**options, labels="revealed").fit_parties([bank, shop])
assert (revealed.labels_ == private.labels_).all()
for name, model in (("private", private), ("revealed", revealed)):
    openings = sum(entry.what == "labels" for entry in model.disclosures_)
    sent = sum(model.traffic_.bytes_sent.values())
    print(f"labels {name:8}  labels opened {openings} times, {model.n_iter_} iterations, {sent:,} bytes in all")
