"""Django as an ASGI application: it has no lifespan, so it is mounted in one that has."""

import contextlib
from collections.abc import AsyncIterator

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from starlette.applications import Starlette
from starlette.routing import Mount
from work import ELECTION, work

import aiolead

settings.configure(SECRET_KEY="of a test", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
django.setup()
urlpatterns: list[object] = []


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with aiolead.connect() as client:
        async with aiolead.Election(client, ELECTION).running(work(client)):
            yield


app = Starlette(routes=[Mount("/", get_asgi_application())], lifespan=lifespan)
