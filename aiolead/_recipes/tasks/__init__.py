"""The task board: tasks for workers, their progress, and their results.

board          the public recipe, and the live view of all tasks with their states
task           a task held under a claim, as those of `_recipes.queues`
results        waiting for results, and deleting old ones
task_records   states and results, and the data of claims and results
"""
