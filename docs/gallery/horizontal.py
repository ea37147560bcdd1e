"""Rows at each organisation: three hospitals with patients of their own."""

# %% [markdown]
# # Rows at each organisation
#
# Three hospitals measure the same two things, each of its own patients. Alone, each of them sees some of the
# groups only. Together they want the groups of all patients, and nobody shows a patient to anybody.

# %%
import numpy as np
from matplotlib.figure import Figure
from sklearn.cluster import KMeans

from coterie import SecureKMeans

rng = np.random.default_rng(1)
groups = [rng.normal(middle, (6, 4), size=(120, 2)) for middle in [(35, 110), (60, 130), (70, 165), (45, 150)]]
hospitals = [
    np.concatenate([groups[0][:100], groups[1][:20], groups[2][:10]]),
    np.concatenate([groups[0][100:], groups[1][20:], groups[3][:50]]),
    np.concatenate([groups[2][10:], groups[3][50:]]),
]
print([len(rows) for rows in hospitals])

# %% [markdown]
# The ranges of the columns are public, and they come from what is known about the columns, not from the data:
# an age lies between 0 and 120, a blood pressure between 50 and 260. A value outside is an error, never an
# overflow.

# %%
model = SecureKMeans(
    n_clusters=4, partition="horizontal", init="random", bounds=[(0, 120), (50, 260)], tol=0, random_state=12
).fit_parties(hospitals)
print(np.round(model.cluster_centers_, 1))
print(model.n_iter_, "iterations,", model.traffic_.rounds_per_iteration, "rounds each")

# %% [markdown]
# What they find together. No hospital has all of the groups; each has its own marker, the colours are the clusters.

# %%
figure = Figure(figsize=(6, 3.8), layout="constrained")
axes = figure.add_subplot(xlabel="age", ylabel="blood pressure")
labels = np.split(model.labels_, np.cumsum([len(rows) for rows in hospitals])[:-1])
for rows, own, marker in zip(hospitals, labels, "os^", strict=True):
    axes.scatter(*rows.T, s=14, c=[f"C{cluster}" for cluster in own], marker=marker, alpha=0.7, linewidths=0)
axes.plot(*model.cluster_centers_.T, "kP", markersize=11, markeredgecolor="white")
figure.set_label("Rows of three hospitals by age and blood pressure in four groups, with a centre in each.")

# %% [markdown]
# It started from random rows, whose numbers are public. The same start on the pooled rows, which nobody may have in
# earnest, gives the same labels. The centres agree to
# the precision of fixed point.

# %%
pooled = np.concatenate(hospitals)
reference = KMeans(4, init=pooled[model.init_rows_], n_init=1, algorithm="lloyd", tol=0).fit(pooled)
assert (reference.labels_ == model.labels_).all()
print("centres differ by at most", f"{np.abs(reference.cluster_centers_ - model.cluster_centers_).max():.0e}")

# %% [markdown]
# What was opened, and to whom. A label goes to the hospital that has the row.

# %%
for entry in model.disclosures_:
    if entry.iteration in (None, 1):
        print(f"{entry.what:9} {entry.detail:10} to {', '.join(entry.to)}")
