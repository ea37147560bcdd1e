"""A patchwork of cells: two registers overlap in a part of the rows and a part of the columns."""

# %% [markdown]
# # A patchwork of cells
#
# Sometimes neither rows nor columns lie with one organisation. Each party brings an array of the whole table's
# shape, with NaN for "not mine". Every cell has exactly one owner.

# %%
import numpy as np
from matplotlib.figure import Figure

from coterie import SecureKMeans

rng = np.random.default_rng(0)
table = np.concatenate([rng.normal(middle, 1, (60, 4)) for middle in [(0, 0, 6, 6), (6, 0, 0, 6), (6, 6, 0, 0)]])
owner = np.ones(table.shape, int)
owner[60:120, 2:] = 2  # of these rows the second party has two columns,
owner[120:] = 2  # of these all,
owner[150:, 0] = 3  # but for one column of the last, which a third party has
blocks = [np.where(owner == party, table, np.nan) for party in (1, 2, 3)]
for party, block in enumerate(blocks, start=1):
    print(f"P{party} holds {np.isfinite(block).sum()} cells")

# %%
figure = Figure(figsize=(4, 3.4), layout="constrained")
axes = figure.add_subplot(xlabel="column", ylabel="row", xticks=range(4), title="who holds which cell")
for party, block in enumerate(blocks):
    row, column = np.nonzero(np.isfinite(block))
    axes.scatter(column, row, s=60, c=f"C{party}", marker="_", linewidths=1.2, label=f"P{party + 1}")
axes.invert_yaxis()
axes.margins(x=0.1)
figure.legend(loc="outside right upper", frameon=False)
figure.set_label("A table of 180 rows and four columns: its cells in three colours, by the party that holds them.")

# %%
model = SecureKMeans(3, partition="mixed", bounds=[(-6, 12)] * 4, tol=0, random_state=1).fit_parties(blocks)
print(np.round(model.cluster_centers_, 1))
print(np.bincount(model.labels_))

# %% [markdown]
# A row's label goes to the parties that hold cells of it, and to nobody else. Who holds which cell is public:
# where that itself says something about a person (only a clinic has this column of that row), a patchwork is the
# wrong partition.

# %%
for entry in model.disclosures_:
    if entry.what == "labels":
        print(f"labels of {entry.detail} to {', '.join(entry.to)}")

# %% [markdown]
# However the cells lie, the result is the same, down to the last bit.

# %%
whole = SecureKMeans(3, partition="horizontal", bounds=[(-6, 12)] * 4, tol=0, random_state=1).fit(table)
assert (whole.cluster_centers_ == model.cluster_centers_).all()
assert (whole.labels_ == model.labels_).all()
print("equal to the fit on rows")
