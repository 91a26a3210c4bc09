"""The report of a traced run: one content, told as a page, as Markdown and as JSON."""
