"""APScheduler 3 in threads: the scheduler blocks the main thread, and one job contends."""

import signal

from apscheduler.schedulers.blocking import BlockingScheduler
from thread_work import Contender

signal.signal(signal.SIGTERM, signal.default_int_handler)
contender = Contender()
scheduler = BlockingScheduler()
scheduler.add_job(contender.start)
try:
    scheduler.start()
except KeyboardInterrupt:
    raise SystemExit(130) from None
finally:
    contender.stop()
