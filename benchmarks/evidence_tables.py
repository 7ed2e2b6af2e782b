"""Tables of the evidence benchmark, put apart before any of its shortcuts was tuned."""

# Looked at while the shortcuts were written.
TUNED = ("breast_cancer", "phoneme", "segment", "airfoil", "concrete", "diabetes")
# Run once, at the end.
UNSEEN = ("heart", "penbased", "spambase", "parkinsons", "winequality_white", "yacht")
