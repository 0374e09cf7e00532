"""MI-SVM and mi-SVM in the dual, and mi-SVM over rows.

MI-SVM over rows is in :mod:`..mi_svm_rows`.
"""
