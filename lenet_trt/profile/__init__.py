"""The verb ``profile``: the recorders and what they trace."""
