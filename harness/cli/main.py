"""The ``harness`` command: finds the verb, and turns whatever happens into one message and an exit code.

0 ok · 1 judged and failed a requested bar · 2 usage · 3 infrastructure · 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

import harness
from harness.cli.exit_codes import INFRASTRUCTURE, INTERRUPTED, OK, USAGE

# verb → (module:command, what --help says of it). Spelled out, so that --help loads none of the modules.
VERBS = {
    "run": ("harness.cli.run:run", "Let agents compete on tasks and publish the record."),
    "judge": ("harness.cli.judge:judge", "Judge one kernel: is it right, and how fast is it?"),
    "validate": ("harness.cli.validate:validate", "Check that tasks can tell right from wrong."),
    "simulate": ("harness.cli.simulate:simulate", "Compare samplers on a recorded space."),
    "doctor": ("harness.cli.doctor:doctor", "Say how well this system contains a candidate, layer by layer."),
    "list": ("harness.cli.listing:list_", "List tasks, agents or suites."),
    "show": ("harness.cli.show:show", "Show a task, an agent or a suite in full."),
    "new": ("harness.cli.new:new", "Write a task or an agent to start from."),
    "schema": ("harness.cli.schema:schema", "Print the JSON Schema of a YAML file, for editors: task, suite or agent."),
    "report": ("harness.cli.report:report", "Print the standings of published results."),
    "leaderboard": ("harness.cli.leaderboard:leaderboard", "Build the leaderboard's pages."),
}


class Verbs(click.Group):
    """Loads a verb's module when that verb is called, and knows near names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(VERBS)}"
            ctx.fail(f"no command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 judged and failed a requested bar, 2 usage, 3 infrastructure, 130 interrupted.",
)
@click.version_option(harness.__version__, "--version", "-V", prog_name="harness")
def cli() -> None:
    """Kernel Gauntlet: a benchmark, an impartial judge and a leaderboard for agents that write compute kernels.

    \b
    harness run --agent eager,search --tasks matmul,softmax
    harness judge kernel.py --task softmax
    harness judge k.py:mine --reference ops.py:softmax --input x=4096x4096:f32
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. `arguments` default to those of the process."""
    from harness.spec.errors import GauntletError

    if arguments is None:
        end_like_an_interrupt()
    try:
        code = cli.main(args=None if arguments is None else list(arguments), prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.ctx.get_help() if error.ctx else error.format_message())
        return USAGE
    except click.ClickException as error:
        _complain(error.format_message())
        context = getattr(error, "ctx", None)
        if context is not None:
            print(f"Try: {context.command_path} --help", file=sys.stderr)
        return USAGE
    except GauntletError as error:
        _complain(str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it; point the descriptor elsewhere so that closing it is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        from harness.cli.crash import write_crash_log

        _complain(f"this should not have happened ({type(error).__name__}: {error})")
        print(f"The details are in {write_crash_log(sys.argv if arguments is None else arguments)}", file=sys.stderr)
        return INFRASTRUCTURE


def end_like_an_interrupt() -> None:
    """Being told to end (SIGTERM, a terminal that closes) is what Ctrl-C is: what was judged is kept, and it is said
    how to go on. An ignored SIGHUP stays ignored (nohup)."""
    import signal

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, interrupt)


def _complain(message: str) -> None:
    print(f"harness: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
