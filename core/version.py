"""The version, as a literal: the build reads it from here and `refold --version` needs nothing else."""

__version__ = "0.1.0"
