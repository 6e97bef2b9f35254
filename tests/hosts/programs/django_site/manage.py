"""A Django site with a command that is to run once."""

import sys

from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(SECRET_KEY="of a test", INSTALLED_APPS=["jobs"])
execute_from_command_line(sys.argv)
