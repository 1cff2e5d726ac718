"""`ranking serve`."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

import click

from ranking_cli.options import existing, kernel_option, threads_option

VARIABLE = "RANKING_TOKEN"
"""The environment variable with the token that requests must send."""

KEEP_ALIVE = 75
"""Seconds until an idle connection is closed; proxies keep theirs for 60."""


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="[NAME=]MODEL...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="The port; 0 uses any free port.",
)
@click.option(
    "--max-body",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Maximum size of a request in bytes.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.0, min_open=True),
    default=10.0,
    show_default=True,
    help="Time limit in seconds for the headers of a request, and for its answer.",
)
@click.option(
    "--token-file",
    type=existing,
    help="A file with the token that requests must send, instead of RANKING_TOKEN.",
)
@kernel_option
@threads_option
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    max_body: int,
    timeout: float,
    token_file: Path | None,
    kernel: str,
    threads: int,
) -> None:
    """Serve models over HTTP, until Ctrl-C or SIGTERM.

    POST /rank, /recommend, /similar and /explain take and return JSON with ids; GET /health,
    /metrics and /openapi.json. A model file that is replaced is read again. Requests must send the
    token of the environment variable RANKING_TOKEN or of --token-file, if there is one; an address
    that is not loopback needs one.

    \b
    ranking serve films.safetensors
    ranking serve search=words.safetensors films=films.safetensors --port 9000
    """
    try:
        import uvicorn

        from ranking_cli.serving.app import Limits, build_app
        from ranking_cli.serving.protocol import timed_protocol
    except ImportError as error:
        raise click.ClickException(
            "serving needs the packages starlette and uvicorn; install them with "
            "pip install 'ranking-kit[serve]'."
        ) from error
    from ranking_cli.serving.models import Models, ServedModel

    token = _token(token_file, host)
    served = [ServedModel(*_named(one), kernel, threads) for one in models]
    app = build_app(Models(served), Limits(max_body, timeout, token))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE,
        http=timed_protocol(timeout),
        ws="none",
    )
    server = uvicorn.Server(config)
    _announce(server, served)
    server.run()


def _token(token_file: Path | None, host: str) -> str:
    """Return the token that requests must send, or "" for none; only loopback needs none."""
    token = os.environ.get(VARIABLE, "")
    if token_file is not None:
        if not token_file.is_file():  # reading a FIFO would wait for a writer
            raise click.UsageError(f"{token_file} is not a regular file; name a file of a token.")
        token = token_file.read_text(encoding="utf-8", errors="replace").strip()
        if not token:
            raise click.UsageError(f"{token_file} is empty; write the token into it.")
    if not token and not _is_loopback(host):
        raise click.UsageError(
            f"--host {host} can be reached from other machines; set {VARIABLE} to a secret, "
            "name a --token-file, or listen on 127.0.0.1."
        )
    return token


def _named(argument: str) -> tuple[str, Path]:
    """Return name and path of NAME=PATH or PATH."""
    name, equals, rest = argument.partition("=")
    path = Path(rest if equals and not Path(argument).exists() else argument)
    if not path.is_file():
        raise click.UsageError(f"there is no model file {path}.")
    return (name if str(path) == rest else path.stem), path


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _announce(server: object, served: Sequence[object]) -> None:
    """Print the address when the server listens."""
    startup = server.startup  # type: ignore[attr-defined]

    async def announced(*args: object, **options: object) -> None:
        await startup(*args, **options)
        for listener in getattr(server, "servers", []):
            for socket in listener.sockets:
                host, port = socket.getsockname()[:2]
                click.echo(f"serving {len(served)} models at http://{host}:{port}", err=True)

    server.startup = announced  # type: ignore[attr-defined]
