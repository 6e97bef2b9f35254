"""A service whose leader wears a label, by which a Kubernetes Service finds it.

uvicorn --factory --host 0.0.0.0 --app-dir examples/kubernetes service:create_app
"""

import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import aiolead

LABEL = "example.org/leader"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def kubernetes() -> httpx.AsyncClient:
    """The API of the cluster that this pod is in."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    return httpx.AsyncClient(
        base_url=f"https://{host}:{port}",
        headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"},
        verify=ssl.create_default_context(cafile=ACCOUNT / "ca.crt"),
        timeout=2,
    )


class Leading:
    """The work of the leader, and its label."""

    def __init__(self, api: httpx.AsyncClient, pod: str) -> None:
        self._api = api
        self._pod = pod
        self._pods = f"/api/v1/namespaces/{os.environ.get('POD_NAMESPACE', 'default')}/pods"

    async def __call__(self, term: aiolead.Term) -> None:
        try:
            for other in await self._labelled():
                if other != self._pod:
                    await self._label(other, None)  # it was killed, and could not
            term.check()
            await self._label(self._pod, "true")
        except httpx.HTTPError as error:
            print(f"{self._pod} resigns: {error}", flush=True)
            await anyio.sleep(1)
            return
        try:
            print(f"{self._pod} leads, token {term.token}", flush=True)
            await anyio.sleep_forever()  # the work
        finally:
            # For less than the time that a term is wound down in: a tenth of the session timeout.
            with anyio.move_on_after(0.5, shield=True), contextlib.suppress(httpx.HTTPError):
                await self._label(self._pod, None)
            print(f"{self._pod} has stopped", flush=True)

    async def _labelled(self) -> list[str]:
        query = {"labelSelector": f"app=reports,{LABEL}=true"}
        answer = (await self._api.get(self._pods, params=query)).raise_for_status()
        return [pod["metadata"]["name"] for pod in answer.json()["items"]]

    async def _label(self, pod: str, value: str | None) -> None:
        answer = await self._api.patch(
            f"{self._pods}/{pod}",
            json={"metadata": {"labels": {LABEL: value}}},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        if answer.status_code != httpx.codes.NOT_FOUND:  # a pod that is gone wears nothing
            answer.raise_for_status()


def create_app(
    hosts: str | None = None, pod: str | None = None, api: httpx.AsyncClient | None = None
) -> Starlette:
    """The application; by default in the pod whose environment says so."""
    name = pod or os.environ["POD_NAME"]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, object]]:
        async with (
            api or kubernetes() as pods,
            aiolead.connect(hosts) as client,
            anyio.create_task_group() as tasks,
        ):
            election = aiolead.Election(client, "/examples/kubernetes", identity=name)
            tasks.start_soon(election.run, Leading(pods, name))
            yield {"client": client}
            tasks.cancel_scope.cancel()

    return Starlette(routes=[Route("/ready", ready), Route("/live", live)], lifespan=lifespan)


async def ready(request: Request) -> Response:
    """Whether the servers know of us, leading or not."""
    return Response(status_code=200 if request.state.client.healthy() else 503)


async def live(request: Request) -> Response:
    """Whether we still contend. A server that is away is nothing that a restart would mend."""
    return Response(status_code=503 if request.state.client.state.is_final else 200)
