"""``bkaudit demo``: an audit of a sample cluster in an embedded ZooKeeper. It needs no other server."""

from pathlib import Path
from typing import Any

import click

from auditor.cli.defaults import new_run
from auditor.cli.options import DEMO_OPTIONS, option_flags, options_from_flags, out_option
from auditor.cli.output import TextChoice, outputs, outputs_option, show
from auditor.cli.progress import shown_progress
from auditor.cli.verbosity import say, verbosity_options

UNEXPECTED_FINDINGS_EXIT_CODE = 1
CLOCK_NOTE = (
    "the run's clock is 25 hours ahead, because some faults in the new sample appear only after a day"
)


@click.command()
@out_option
@outputs_option
@click.option(
    "--all", "all_findings", is_flag=True, help="For text: print every finding, not only the first screen."
)
@verbosity_options
@option_flags(*DEMO_OPTIONS)
def demo(
    out: str | None, forms: tuple[str, ...], all_findings: bool, conf: Path | None, **flags: Any
) -> None:
    """Start a ZooKeeper with a sample cluster that has every kind of fault, audit it, and stop it.

    Exit codes: 0 the audit found exactly the known findings of the sample; 1 it did not.
    """
    options = options_from_flags(conf, flags)
    out = out or new_run()
    report_outputs = outputs(forms, out)
    from auditor.demo.sample import show as show_demo
    from auditor.notebook.run import open_run

    with shown_progress() as progress:
        outcome = show_demo(out, options, progress)
    say(f"the run is in {out}")
    say(CLOCK_NOTE)
    show(open_run(out), report_outputs, TextChoice(all_findings=all_findings, first_screen_only=True))
    for label, finding_keys in (
        ("not found", outcome.missing_findings),
        ("not known", outcome.unexpected_findings),
    ):
        for finding_key in finding_keys:
            click.echo(f"bkaudit: {label}: {' '.join(key_part or '-' for key_part in finding_key)}", err=True)
    if not outcome.has_expected_findings:
        raise click.exceptions.Exit(UNEXPECTED_FINDINGS_EXIT_CODE)
    say("the audit found exactly the findings that the sample should have")
