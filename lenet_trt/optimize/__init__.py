"""The verb ``optimize``: candidates, the loop that tries them, the gate that they pass, and what is left."""
