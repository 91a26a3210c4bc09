"""The verb ``report``: where the time of a traced run went, as a page, as Markdown and as JSON."""
