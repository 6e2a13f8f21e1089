"""``schedlab compare``: which differences are real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._given import given, need
from schedlab.cli._numbers import ITERATIONS_MAX, Finite
from schedlab.cli._output import (
    Column,
    limit_option,
    print_json,
    print_note,
    print_table,
    print_title,
    print_wrapped,
)

if TYPE_CHECKING:
    from schedlab.comparison.table import Row, Settings, Table
    from schedlab.stats import Correction, Statistic

SHAPES = ("table", "markdown", "csv", "json", "schedtests", "mmtests")

# What nothing but a comparison has: a baseline, a middle of each side, a verdict.
OF_A_COMPARISON = ("--report", "--reboots", "--max-regression", "--base", "--statistic")

# A change of less or more is nothing that is measured, and its square no number.
PERCENT_MIN, PERCENT_MAX = 1e-6, 1e6

# No table has more rows.
ROWS_MAX = 1_000_000_000


class Percent(click.ParamType[float]):
    """A percentage, with or without its sign."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read ``2%`` or ``2``."""
        if isinstance(value, float):
            return value
        try:
            found = float(str(value).strip().removesuffix("%"))
        except ValueError:
            self.fail(f"{value!r} is no percentage; write 2%", param, ctx)
        if found and not PERCENT_MIN <= found <= PERCENT_MAX:
            self.fail(f"{value!r} is out of range; write 2%", param, ctx)
        return found


PERCENT = Percent()


@click.command
@click.argument("inputs", nargs=-1, metavar="BASE [OTHER ...]")
@click.option("--base", metavar="LABEL", help="The baseline; the first label by default.")
@click.option(
    "--statistic", type=click.Choice(["mean", "median"]), default="mean", show_default=True
)
@click.option(
    "--paired/--unpaired",
    default=None,
    help="Pair by iteration; by default where the labels took turns.",
)
@click.option(
    "--margin",
    type=PERCENT,
    metavar="PERCENT",
    help="Changes within it are no matter; 2% or what --max-regression says.",
)
@click.option("--significance", type=Finite(0, 0.5, min_open=True), default=0.05, show_default=True)
@click.option(
    "--correction",
    type=click.Choice(["holm", "bh", "none"]),
    default="holm",
    show_default=True,
    help="Of p for the number of rows.",
)
@click.option(
    "--max-regression",
    type=PERCENT,
    metavar="PERCENT",
    help="Exit with 1 if a row is shown to be worse, and by more than this.",
)
@click.option(
    "--better",
    type=click.Choice(["higher", "lower"]),
    help="For figures of which neither the file nor the unit tells.",
)
@click.option(
    "--runs",
    type=click.IntRange(2, ITERATIONS_MAX),
    default=5,
    show_default=True,
    help="Behind each mean of a published table that does not say.",
)
@click.option("--power", is_flag=True, help="Plan: how many iterations show a change.")
@click.option("--effect", type=PERCENT, metavar="PERCENT", help="With --power: the change to find.")
@click.option(
    "--std", type=PERCENT, metavar="PERCENT", help="With --power: the spread, instead of a file's."
)
@click.option(
    "--rows",
    type=click.IntRange(1, ROWS_MAX),
    help="With --power: rows of the table to be, for correction.",
)
@click.option(
    "--chance",
    type=Finite(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Of settling a row with the iterations that are proposed.",
)
@click.option(
    "--reboots",
    is_flag=True,
    help="What spread from boot to boot would explain; a page with --format markdown.",
)
@click.option("--format", "shape", type=click.Choice(SHAPES), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--report",
    type=OUT_FILE,
    help="Write the comparison as an HTML page, too.",
)
@limit_option
@click.pass_context
def command(context: click.Context, /, *, limit: int, **options: Any) -> None:
    """Compare benchmark results with a baseline, and say which differences are real.

    Inputs are CSV files (columns benchmark, case, metric, unit, better, kernel, iteration, value),
    what bench parse writes, stores that bench run fills, and folders of published tables (mean and
    std %). The column kernel holds the label; words that are no paths choose labels, the baseline
    first.

    Every row gets the change with its confidence interval, p corrected for the number of rows, and
    a verdict: improved, regressed, equivalent (shown to be within the margin), or inconclusive,
    with the iterations that would settle it.
    """
    as_json = options["as_json"] or options["shape"] == "json"
    _check(options, limit=limit)
    if options["power"]:
        _plan(options, as_json=as_json)
        return
    if not options["inputs"]:
        raise click.UsageError("name the results to compare: a CSV file, a store, or two of them")
    table = _table(options)
    if options["report"] is not None:
        from schedlab.comparison.page import write  # noqa: PLC0415 - few calls want it

        write(table, options["report"])
    if options["reboots"] and options["shape"] == "markdown":
        from schedlab.comparison.reanalysis import page  # noqa: PLC0415 - as above

        names = " ".join(options["inputs"])
        command_line = f"schedlab compare {names} --reboots --format markdown"
        click.echo(page(table, command_line), nl=False)
    elif options["reboots"]:
        from schedlab.cli.reboots import print_reboots  # noqa: PLC0415 - as above

        print_reboots(table, as_json=as_json, limit=limit)
    elif as_json:
        from schedlab.comparison.words import table_dict  # noqa: PLC0415 - `--help` needs none

        print_json(table_dict(table))
    elif options["shape"] == "table":
        print_comparison(table, limit=limit)
    else:
        from schedlab.comparison.shapes import SHAPES as WRITERS  # noqa: PLC0415 - as above

        click.echo(WRITERS[options["shape"]](table), nl=False)
    _judge_exit(context, table, options["max_regression"])


def _check(options: dict[str, Any], *, limit: int) -> None:
    """Refuse options of which one would be without effect."""
    shape = options["shape"]
    if options["as_json"] and given("--format") and shape != "json":
        raise click.UsageError(f"--json and --format {shape} are two shapes; give one of them.")
    if options["reboots"] and shape not in {"table", "json", "markdown"}:
        raise click.UsageError(f"--reboots prints a table, JSON or markdown, and no {shape}.")
    if given("--limit") and limit and shape not in {"table", "json"}:
        raise click.UsageError(f"--format {shape} has every row; leave --limit out.")
    if not options["power"]:
        need("--effect", "--std", "--rows", what="--power")
    elif options["effect"] == 0:
        raise click.UsageError("--effect is 0, which no iterations find; give more, such as 2%.")
    elif wrong := given(*OF_A_COMPARISON):
        raise click.UsageError(f"--power plans and compares nothing; leave {wrong[0]} out.")
    elif given("--std") and options["inputs"]:
        raise click.UsageError("--std stands in place of results; give one of them.")
    elif shape not in {"table", "json"}:
        raise click.UsageError(f"--power prints a table or JSON; leave --format {shape} out.")


def _table(options: dict[str, Any]) -> Table:
    from schedlab.comparison.read import read  # noqa: PLC0415 - as above
    from schedlab.comparison.table import tabulate  # noqa: PLC0415 - as above

    results = read(options["inputs"], runs=options["runs"], better=options["better"])
    return tabulate(results, _settings(options))


def _settings(options: dict[str, Any]) -> Settings:
    from schedlab.comparison.table import Settings  # noqa: PLC0415 - as above
    from schedlab.stats import Rules  # noqa: PLC0415 - as above

    limit = options["max_regression"]
    margin = options["margin"]
    if margin is None:
        margin = 2.0 if limit is None else limit
    return Settings(
        rules=Rules(
            margin_pct=margin,
            significance=options["significance"],
            correction=cast("Correction", options["correction"]),
            power=options["chance"],
        ),
        statistic=cast("Statistic", options["statistic"]),
        paired=options["paired"],
        base=options["base"],
    )


def _judge_exit(context: click.Context, table: Table, limit: float | None) -> None:
    if limit is None:
        return
    worse = table.regressions(limit)
    if worse:
        names = ", ".join(f"{row.case.name} ({row.other.label})" for row in worse[:3])
        more = f" and {len(worse) - 3} more" if len(worse) > 3 else ""  # noqa: PLR2004 - a line's worth
        print_note(f"worse by more than {limit:g} %: {names}{more}")
        context.exit(1)
    still_open = [
        row
        for row in table.rows
        if row.compared.verdict == "inconclusive" and row.case.better is not None
    ]
    if still_open:
        print_note(f"{len(still_open)} rows leave open whether they are worse by {limit:g} %")


def print_comparison(table: Table, *, limit: int = 0) -> None:
    """Print a comparison for people."""
    from schedlab.comparison import shapes, words  # noqa: PLC0415 - as above

    print_title(f"{', '.join(table.others)} against {table.base}")
    several = len(table.others) > 1
    print_table(_columns(table, several=several), _cells(table.rows, table), limit=limit)
    if table.geomeans:
        click.echo()
        print_table(_columns(table, several=several), _cells(table.geomeans, table), limit=limit)
    click.echo(words.counts(table))
    print_wrapped(words.settings_text(table), indent=2)
    notes = shapes.notes(table)
    for note in notes[: limit or None]:
        print_wrapped(f"- {note}", indent=2)
    if limit and len(notes) > limit:
        click.echo(f"- ... {len(notes) - limit} more notes; --limit 0 shows all")
    if table.provenance.get("warning"):
        print_wrapped(f"- {table.provenance['warning']}", indent=2)
    for text in table.unread[: limit or None]:
        print_note(text)
    if limit and len(table.unread) > limit:
        print_note(f"... {len(table.unread) - limit} more that could not be compared")


def _cells(rows: Any, table: Table) -> list[dict[str, str]]:
    from schedlab.comparison import words  # noqa: PLC0415 - as above

    found: list[Row] = list(rows)
    return [words.row_cells(row, table) for row in found]


def _columns(table: Table, *, several: bool) -> list[Column]:
    confidence = f"{100 * (1 - table.settings.rules.significance):g} %"
    corrected = {"holm": "p Holm", "bh": "p BH", "none": ""}[table.settings.rules.correction]
    value = table.settings.statistic
    columns = [
        Column("case", "case", numeric=False),
        Column("other", "kernel", numeric=False) if several else None,
        Column("base_middle", table.base, spare=2, most=24),
        Column("base_std", "std %", spare=4),
        Column("middle", value if several else table.others[0], spare=2, most=24),
        Column("std", "std %", spare=4),
        Column("unit", "unit", numeric=False, spare=3),
        Column("n", "n", spare=3),
        Column("effect", "change %"),
        Column("interval", f"{confidence} interval", spare=1),
        Column("bootstrap", "bootstrap BCa", spare=5),
        Column("p", "p", spare=5),
        Column("p_corrected", corrected, spare=1) if corrected else None,
        Column("verdict", "verdict", numeric=False),
    ]
    return [column for column in columns if column is not None]


def _plan(options: dict[str, Any], *, as_json: bool) -> None:
    from schedlab.comparison.planning import CHANGES_PCT, Plan, plan, spreads  # noqa: PLC0415 - as above

    changes = list(CHANGES_PCT) if options["effect"] is None else [options["effect"]]
    if options["std"] is not None:
        cases = [("any", options["std"])]
    elif options["inputs"]:
        from schedlab.comparison.read import read  # noqa: PLC0415 - as above

        cases = spreads(read(options["inputs"], runs=options["runs"], better=options["better"]))
    else:
        raise click.UsageError("--power needs results to take the spread from, or --std 2%")
    if not cases:
        raise Refusal("no case has two values, so nothing tells of the spread; give --std")
    rules = _settings(options).rules
    rows = options["rows"] or len(cases)
    found: list[Plan] = [plan(name, std, changes, rows, rules) for name, std in cases]
    if as_json:
        print_json(
            {
                "rows": [each.as_dict() for each in found],
                "significance": rules.significance,
                "power": rules.power,
                "table_rows": rows,
            }
        )
        return
    print_title(f"Iterations of each label to find a change with {100 * rules.power:g} % chance")
    print_table(
        [
            Column("name", "case", numeric=False),
            Column("std", "std %"),
            *(Column(f"{change:g}", f"{change:g} %") for change in changes),
            Column("equivalent", f"equivalent within {rules.margin_pct:g} %"),
        ],
        [each.cells() for each in found],
    )
    how = (
        "no correction" if rules.correction == "none" or rows == 1 else f"corrected for {rows} rows"
    )
    click.echo(f"two-sided, significance {rules.significance:g}, {how}; unpaired")
