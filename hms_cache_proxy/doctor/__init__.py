"""`hms-cache-proxy doctor`: checks everything that `serve` needs, and says how to fix what is wrong.

Job: collect the findings of metastores.py, database.py, bootstrap.py, security.py, peers.py and machine.py, and print
them. The checks use the proxy's own code for connecting, reading and judging. They change nothing. Owner: the command's
process.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.doctor.bootstrap import look_at_bootstrap
from hms_cache_proxy.doctor.database import look_at_database
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.doctor.machine import look_at_machine
from hms_cache_proxy.doctor.metastores import ask_metastores, judge_metastores
from hms_cache_proxy.doctor.peers import look_at_peers
from hms_cache_proxy.doctor.security import look_at_security
from hms_cache_proxy.plurals import counted

__all__ = ["Diagnosis", "Finding", "Severity", "diagnose", "look_at_database", "print_diagnosis"]

_MARKS = {
    Severity.OK: "[green]  ok   [/]",
    Severity.NOTE: "[blue] note  [/]",
    Severity.WARNING: "[yellow]warning[/]",
    Severity.ERROR: "[red bold] ERROR [/]",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`grant_script`: to be run by the owner of the metastore's database; empty if the account of store_url is as it
    should be, if no database is known, and for SQLite, which has no accounts."""

    findings: tuple[Finding, ...]
    grant_script: str

    @property
    def bad(self) -> bool:
        return any(finding.bad for finding in self.findings)

    def as_dict(self) -> dict[str, object]:
        findings = [finding.as_dict() for finding in self.findings]
        return {"ok": not self.bad, "findings": findings, "grant_script": self.grant_script}


def diagnose(config: Config) -> Diagnosis:
    """Check everything. A server that does not answer is waited for until its time-out. The embedded metastore runs
    only while its proxy does, so only its database is checked."""
    if config.embedded:
        config = config.with_embedded_store(paths.embedded_database(config))
    security = look_at_security(config)
    answers = ask_metastores(config)
    database, uuid, script = look_at_database(config)
    metastores = judge_metastores(config, answers, uuid)
    rest = (*look_at_bootstrap(config), *security, *look_at_peers(config), *look_at_machine(config))
    return Diagnosis((*metastores, *database, *rest), script)


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """Print the findings by subject, each with its advice below it, and the script at the end."""
    console = Console(highlight=False, soft_wrap=True)
    subject = ""
    for finding in diagnosis.findings:
        if finding.subject != subject:
            subject = finding.subject
            console.print(f"\n[bold]{escape(subject)}[/]")
        console.print(f"  {_MARKS[finding.level]}  {escape(finding.text)}")
        if finding.advice:
            console.print(f"           {escape(finding.advice)}", style="dim")
    console.print()
    if diagnosis.grant_script:
        console.print(
            "[bold]To create the account for store_url, run this as the owner of the metastore's database[/]\n"
        )
        console.print(escape(diagnosis.grant_script))
    errors = sum(finding.level is Severity.ERROR for finding in diagnosis.findings)
    warnings = sum(finding.level is Severity.WARNING for finding in diagnosis.findings)
    text = f"{_number(errors, 'error')}, {_number(warnings, 'warning')}"
    console.print(text, style="red" if errors else "green")


def _number(count: int, noun: str) -> str:
    return counted(count, noun) if count else f"no {noun}s"
