"""Centres that nobody learns: each party keeps a share, and new rows are labelled together."""

# %% [markdown]
# # Centres that stay shared
#
# With `centers="shared"` the centres are not opened, not even at the end. Each party keeps its share, which alone
# is a random number. New rows are labelled by all parties together.

# %%
import numpy as np
from matplotlib.figure import Figure

from coterie import SecureKMeans
from coterie.errors import InputError

rng = np.random.default_rng(2)
middles = np.array([(2, 8), (8, 8), (5, 2)])
alice, bob = (rng.normal(middles[rng.integers(3, size=n)], 0.8) for n in (150, 90))
options = {"n_clusters": 3, "bounds": [(-5, 15)] * 2, "random_state": 4}
model = SecureKMeans(**options, centers="shared").fit_parties([alice, bob])
print("disclosed at the end:", sorted({entry.what for entry in model.disclosures_ if entry.iteration is None}))
print("has cluster_centers_:", hasattr(model, "cluster_centers_"))

# %% [markdown]
# What Alice and Bob keep. Added up, modulo 2^64, the shares are the centres; one of them says nothing.

# %%
shares = [kept["centers"]["words"] for kept in model.shares()]
print("Alice's share of the first centre:", shares[0][0].shape, shares[0].dtype)
opened = SecureKMeans(**options).fit_parties([alice, bob])
whole = (shares[0] + shares[1]).view(np.int64)
assert (whole == opened._whole_centers).all()  # for this demonstration only: nobody does that in earnest
print("together they are what a fit with revealed centres opens")

# %% [markdown]
# Prediction: each party brings its new rows, masked as in the fit; a label is opened to the row's owner. A party
# may bring none.

# %%
new = np.array([[2.2, 7.7], [5.1, 1.8]])
labels = model.predict_parties([new, np.empty((0, 2))])
assert (labels == opened.predict(new)).all()
print(labels)

# %%
figure = Figure(figsize=(5, 3.8), layout="constrained")
axes = figure.add_subplot(xlabel="first column", ylabel="second column")
rows = np.concatenate([alice, bob])
axes.scatter(*rows.T, s=12, c=[f"C{cluster}" for cluster in model.labels_], alpha=0.6, linewidths=0)
axes.scatter(*new.T, s=110, c=[f"C{cluster}" for cluster in labels], marker="*", edgecolors="black", zorder=3)
figure.set_label("Rows in three clusters without a centre, and two new rows as stars in the colour of their cluster.")

# %% [markdown]
# Local prediction needs the centres, and says so.

# %%
try:
    model.predict(new)
except InputError as error:
    print(error)
