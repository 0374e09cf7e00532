"""
Locate an object from image labels
==================================

An image is a bag, and its patches are the instances. The label says whether something is in the image, and the model
shows where.
"""

# %%
# A photograph that comes with scikit-learn is cut at random into 120 pieces of 128 x 128 pixels. A piece is positive if a
# quarter of it or more belongs to the temple, and pieces that show less of it are left out. The model gets the labels of
# the pieces, and no positions.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

photograph, _ = load_sample_images().images
temple = np.zeros(photograph.shape[:2])
temple[40:420, 80:350] = 1
rng = np.random.default_rng(0)
corners = rng.integers([0, 0], [427 - 128, 640 - 128], size=(120, 2))
pieces = [photograph[r : r + 128, c : c + 128] for r, c in corners]
shown = np.array([temple[r : r + 128, c : c + 128].mean() for r, c in corners])
kept = np.flatnonzero((shown == 0) | (shown > 0.25))
y = (shown[kept] > 0).astype(int)
figure, axes = plt.subplots(2, 6, figsize=(9.0, 3.7), layout="constrained")
figure.suptitle("Pieces of a photograph with and without a temple")
for ax, piece in zip(axes.ravel(), kept, strict=False):
    ax.imshow(pieces[piece])
    ax.set_title("temple" if shown[piece] else "none", fontsize=9)
    ax.set_axis_off()

# %%
# Ten lines to a heat map
# -----------------------
# Images are cut into patches of 16 x 16 pixels. Their features are means and standard deviations of red, green and blue.
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC, Bags
from milearn.inspection import InstanceScoresDisplay
from milearn.preprocessing import InstanceTransformer


def bags_of_patches(images, size, step, features):
    blocks, corners = [], []
    for image in images:
        rows, columns = (range(0, side - size + 1, step) for side in image.shape[:2])
        corners.append([(x, y) for y in rows for x in columns])
        blocks.append(
            features(np.stack([image[y : y + size, x : x + size] for x, y in corners[-1]]))
        )
    return Bags.from_list(blocks, instance_data={"coords": corners})


def colours(patches):
    return np.hstack([patches.mean(axis=(1, 2)), patches.std(axis=(1, 2))])


def pixels(patches):
    return patches.reshape(len(patches), -1)


# sphinx_gallery_thumbnail_number = 2
X = bags_of_patches([pieces[piece] for piece in kept], 16, 16, colours)
model = make_pipeline(InstanceTransformer(StandardScaler()), MISVC()).fit(X, y)
whole = bags_of_patches([photograph], 16, 8, colours)
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="compressed")
axes[0].imshow(photograph)
InstanceScoresDisplay.from_estimator(
    model, whole, coordinates="coords", patch_size=16, limit=2.0, ax=axes[1]
)
axes[0].set_title("photograph")
axes[1].set_title("scores of its patches")
print(X)

# %%
# Orange roofs and red columns decide. Sky, water and most trees also occur in pieces without the temple and have low scores.
# The trees at the left edge do not: every piece that shows them also shows the temple, so the labels cannot tell them apart.
# This map is of the photograph from which the pieces are. How good is such a model on new images?
#
# New images
# ----------
# Pages of five digits at random positions, with noise. A page is positive if one of them is a zero. The digits of the test
# pages are not in the training pages. The features are the pixels, and patches overlap.
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

digits = load_digits()


def make_pages(n, pool):
    pages, y = rng.uniform(0, 2, size=(n, 40, 40)), np.arange(n) % 2
    zeros, others = pool[digits.target[pool] == 0], pool[digits.target[pool] != 0]
    for page, positive in zip(pages, y, strict=True):
        chosen = [rng.choice(zeros if positive and k == 0 else others) for k in range(5)]
        for cell, digit in zip(rng.permutation(9), chosen, strict=False):
            row, column = 13 * np.array(divmod(cell, 3)) + rng.integers(0, 6, size=2)
            page[row : row + 8, column : column + 8] += digits.images[digit]
    return pages, y


train_pages, y_train = make_pages(120, np.arange(1000))
test_pages, y_test = make_pages(80, np.arange(1000, 1797))
X_train, X_test = (bags_of_patches(pages, 8, 2, pixels) for pages in (train_pages, test_pages))
model = make_pipeline(InstanceTransformer(StandardScaler()), MISVC(kernel="linear", C=0.1))
scores = model.fit(X_train, y_train).decision_function(X_test)
print(f"AUC on new pages: {roc_auc_score(y_test, scores):.3f}")

# %%
# Three positive test pages with the deciding patch of each. The second page is missed: its score is just below
# zero, although the patch is the right one. The position of a patch is in its row of ``instance_data``.
figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.5), layout="constrained")
figure.suptitle("The deciding patches of three pages")
inner = model[:-1].transform(X_test)
corners = X_test.instance_data[["coords_0", "coords_1"]].to_numpy()[model[-1].witness(inner)]
for ax, page in zip(axes, np.flatnonzero(y_test)[:3], strict=True):
    ax.imshow(test_pages[page], cmap="gray_r")
    ax.add_patch(plt.Rectangle(corners[page] - 0.5, 8, 8, fill=False, color="#D55E00", lw=2))
    ax.set_title(f"score {scores[page]:.2f}", fontsize=10)
    ax.set_axis_off()
