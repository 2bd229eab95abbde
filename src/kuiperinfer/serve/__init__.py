"""A server for models: the Open Inference Protocol V2 over HTTP, with a page to look at. Needs the extra `serve`.

service = Service({"net": Path("net.pnnx.param")}, options=Options(max_batch=8))
serve(service, bind("127.0.0.1", 8000))                  # until a signal ends it
"""

from .options import Limits, Options

try:
    from .server import bind, serve
    from .service import Service
except ImportError as error:
    raise ImportError(
        f"kuiperinfer.serve needs {error.name}, which is not installed: pip install 'kuiperinfer[serve]'"
    ) from error

__all__ = ["Limits", "Options", "Service", "bind", "serve"]
