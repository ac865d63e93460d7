"""Examples of every command, which stand at the end of the command's help."""

import click

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "bkaudit demo",
        "bkaudit doctor --metadata zk://zk1:2181/ledgers --bookies /mnt/bookies",
        "bkaudit audit --metadata 'zk://zk1:2181;zk2:2181/ledgers' --bookies rpc:",
        "bkaudit explain run",
    ),
    "demo": ("bkaudit demo", "bkaudit demo --out runs/demo --format text --format html"),
    "doctor": (
        "bkaudit doctor --metadata 'zk://zk1:2181;zk2:2181/ledgers' --bookies rpc:",
        "bkaudit doctor --metadata zk://zk1:2181/ledgers --bookies /mnt/bookies",
    ),
    "audit": (
        "bkaudit audit --metadata zk://zk1:2181/ledgers --bookies /mnt/bookies",
        "bkaudit audit --metadata 'zk://zk1:2181;zk2:2181/ledgers' --bookies rpc:",
        "bkaudit audit --metadata dump:///saved.jsonl --bookies '/collected/*'",
    ),
    "watch": (
        "bkaudit watch runs --metadata zk://zk1:2181/ledgers --bookies rpc: --keep 100",
        "bkaudit watch --cluster prod-eu --interval 15m --listen :9418",
        "bkaudit watch --cluster prod-eu --format openmetrics=/var/lib/node/bk.prom",
    ),
    "scan": ("bkaudit scan --metadata etcd://etcd1:2379/ledgers --out runs/metadata",),
    "collect": ("bkaudit collect --bookies /mnt/bookies --out /collected/bk-a",),
    "dump": (
        "bkaudit dump 'zk://zk1:2181;zk2:2181/ledgers' metadata.jsonl.gz --without-secrets --rate-limit 2000",
        "bkaudit dump etcd://etcd1:2379/ledgers - | ssh audits 'cat > metadata.jsonl'",
    ),
    "status": ("bkaudit status /var/lib/bkaudit/runs --max-age 26",),
    "report": (
        "bkaudit report runs/A --severity critical --severity error",
        "bkaudit report runs/A --check 'entry-*' --bookie bk1:3181 --format csv",
        "bkaudit report runs/A --leaks --format csv > leaks.csv",
        "bkaudit report runs/A --accept 0123456789abcdef >> suppressions.toml",
        "bkaudit report runs/A --all | grep -w 'ledger 42'",
    ),
    "diff": ("bkaudit diff runs/A runs/B", "bkaudit diff runs/A runs/B --format jsonl"),
    "compare": (
        "bkaudit compare zk://zk1:2181/ledgers etcd://etcd1:2379/ledgers",
        "bkaudit compare zk-snapshot:///saved/version-2 dump:///saved/copy.jsonl",
        "bkaudit compare zk://zk1:2181/ledgers dump:///saved/oxia.jsonl "
        "--owners pulsar:zk://zk1:2181 pulsar:dump:///saved/broker.jsonl",
    ),
    "history": ("bkaudit history runs",),
    "space": ("bkaudit space runs/A", "bkaudit space runs/A --by ledger --top 50 --format csv"),
    "simulate": (
        "bkaudit simulate runs/A",
        "bkaudit simulate runs/A --lose rack /r1,/r2",
        "bkaudit simulate runs/A --any 2 bookie --format json",
        "bkaudit simulate runs/A --lose rack /r1 --table topics --format csv",
    ),
    "decommission": (
        "bkaudit decommission runs/A bk-7:3181",
        "bkaudit decommission runs/A bk-7:3181 bk-8:3181 --rate 20M --format json",
        "bkaudit decommission runs/A bk-7:3181 --format csv",
    ),
    "plan": (
        "bkaudit plan make runs/A --out plan.toml",
        "bkaudit plan show plan.toml | less",
        "bkaudit plan check plan.toml --metadata zk://zk1:2181/ledgers",
        "bkaudit plan check plan.toml --run runs/B",
    ),
    "plan make": ("bkaudit plan make runs/A --out plan.toml",),
    "plan show": ("bkaudit plan show plan.toml --format markdown",),
    "plan check": (
        "bkaudit plan check plan.toml --run runs/B",
        "bkaudit plan check plan.toml --metadata zk://zk1:2181/ledgers",
    ),
    "prune": (
        "bkaudit prune runs --keep-daily 7 --keep-weekly 5 --keep-last 3",
        "bkaudit prune runs --keep-daily 7 --suppressions suppressions.toml --yes",
    ),
    "conf": ("bkaudit conf show docs/getting-started.md | less",),
    "conf list": ("bkaudit conf list",),
    "conf show": (
        "bkaudit conf show audit.toml > audit.toml",
        "bkaudit conf show docs/getting-started.md | less",
    ),
    "conf path": ('spark-submit "$(bkaudit conf path jobs/audit.py)" --metadata URI --out RUN',),
    "explain": ("bkaudit explain run", "bkaudit explain ledger 42", "bkaudit explain check entry-lost"),
    "explain ledger": (
        "bkaudit explain ledger 42 --run runs/A",
        "bkaudit explain ledger --ledger-qualified-name 0000000000000000000000000000002a",
    ),
    "explain bookie": ("bkaudit explain bookie bk1:3181 --run runs/A",),
    "explain topic": ("bkaudit explain topic public/default/orders --run runs/A",),
    "explain run": ("bkaudit explain run runs/A",),
    "explain check": ("bkaudit explain check", "bkaudit explain check entry-lost"),
    "ledger": ("bkaudit ledger show 42 --metadata zk://zk1:2181/ledgers",),
    "ledger show": ("bkaudit ledger show 42 --metadata zk://zk1:2181/ledgers",),
    "ledger list": ("bkaudit ledger list --metadata dump:///saved/metadata.jsonl | head",),
    "decode": (
        "bkaudit decode index /mnt/bookies/bk1/ledgers0/current/0/2/2a.idx --entries",
        "bkaudit decode ledger-metadata - < znode.bin",
    ),
    "encode": ("bkaudit encode availability entries.txt --out entries.bp34",),
    "encode availability": (
        "bkaudit encode availability entries.txt --out entries.bp34",
        "bkaudit encode availability - --unfolded < entries.txt > entries.bp34",
    ),
    "help": ("bkaudit help explain ledger", "bkaudit help --man | man -l -"),
    "version": ("bkaudit version",),
}
"""Examples by the words of a command, such as "explain ledger". The empty key is the whole program."""


def with_examples(command: click.Command, command_path: str) -> click.Command:
    """Add examples to the end of the help of a command and of its subcommands. Return the command.

    The help of a group lists each subcommand with the whole first paragraph of the subcommand's help. Click
    alone would cut the paragraph. ``command_path`` has the words that call the command, such as "ledger
    show".
    """
    if isinstance(command, click.Group):
        for name, subcommand in command.commands.items():
            subcommand.short_help = " ".join((subcommand.help or "").partition("\n\n")[0].split())
            with_examples(subcommand, f"{command_path} {name}")
    if command_path in EXAMPLES:
        command.epilog = epilog(command_path)
    return command


def epilog(command_path: str) -> str:
    """Return the examples of a command, as the end of its help, in a form that click does not fold."""
    lines = "\n".join(f"  {example}" for example in EXAMPLES[command_path])
    return f"\b\nExamples:\n{lines}"
