"""``harness run``: agents compete on tasks, and the record is published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.exit_codes import INFRASTRUCTURE, INTERRUPTED, OK
from harness.cli.options import (
    Above,
    Near,
    Span,
    color_on,
    counted,
    device_option,
    discover,
    format_option,
    make_executor,
    plural,
    results_option,
    root_option,
    split_names,
    terminal_width,
)

if TYPE_CHECKING:
    from harness.agents.load import LoadedAgent
    from harness.runs.events import EventLog
    from harness.runs.plan import RunConfig
    from harness.runs.replay import Recorded
    from harness.spec.content import Content

DEFAULT_ATTEMPTS = 8


@click.command()
@click.option("--agent", "agents", multiple=True, metavar="A,B:key=value",
              help="Agents, e.g. eager,search:sampler=random.")
@click.option("--tasks", multiple=True, metavar="A,B", help="Tasks: names, patterns such as 'soft*', or YAML files.")
@click.option("--suite", metavar="NAME", help="All tasks of a suite instead of --tasks.")
@click.option("--seed", type=int, default=0, show_default=True, help="Randomness of the agents (never of the judge).")
@click.option("--budget", metavar="attempts=N,seconds=S", help="For each agent on each task; finals come on top.")
@click.option("--finals", type=click.IntRange(1), default=1, show_default=True,
              help="Candidates per task that get a final.")
@click.option("--half-width", type=Above(0, 1), default=0.03, show_default=True,
              help="95 % interval aimed at, ± relative.")
@click.option("--instances", type=Span(2), default="8:24", show_default=True, metavar="FIRST[:MOST]",
              help="Fresh processes of each side in a final, until the half-width is reached.")
@click.option("--depth", type=Near(("final", "screen")), default="final", show_default=True,
              help="screen leaves the finals out: quick, and no score.")
@click.option("--no-compile-opponent", is_flag=True, help="Time against eager only, not torch.compile.")
@click.option("--unsafe", is_flag=True,
              help="Run candidates of agents that are not trusted even where this system contains nothing.")
@device_option
@click.option("--run-id", metavar="ID", help="Name of the run; one that exists already is continued.")
@click.option("--resume", metavar="RUN", help="Continue a run by its id, or the last one: last.")
@click.option("--dry-run", is_flag=True, help="Print what would be run, and run nothing.")
@results_option
@click.option("--leaderboard", type=click.Path(path_type=Path),
              help="Where to build the pages. Default: .harness/leaderboard.")
@root_option
@format_option("table", "json", "csv", "md")
@click.pass_context
def run(ctx: click.Context, root: Path | None, resume: str | None, run_id: str | None, dry_run: bool, form: str,
        results: Path | None, leaderboard: Path | None, **chosen: Any) -> int:
    """Let agents compete on tasks and publish the record.

    \b
    harness run --agent eager,search --tasks matmul,softmax
    harness run --agent search:sampler=random,as=dice --suite smoke --budget attempts=16
    harness run --resume last
    """
    from harness.runs.events import EventLog, find_run, new_run_id, runs_folder
    from harness.spec.errors import GauntletError

    content = discover(root)
    if resume is not None:
        _refuse_with_resume(ctx)
        log = EventLog.open(find_run(content.base, resume))
        with log:
            config = _recorded_config(log)
            return _carry_out(log, config, load(config, content), content, root, results, leaderboard, form)
    config, agents = configure(content, **chosen)
    if dry_run:
        from harness.cli.plan import print_plan

        print_plan(config, agents, content, form)
        return OK
    identifier = run_id or new_run_id()
    from harness.runs.record import portable_name

    if portable_name(identifier) != identifier:
        raise GauntletError(f"--run-id {identifier!r} cannot name a folder; use letters, digits, '-', '_' and '.'")
    folder = runs_folder(content.base) / identifier
    with EventLog.open(folder) if (folder / "events.jsonl").exists() else EventLog.create(folder) as log:
        return _carry_out(log, config, agents, content, root, results, leaderboard, form)


def _refuse_with_resume(ctx: click.Context) -> None:
    """A resumed run takes everything that decides its outcome from its log."""
    from click.core import ParameterSource

    free = {"resume", "results", "leaderboard", "root", "form"}
    given = [
        param.opts[0]
        for param in ctx.command.params
        if param.name not in free and ctx.get_parameter_source(param.name or "") == ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)} cannot go with --resume: a run is continued as it was started", ctx)


def _recorded_config(log: EventLog) -> RunConfig:
    from harness.runs.replay import replay
    from harness.spec.errors import GauntletError

    state = replay(log.events, log.run_id)
    if state is None:
        raise GauntletError(f"run {log.run_id} was interrupted before it began; start it anew, without --resume")
    return state.config


def configure(content: Content, agents: tuple[str, ...], tasks: tuple[str, ...], suite: str | None, seed: int,
              budget: str | None, finals: int, half_width: float, instances: tuple[int, int],
              depth: str, no_compile_opponent: bool, unsafe: bool,
              device: str) -> tuple[RunConfig, dict[str, LoadedAgent]]:
    """The run that the options ask for. Raises GauntletError with near names for anything that does not exist."""
    from harness.agents.load import load_agents, parse_spec
    from harness.runs.plan import AgentEntry, RunConfig, parse_budget
    from harness.spec.errors import GauntletError, near

    if not agents:
        raise GauntletError(f"name the agents that shall compete with --agent{near('', content.agents())}")
    if suite and tasks:
        raise GauntletError("--suite and --tasks exclude each other: a suite is scored whole. Leave one of them out")
    limits = parse_budget(budget)
    texts = [text for text in agents if text.strip()]
    loaded = load_agents(texts, content)
    specs = _specs_by_name(texts, loaded)
    if suite:
        chosen = content.suite(suite)
        version, selected = str(chosen.version), chosen.resolve(content)
    elif tasks:
        version, selected = "0", content.select(split_names(tasks))
    else:
        raise GauntletError(f"name the tasks with --tasks{near('', content.tasks())}, or a --suite")
    entries = [
        AgentEntry(
            name=one.name,
            spec=specs[one.name],
            config=_agent_config(one),
            # The nearer to the agent, the stronger: search:attempts=3, then --budget, then its YAML.
            attempts=parse_spec(specs[one.name]).attempts
            or int(limits.get("attempts", 0))
            or one.attempts
            or DEFAULT_ATTEMPTS,
        )
        for one in loaded
    ]
    config = RunConfig(
        suite=suite or "adhoc",
        suite_version=version,
        tasks=selected,
        agents=entries,
        device=device,
        seed=seed,
        seconds=limits.get("seconds"),
        finals=finals,
        half_width=half_width,
        instances=instances,
        depth=depth,
        opponents=["eager"] if no_compile_opponent else ["eager", "compile"],
        unsafe=unsafe,
    )
    return config.checked(), {one.name: one for one in loaded}


def _specs_by_name(texts: list[str], loaded: list[LoadedAgent]) -> dict[str, str]:
    from harness.agents.load import split_specs

    specs = [spec for text in texts for spec in split_specs(text)]
    return {one.name: spec for one, spec in zip(loaded, specs, strict=True)}


def _agent_config(agent: LoadedAgent) -> dict[str, Any]:
    """An agent's settings as plain data, with the hash of its strategy's file: a resumed run must be the same one."""
    from harness.runs.canonical import sha256_hex

    config = agent.config.model_dump(mode="json")
    if agent.source is not None:
        config["strategy_sha256"] = sha256_hex(agent.source.read_bytes())
    return config


def load(config: RunConfig, content: Content) -> dict[str, LoadedAgent]:
    """The agents of a recorded run, loaded again. Raises GauntletError when one is not what it was."""
    from harness.agents.load import load_agent
    from harness.spec.errors import GauntletError

    agents = {}
    for entry in config.agents:
        agent = load_agent(entry.spec, content)
        if _agent_config(agent) != entry.config:
            raise GauntletError(
                f"agent {entry.name} has changed since the run was started (its settings or its strategy's file); "
                "undo that to continue the run, or start a new one"
            )
        agents[entry.name] = agent
    return agents


def check_tasks(config: RunConfig) -> None:
    """Once for each task that is not shipped: raises GauntletError unless it can tell right from wrong."""
    from harness.runs.environment import default_cache
    from harness.runs.lease import DeviceLease
    from harness.runs.validation import ensure_valid

    def tell(text: str) -> None:
        print(text, file=sys.stderr)

    ensure_valid(config.tasks, default_cache(), device=config.device, tell=tell,
                 lease=DeviceLease(config.device, "harness run"))


def _carry_out(log: EventLog, config: RunConfig, agents: dict[str, LoadedAgent], content: Content, root: Path | None,
               results: Path | None, leaderboard: Path | None, form: str) -> int:
    from harness.cli.progress import progress
    from harness.runs.lease import DeviceLease
    from harness.runs.provenance import provenance
    from harness.runs.replay import replay
    from harness.runs.run import Run

    before = replay(log.events, log.run_id)
    done = sum(cell.outcome is not None for cell in before.cells.values()) if before else 0
    again = f"harness run --resume {log.run_id}" + (f" --root {root}" if root else "")
    print(f"run {log.run_id}: {counted(config)} on {config.device}", file=sys.stderr)
    if before and before.finished:
        return _conclude(before, log.run_id, content, results, leaderboard, form)
    if before is None:
        check_tasks(config)
    try:
        with progress(config, done) as observer, make_executor(config.device) as executor:
            executor.start()
            recorded = Run(
                log,
                config,
                {name: agent.agent for name, agent in agents.items()},
                executor,
                content.find,
                provenance(content.base),
                observer,
                DeviceLease(config.device, f"run {log.run_id}"),
            ).execute()
    except KeyboardInterrupt:
        print(f"\ninterrupted; what was judged is kept. Continue with:\n  {again}", file=sys.stderr)
        return INTERRUPTED
    return _conclude(recorded, log.run_id, content, results, leaderboard, form)


def _conclude(recorded: Recorded, run_id: str, content: Content, results: Path | None, leaderboard: Path | None,
              form: str) -> int:
    """Publish a finished run, print its outcome, build the pages; returns the exit code."""
    from harness.cli.outcome import print_outcome
    from harness.runs.publish import publish_run

    published = publish_run(recorded, run_id, results or content.results)
    broken = print_outcome(run_id, published, form, terminal_width(), color_on(sys.stdout))
    pages = leaderboard or content.base / ".harness" / "leaderboard"
    _build_pages(content, results or content.results, pages, leaderboard is not None)
    if broken:
        print(f"The machine failed in {plural(broken, 'place')}; nothing there was charged to an agent. "
              "Run again to be ranked.", file=sys.stderr)
        return INFRASTRUCTURE
    return OK


def _build_pages(content: Content, results: Path, out: Path, asked_for: bool) -> None:
    """Build the pages; where nobody asked for them, failing to is worth a line and no more: the record is safe."""
    from harness.cli.outcome import shown
    from harness.report.site import build_site
    from harness.spec.errors import GauntletError

    try:
        page = build_site(results, out, content.find("leaderboard"))
    except GauntletError as error:
        if asked_for:
            raise
        print(f"no leaderboard page: {error}", file=sys.stderr)
        return
    print(f"leaderboard: {shown(page)}", file=sys.stderr)
