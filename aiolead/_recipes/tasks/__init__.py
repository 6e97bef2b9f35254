"""The task board: tasks for workers, their progress, and their results.

board          the public recipe
task           a task held under a claim, as those of `_recipes.queues`
board_view     the live view of all tasks with their states
results        waiting for results, and deleting old ones
task_states    states and results
task_records   the data of claims and results
"""
