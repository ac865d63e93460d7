"""Steps about one bookie: stop its collector, make or delete its cookie, rebuild its index."""

import json
import re
import shlex
from collections.abc import Iterator

from auditor.model.amounts import plural
from auditor.model.arrow import ds
from auditor.model.plan import Condition, Fact, PlanCommand, PlanStep, RefusalReason, RefusedStep, StepKind
from auditor.model.states import BookieRead, GcReason, IndexState
from auditor.plan.parts import (
    DO,
    EXPIRY_MS,
    LOOK,
    SAVE,
    UNDO,
    by_hand,
    file_name,
    listed_of,
    make_step,
    refuse,
    takes_bookie,
    typed,
)
from auditor.plan.situation import FindingGroups, Situation

Steps = Iterator[PlanStep | RefusedStep]

VERIFY, KEEP_FOREIGN = "verifyMetadataOnGC=true", "gcOverreplicatedLedgerWaitTime=0"
_SETTINGS = {GcReason.NAMED.value: VERIFY, GcReason.LAST_COPY.value: KEEP_FOREIGN}
DANGERS = ("metadata-suspect", "gc-would-delete-live", "alias-gc-danger")
INDEX_FAULTS = ("index-unreadable", "ledger-not-indexed")
_DATABASE = re.compile(r"/current/(ledgers|locations)(/|$)")
_FENCED = "all its ledgers come back fenced and without a master key"
_LONG = "it takes long, and what no entry log holds stays lost"
_STOPPED = "none of its copies can be read while it is stopped"


def stop_collection(now: Situation) -> Steps:
    """Bookies whose next collection deletes what is needed."""
    for bookie, groups in now.by_bookie(*DANGERS).items():
        about = f"keep {bookie} from collecting garbage: its next pass deletes needed data"
        if not groups.sure:
            way = "audit again; until then stop the bookie, where the cluster can spare it"
            yield _unsure(StepKind.STOP_GC, about, way, groups)
        elif bookie in now.serves_more:
            yield _serves_more(StepKind.STOP_GC, about, groups)
        else:
            yield _stop_collection(now, bookie, about, groups)


def _stop_collection(now: Situation, bookie: str, about: str, groups: FindingGroups) -> PlanStep:
    reasons = (
        groups["gc-would-delete-live"].evidence.get("reasons", ()) if "gc-would-delete-live" in groups else ()
    )
    lasting = "metadata-suspect" in groups or any(each not in _SETTINGS for each in reasons)
    settings = {_SETTINGS[each] for each in reasons if each in _SETTINGS}
    if "alias-gc-danger" in groups:
        settings.add(KEEP_FOREIGN)
    runs = now.bookies[bookie]["registered"] is not None
    commands = [by_hand(f"stop the bookie {bookie}", "ends its collector", "load")] if runs else []
    if settings:
        words = f"set {' and '.join(sorted(settings))} in its configuration"
        commands.append(by_hand(words, "its collector then deletes none of it", "writes"))
    if settings and not lasting:
        commands.append(by_hand(f"start {bookie}", "serves its copies again", "none"))
    effect = f"nothing that is needed is deleted on {bookie}"
    if settings:
        effect += "; an audit sees the setting with --bookie-conf FILE, and else finds this again"
    if lasting:
        effect += "; it stays stopped until the metadata, or its index, is right again"
    undo = "take the settings out, and restart it" if settings else "start it"
    return make_step(
        StepKind.STOP_GC, about, groups.named(), commands,
        bookie_id=bookie, effect=effect, risk=f"load; {_STOPPED}",
        undo=f"once an audit finds none of it: {undo}",
        expires=now.facts.scan_time + EXPIRY_MS,
        requires=groups.conditions("there"), done_when=groups.conditions("gone"),
    )  # fmt: skip


def make_cookies(now: Situation) -> Steps:
    """Registered bookies that the store has no cookie of."""
    for bookie, groups in now.by_bookie("cookie-missing").items():
        about, row = f"make the cookie of {bookie} again: without it it cannot restart", now.bookies[bookie]
        found = [each for each in _directories(now, bookie) if each["ledger_dirs"] and each["journal_dirs"]]
        said = {json.dumps([each["journal_dirs"], each["ledger_dirs"], each["index_dirs"]]) for each in found}
        instance = now.run.report.cluster.instance_id
        why, way = "", "audit with its directories (--bookies), or take them from its configuration"
        if not (row["named"] or row["found"]):
            why, way = "no ledger names it and no directory of it was found", "find out who registers it"
        elif len(said) != 1:
            why = f"its directories are not known: {plural(len(said), 'different VERSION file')} of it" + (
                " were read" if said else ""
            )
        elif instance is None:
            why, way = "the cluster has no instance id", "see instance-id-missing"
        if why:
            yield refuse(StepKind.COOKIE, RefusalReason.UNKNOWN_INPUT, about, why, way, groups.named())
        elif not takes_bookie(bookie):
            yield _not_by_shell(StepKind.COOKIE, about, groups)
        else:
            journals, ledgers, indexes = json.loads(said.pop())
            names = {"JOURNALS": journals, "LEDGERS": ",".join(ledgers), "INSTANCE": str(instance)}
            yield _cookie_step(now, bookie, about, groups, names, indexes)


def _cookie_step(
    now: Situation,
    bookie: str,
    about: str,
    groups: FindingGroups,
    names: dict[str, str],
    indexes: list[str] | None,
) -> PlanStep:
    blanks = {"BOOKIE": bookie, "FILE": file_name(bookie, "cookie"), **names}
    if indexes:
        blanks["INDEXES"] = ",".join(indexes)
    form = "cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE"
    return make_step(
        StepKind.COOKIE, about, groups.named(),
        [
            typed(LOOK, form, blanks, " -ix INDEXES" if indexes else ""),
            typed(DO, "cookie_create -cf FILE BOOKIE", blanks),
            typed(UNDO, "cookie_delete BOOKIE", blanks),
        ],
        bookie_id=bookie, effect="the store has its cookie, and the bookie can restart",
        risk="writes; a wrong cookie keeps the bookie from starting", undo="delete the cookie again",
        needs=[f"the file says what a VERSION of {bookie} says"],
        expires=now.facts.scan_time + EXPIRY_MS,
        requires=[Condition(Fact.COOKIE, bookie, "none"), Condition(Fact.REGISTERED, bookie, "yes")],
        done_when=[Condition(Fact.COOKIE, bookie, "yes")],
    )  # fmt: skip


def _directories(now: Situation, bookie: str) -> list[dict[str, list[str] | str | None]]:
    columns = ["journal_dirs", "ledger_dirs", "index_dirs"]
    found: list[dict[str, list[str] | str | None]] = now.run.table(
        "directories", columns, ds.field("owner") == bookie
    ).to_pylist()
    return found


def rebuild_indexes(now: Situation) -> Steps:
    """Bookies with a damaged index, by what of it is damaged and so by their storage."""
    found: dict[tuple[str, str], FindingGroups] = {}
    for row in now.asking(*INDEX_FAULTS):
        evidence = json.loads(row["evidence"])
        database = _DATABASE.search(evidence["path"])
        if row["id"] == "ledger-not-indexed":
            what = "ledgers"
        elif evidence["state"] == IndexState.MISPLACED:
            continue
        else:
            what = database[1] if database else ".idx"
        found.setdefault((row["bookie_id"], what), FindingGroups()).add(row)
        now.addressed[row["id"]] += 1
    for (bookie, what), groups in sorted(found.items()):
        about = (
            f"rebuild the index {'of ' if what != '.idx' else 'files ('}{what}{')' if what == '.idx' else ''}"
        )
        about += f" of {bookie} from its entry logs"
        if not groups.sure:
            yield _unsure(StepKind.REINDEX, about, "audit again", groups)
        elif bookie in now.serves_more:
            yield _serves_more(StepKind.REINDEX, about, groups)
        else:
            yield _rebuild(now, bookie, what, about, groups)


def _rebuild(now: Situation, bookie: str, what: str, about: str, groups: FindingGroups) -> PlanStep:
    commands: list[PlanCommand] = []
    if now.bookies[bookie]["registered"] is not None:
        commands.append(by_hand(f"stop the bookie {bookie}", "frees its index", "load"))
    blanks, each = {"BOOKIE": bookie}, what == ".idx"
    if each:
        form = "regenerate-interleaved-storage-index-file -l ID -password"
        blanks |= {"ID": str(groups.ledgers[0])} if len(groups.ledgers) == 1 else {}
        commands += [typed(LOOK, f"{form} ANY -dryRun", blanks), typed(DO, f"{form} PASSWORD", blanks)]
        undo = "put the old index file back"
    elif what == "ledgers":
        commands += [
            typed(LOOK, "check-db-ledgers-index", blanks),
            typed(DO, "rebuild-db-ledgers-index", blanks),
        ]
        undo = "move ledgers.PREV-TIME back in the place of current/ledgers, with the bookie stopped"
    else:
        commands.append(typed(DO, "rebuild-db-ledger-locations-index", blanks))
        undo = "move locations.BACKUP-TIME back in the place of current/locations, with the bookie stopped"
    commands.append(by_hand(f"start {bookie}", "serves its copies again", "none"))
    return make_step(
        StepKind.REINDEX, about, groups.named(), commands,
        bookie_id=bookie, effect="the bookie lists and serves what its entry logs hold",
        risk=f"danger; {_FENCED if what == 'ledgers' else _LONG}",
        undo=undo, needs=["a copy of its index directories", "commands are typed on its own host"],
        ledgers=listed_of(now.run, groups.ledgers) if each else (), ledger_count=groups.count if each else 0,
        expires=now.facts.scan_time + EXPIRY_MS,
        requires=groups.conditions("there"), done_when=groups.conditions("gone"),
    )  # fmt: skip


def retire_bookies(now: Situation) -> Steps:
    """Cookies of bookies that are gone: deleted where nothing names them, refused where ledgers do."""
    for bookie, groups in now.by_bookie("cookie-unused").items():
        about, row = f"delete the cookie of {bookie}, which no ledger names", now.bookies[bookie]
        copies = _last_copies(now, bookie)
        if not groups.sure or row["named"] or row["marked"]:
            yield _unsure(StepKind.RETIRE, about, "audit again", groups)
        elif copies:
            way = "audit with its disks (--bookies), and have these ledgers mended first"
            yield refuse(StepKind.RETIRE, RefusalReason.LAST_COPY, about, copies, way, groups.named())
        elif not takes_bookie(bookie):
            yield _not_by_shell(StepKind.RETIRE, about, groups)
        else:
            yield _retire(now, bookie, about, groups)
    for bookie, groups in now.by_bookie("bookie-down").items():
        about = f"delete the cookie of {bookie}, which is not registered"
        why = f"{plural(now.bookies[bookie]['ledgers'], 'ledger names', 'ledgers name')} it"
        way = f"bkaudit decommission {shlex.quote(now.run.path)} {bookie} says what its removal takes"
        yield refuse(StepKind.RETIRE, RefusalReason.NAMED, about, why, way, groups.named())


def _retire(now: Situation, bookie: str, about: str, groups: FindingGroups) -> PlanStep:
    blanks = {"BOOKIE": bookie, "FILE": file_name(bookie, "cookie")}
    return make_step(
        StepKind.RETIRE, about, groups.named(),
        [
            typed(SAVE, "cookie_get BOOKIE", blanks),
            typed(DO, "cookie_delete BOOKIE", blanks),
            typed(UNDO, "cookie_create -cf FILE BOOKIE", blanks),
        ],
        bookie_id=bookie, effect="no auditor takes it for a lost bookie, and its id can be given again",
        risk="writes; the bookie cannot start again without a new cookie",
        undo=f"what cookie_get printed between its lines ---, as {blanks['FILE']}, makes it again",
        needs=[f"{bookie} will not return"],
        expires=now.facts.scan_time + EXPIRY_MS,
        requires=[
            Condition(Fact.COOKIE, bookie, now.cookies[bookie]),
            Condition(Fact.REGISTERED, bookie, "no"),
            Condition(Fact.NAMED, bookie, "no"),
        ],
        done_when=[Condition(Fact.COOKIE, bookie, "none")],
    )  # fmt: skip


def _last_copies(now: Situation, bookie: str) -> str:
    """Why its disks may have copies that are nowhere else; empty: they have none."""
    counts = now.run.report.counts
    if now.bookies[bookie]["read"] != BookieRead.READ:
        lost = counts.get("entry-lost", 0) + counts.get("owner-dangling", 0)
        what = plural(lost, "ledger lacks entries or metadata", "ledgers lack entries or metadata")
        return f"{what}, and its disks, which may have them, were not read completely" if lost else ""
    rows = now.run.table(
        "gc_foresight", ["ledger_id"],
        (ds.field("scope_id") == 0)
        & (ds.field("bookie_id") == bookie)
        & (ds.field("reason") == GcReason.LAST_COPY.value),
    )  # fmt: skip
    return f"its disks have the last copy of entries of {plural(len(rows), 'ledger')}" if len(rows) else ""


def _unsure(kind: StepKind, about: str, way: str, groups: FindingGroups) -> RefusedStep:
    why = "what asks for it is suspected only, not confirmed"
    return refuse(kind, RefusalReason.UNSURE, about, why, way, groups.named())


def _serves_more(kind: StepKind, about: str, groups: FindingGroups) -> RefusedStep:
    why = "it serves entries that its disk lacks (index-incomplete): they are gone when it stops"
    way = "have these ledgers copied while it still runs: bkaudit explain check index-incomplete"
    return refuse(kind, RefusalReason.LAST_COPY, about, why, way, groups.named())


def _not_by_shell(kind: StepKind, about: str, groups: FindingGroups) -> RefusedStep:
    why = "the shell's cookie commands refuse an id that is not a host:port"
    way = "do it with the metadata store's own client"
    return refuse(kind, RefusalReason.NOT_BY_SHELL, about, why, way, groups.named())
