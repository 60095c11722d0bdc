"""`hms-cache-proxy spark-package`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("spark-package")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def spark_package(directory: Path) -> None:
    """Write what spark-submit needs to DIR: this package as a zip, and a file to submit (docs/pipeline.md).

    spark-submit --py-files DIR/hms_cache_proxy.zip DIR/hms_cache_proxy_job.py snapshot publish --out URI ...
    """
    from hms_cache_proxy.pipeline import package

    for path in package.write(directory):
        click.echo(str(path))
