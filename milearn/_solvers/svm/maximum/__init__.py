"""MI-SVM and mi-SVM: bag scores are highest instance scores.

Each is solved in the dual over inner products of instances, or over rows in a few passes.
"""
