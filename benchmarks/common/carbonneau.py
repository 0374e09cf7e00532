"""Table 4 of the supplement of Carbonneau et al. 2018, to stand beside our own figures.

M.-A. Carbonneau, V. Cheplygina, E. Granger, G. Gagnon. Multiple instance learning: A survey of
problem characteristics and applications. Pattern Recognition 77, 2018. Ten ten-fold
cross-validations, every method tuned by inner folds; the folds are not ours. Accuracy in percent
and AUC times 100.
"""

from __future__ import annotations

SETS = ("musk1", "musk2", "elephant", "fox", "tiger")

# Accuracy on each of SETS, then AUC.
_PRINTED = """
MInD         90.1 92.4 86.8 63.1 82.0  95.6 96.3 92.1 66.9 87.8
EMD-kernel   87.0 90.7 88.3 63.2 85.2  95.2 97.5 95.0 68.0 92.6
MILES        84.7 87.6 79.5 68.2 83.4  93.9 94.4 88.2 73.9 89.3
RSIS-EoSVM   88.4 86.2 84.6 61.1 82.5  92.3 90.4 90.8 68.2 88.8
SI-SVM-TH    87.3 85.4 84.3 62.2 79.6  92.4 90.9 91.1 68.0 86.2
miGraph      86.4 75.0 81.1 61.0 75.5  86.9 77.5 88.2 62.6 81.5
SI-SVM       85.8 80.7 73.3 61.8 73.2  93.2 93.0 92.6 67.3 86.4
mi-SVM       85.5 79.9 74.8 62.2 72.6  94.5 92.6 92.2 64.3 84.8
NSK-SVM      85.2 76.8 79.0 57.4 74.0  91.9 75.1 85.3 63.4 79.7
MI-SVM       85.1 80.5 80.3 61.4 82.2  94.2 94.5 89.3 68.2 90.2
EM-DD        83.9 85.7 79.2 62.9 71.0  87.4 79.3 87.5 66.2 76.5
Citation-kNN 82.9 76.0 80.9 61.0 79.6  93.5 86.3 88.3 65.9 85.9
CCE          79.2 69.9 67.8 52.3 74.0  86.0 76.3 74.6 54.2 81.2
SI-kNN       77.7 69.0 65.6 52.9 69.8  90.8 84.4 89.2 63.3 83.3
BoW-SVM      64.2 60.5 58.2 49.6 57.7  65.1 55.9 63.5 50.0 61.3
MILBoost     56.5 61.4 75.8 51.0 76.1  54.5 67.5 88.9 63.0 87.3
"""
_CELLS = {name: [*map(float, cells)] for name, *cells in map(str.split, _PRINTED.split("\n")[1:-1])}
ACCURACY = {name: cells[:5] for name, cells in _CELLS.items()}
AUC = {name: cells[5:] for name, cells in _CELLS.items()}
