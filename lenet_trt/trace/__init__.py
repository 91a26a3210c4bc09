"""Tell what ran and when: timelines, the readers of traces, the ledger of the time, and findings."""
