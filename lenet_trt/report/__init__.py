"""Show where the time of a traced run went, as a page, as Markdown and as JSON: the verb ``report``."""
