from ._classifier import MIClassifier as MIRegressor
