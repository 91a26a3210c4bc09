"""Answer one request as fast as the machine can: host array to host array, without copies, events or waits."""
