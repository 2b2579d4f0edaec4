"""One number as the fitness of a task, the higher or the lower the better."""

from hypothesis import strategies as st

from pace_async.fitness import Fitness, fitness_of

UP = fitness_of("maximize", 0.0, 1.0)
DOWN = fitness_of("minimize", 0.0, 1.0)
BOTH = (UP, DOWN)
either: st.SearchStrategy[Fitness] = st.sampled_from(BOTH)
