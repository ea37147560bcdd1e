"""Revealed counts, and what they tell; and what centres tell without them."""

# %% [markdown]
# # Revealed counts, and what they tell
#
# `counts="revealed"` opens the sizes of the clusters to the data parties in every iteration, as the paper suggests for
# speed. With the default protocol it saves nothing: it takes a round more. And it changes what is disclosed:

# %%
import numpy as np
from matplotlib.figure import Figure

from coterie import SecureKMeans

rng = np.random.default_rng(4)
alice = np.concatenate([rng.normal((2, 2), 0.5, (40, 2)), rng.normal((8, 8), 0.5, (25, 2))])
bob = np.concatenate([rng.normal((2, 2), 0.5, (30, 2)), [[8.31, 7.52]]])  # one row of Bob's is with Alice's group
options = {"n_clusters": 2, "bounds": [(0, 10)] * 2, "init": [[1.0, 1.0], [9.0, 9.0]], "tol": 0}

secret = SecureKMeans(**options).fit_parties([alice, bob])
revealed = SecureKMeans(**options, counts="revealed").fit_parties([alice, bob])
for name, model in (("secret", secret), ("revealed", revealed)):
    opened = [(entry.what, entry.iteration) for entry in model.disclosures_]
    print(f"counts {name:9}", opened)
print("rounds an iteration:", secret.traffic_.rounds_per_iteration, "and", revealed.traffic_.rounds_per_iteration)
print("sizes:", revealed.counts_)

# %% [markdown]
# The result itself says something, and with counts it says more. Alice knows the centre and the size of a cluster,
# and her own rows in it. What remains are Bob's rows in it. In the second cluster that is *one* row.

# %%
mine = revealed.labels_[: len(alice)]  # the labels of her own rows, which Alice learns
bobs_count = revealed.counts_[1] - (mine == 1).sum()
bobs_sum = revealed.counts_[1] * revealed.cluster_centers_[1] - alice[mine == 1].sum(axis=0)
print("Bob has", bobs_count, "row there; it is", np.round(bobs_sum / bobs_count, 2))
assert np.allclose(bobs_sum / bobs_count, bob[-1], atol=0.01)

# %%
figure = Figure(figsize=(5, 3.8), layout="constrained")
axes = figure.add_subplot(xlabel="first column", ylabel="second column")
axes.scatter(*alice.T, s=14, label="Alice's rows", alpha=0.7, linewidths=0)
axes.scatter(*bob.T, s=18, marker="^", label="Bob's rows, which she does not see", alpha=0.7, linewidths=0)
axes.plot(*(bobs_sum / bobs_count), "ko", markersize=13, markerfacecolor="none", label="what Alice works out")
figure.legend(loc="outside lower center", frameon=False)
figure.set_label("Rows of Alice and Bob in two groups. The one row of Bob's among Alice's is ringed: she has found it.")

# %% [markdown]
# No protocol was broken: this is what a centre and a size *mean* to somebody who holds the other rows. With more
# organisations Alice learns the sum over all others.
#
# Without the sizes she has one unknown whole number for each cluster. She may try them all. Where the columns are
# whole numbers, such as ages in years, a centre is a fraction whose denominator is the size, and it is opened with
# 16 binary places. For clusters of some hundred rows that is enough to tell the size:

# %%
years = [np.round(rng.normal((35, 110), (8, 9), size=(rows, 2))) for rows in (150, 120)]
pressed = [np.round(rng.normal((65, 160), (8, 9), size=(rows, 2))) for rows in (75, 40)]
whole = [np.concatenate(both) for both in zip(years, pressed, strict=True)]
model = SecureKMeans(2, bounds=[(0, 120), (50, 260)], init=[[35, 110], [65, 160]], tol=0).fit_parties(whole)
assert "counts" not in {entry.what for entry in model.disclosures_}

sizes = np.arange(1, sum(map(len, whole)) + 1)
for center in model.cluster_centers_:
    total = sizes[:, None] * center  # a sum of whole numbers, if the size is right
    fits = (np.abs(total - np.round(total)) <= sizes[:, None] * 2.0**-16).all(axis=1)
    print("possible sizes:", sizes[fits])
print("true sizes:    ", np.bincount(model.labels_))

# %% [markdown]
# So keep counts secret, and do not count on that alone. Studies have [output rules](../output-rules.md): a cluster is
# opened only if of others than each party at least ten rows are in it, and means are rounded where a column has a
# resolution. Bob's row stays with Bob, and every size of at least ten stays possible:

# %%
rules = {"least_cluster_size": 10, "sizes": "rounded"}
ruled = SecureKMeans(**options, **rules).fit_parties([alice, bob])
print("closed:", ruled.suppressed_)
assert ruled.suppressed_.tolist() == [False, True]

model = SecureKMeans(
    2,
    bounds=[(0, 120), (50, 260)],
    init=[[35, 110], [65, 160]],
    tol=0,
    resolution={"x0": 1, "x1": 1},
    **rules,
).fit_parties(whole)
half = 0.1  # of a step of the grid, and more: the least power of two above 1 / 10
for center in model.cluster_centers_:
    low, high = np.ceil(sizes[:, None] * (center - half)), np.floor(sizes[:, None] * (center + half))
    fits = (low <= high).all(axis=1)
    print(f"possible sizes from 10 on: {fits[9:].sum()} of {len(sizes) - 9}")
    assert fits[9:].all()
print("sizes, rounded:", model.sizes_)

# %% [markdown]
# [The guide for data-protection officers](../data-protection.md) goes on from here.
