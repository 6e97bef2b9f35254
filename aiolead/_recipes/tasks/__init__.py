"""The task board: tasks for workers, their progress, and their results.

board          the public recipe
task           what is held: a task under a claim
board_view     all tasks with their states, live
results        waiting for results, and how many are kept
task_states    states and results
task_records   the data of claims and results

Claims are those of the queues, `_recipes.queues`.
"""
