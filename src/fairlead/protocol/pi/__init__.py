"""The protocol of the pi family: pi, omp and xcsh. One JSON object a line, LF only."""
