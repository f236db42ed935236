"""A factory that can be named on a command line."""

from __future__ import annotations

from tests.scripted import Step, World, agent

from refold.core.agent import Agent

WORLD = World()


def make() -> Agent:
    """Give an agent that reads, writes and is done."""
    return agent([Step(("read", "write")), Step()], WORLD)
