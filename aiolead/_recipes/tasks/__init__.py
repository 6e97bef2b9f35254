"""The task board: tasks announced to workers, their progress, and their results.

    states    how tasks stand, and what became of them
    records   what stands in claims and results
    task      what is held: a task under a claim
    results   waiting for results, and how many are kept
    view      all tasks and how they stand, live
    board     the public recipe

Claims are those of the queues, `_recipes.queues`.
"""
