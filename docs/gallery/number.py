"""Columns that count alike, and a number of clusters that is chosen in secret."""

# %% [markdown]
# # Scale and number
#
# Two clinics have patients of their own: age, systolic blood pressure, days in hospital. Two of three
# groups differ in days alone, which are small numbers with a wide range. Nobody has a mean or a variance of all
# rows, and nobody knows how many groups there are.

# %%
import numpy as np
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from coterie import SecureKMeans

rng = np.random.default_rng(3)
middles = np.array([(45, 125, 2.0), (45, 125, 9.0), (70, 145, 5.0)])
kind = rng.integers(3, size=400)
table = np.clip(middles[kind] + rng.normal(0, (6, 6, 0.8), (400, 3)), (0, 50, 0), (120, 260, 365))
clinics = [table[:230], table[230:]]
bounds = [(0, 120), (50, 260), (0, 365)]

# %% [markdown]
# `scale="bounds"` divides by the public ranges, in which the days hardly vary. `scale="standard"` divides by the
# standard deviation over all rows, which is worked out in secret. How well the clusters agree with the groups (1: the
# same, 0: by chance):

# %%
options = {"bounds": bounds, "random_state": 1}
for scale in ("bounds", "standard"):
    model = SecureKMeans(3, scale=scale, **options).fit_parties(clinics)
    print(f"{scale:9} {adjusted_rand_score(kind, model.labels_):.2f}")

# %% [markdown]
# The number of clusters, from a range: each is run and measured in secret, and only the best is opened. With
# `measures="revealed"` what each comes to is opened as well, here the mean silhouette; with `"secret"`, nothing but
# which was chosen. The clusters are the same.

# %%
options |= {"scale": "standard", "choose": "silhouette", "n_init": 2}
shown = SecureKMeans(range(2, 7), measures="revealed", **options).fit_parties(clinics)
print({k: round(value, 2) for k, value in shown.k_measures_.items()})
hidden = SecureKMeans(range(2, 7), measures="secret", **options).fit_parties(clinics)
print(hidden.n_clusters_, "clusters;", hidden.k_measures_)
assert (shown.labels_ == hidden.labels_).all()

# %%
figure = Figure(figsize=(5, 2.8), layout="constrained")
axes = figure.add_subplot(xlabel="number of clusters", ylabel="mean silhouette", xticks=list(shown.k_measures_))
axes.plot(list(shown.k_measures_), list(shown.k_measures_.values()), marker="o", color="C7")
axes.plot(shown.n_clusters_, shown.k_measures_[shown.n_clusters_], "C0D", markersize=10)
figure.set_label(f"The mean silhouette for 2 to 6 clusters; the highest, at {shown.n_clusters_}, is the one chosen.")

# %% [markdown]
# What was opened at the end, in the open and in secret:

# %%
for model in (shown, hidden):
    print([entry.what for entry in model.disclosures_ if entry.iteration is None])

# %% [markdown]
# Centres are in the units of the data, and the scales are those of the pooled rows, to 12 bits.

# %%
print(np.round(shown.cluster_centers_, 1))
print(np.round(shown.scales_, 2), np.round(table.std(axis=0), 2))

# %% [markdown]
# scikit-learn on the pooled rows, with `StandardScaler` and starts of its own:

# %%
scaled = StandardScaler().fit_transform(table)
pooled = KMeans(shown.n_clusters_, n_init=2, random_state=0).fit(scaled)
print(f"inertia {shown.inertia_:.1f} here, {pooled.inertia_:.1f} there;", end=" ")
print(f"agreement {adjusted_rand_score(pooled.labels_, shown.labels_):.2f}")
