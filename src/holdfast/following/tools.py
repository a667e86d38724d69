"""The tools of an agent that leads a run, as the Model Context Protocol offers them. Their docstrings are what it reads."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

from holdfast.following.answering import answered
from holdfast.following.desk import Desk
from holdfast.following.opening import Wish
from holdfast.following.saying import said_about

_WAIT_S = 60.0


def add_lead_tools(server: MCPServer[Any], desk: Desk) -> None:
    """Offer everything that leading a run takes."""
    _add_looking(server, desk)
    _add_claiming(server, desk)
    _add_ending(server, desk)


def _add_looking(server: MCPServer[Any], desk: Desk) -> None:
    @server.tool()
    @answered
    async def open_run(
        run: str = "", plan_file: str = "", plan: str = "", agent: str = "", jobs: int | None = None
    ) -> Any:
        """Open a run to lead it: of a plan file of this repository, of a plan given as YAML or JSON text, or by its id.

        Without any of these, the latest unfinished run is opened. A run that was interrupted goes on where it was:
        nothing that landed is done again. `jobs` is how many tasks may be worked on at the same time; give 1 if you
        work alone, so that each task starts from what landed before it. `agent` names who works if nobody leads.
        """
        return await desk.open(Wish(run=run, plan_file=plan_file, plan=plan, agent=agent, jobs=jobs))

    @server.tool()
    @answered
    async def list_ready(wait_s: float = 0.0) -> Any:
        """List the tasks that can be claimed now. With `wait_s`, wait that long for one, or for the run to come to rest."""
        return await desk.run.ready(wait_s)

    @server.tool()
    @answered
    async def run_status() -> Any:
        """Tell where the open run stands: what is ready, claimed, unsettled; stages; totals."""
        return desk.run.standing()

    @server.tool()
    @answered
    async def resume_brief() -> Any:
        """Tell all that you need to go on if you have lost your context: goal, what landed, your claims with their tokens."""
        return desk.run.resume_brief()


def _add_claiming(server: MCPServer[Any], desk: Desk) -> None:
    @server.tool()
    @answered
    async def claim_task(task: str) -> Any:
        """Claim a ready task: you get its brief, a workspace of its own (a git worktree; work only there) and a token.

        Do not commit, merge or push: completing the task does that. Send a heartbeat or a checkpoint more often than
        every `silence_s` seconds, or have whoever works for you use `holdfast report` with the variables in `env`.
        """
        return desk.run.claim(task)

    @server.tool()
    @answered
    async def task_brief(task: str) -> Any:
        """Read the brief of a task's present attempt again."""
        return desk.run.brief_of(task)

    @server.tool()
    @answered
    async def heartbeat(task: str, token: str) -> Any:
        """Say that a claimed task is still being worked on."""
        return desk.run.heartbeat(task, token)

    @server.tool()
    @answered
    async def checkpoint(
        task: str,
        token: str,
        progress: float | None = None,
        section_done: str = "",
        section_next: str = "",
        file: str = "",
        line: int | None = None,
        confidence: float | None = None,
        blocked: str = "",
        summary: str = "",
        cost_usd: float | None = None,
    ) -> Any:
        """Save the unfinished work of a claimed task now, with how far it is. A crash later loses nothing before this."""
        said = said_about(
            progress=progress,
            section_done=section_done,
            section_next=section_next,
            file=file,
            line=line,
            confidence=confidence,
            blocked=blocked,
            summary=summary,
            cost=cost_usd,
        )
        return await desk.run.checkpoint(task, token, said)


def _add_ending(server: MCPServer[Any], desk: Desk) -> None:
    @server.tool()
    @answered
    async def complete_task(task: str, token: str, summary: str = "", wait_s: float = _WAIT_S) -> Any:
        """Say that a claimed task is done. Its work is committed, checked and merged into the run's branch.

        Waits up to `wait_s` for the outcome: `completed` means that it landed. If checks or the merge failed, the task
        is ready again, with what went wrong in its brief.
        """
        return await desk.run.complete(task, token, summary, wait_s)

    @server.tool()
    @answered
    async def fail_task(task: str, token: str, reason: str) -> Any:
        """Give a claimed task up because it cannot be done this way. The next attempt is told the reason."""
        return await desk.run.fail(task, token, reason)

    @server.tool()
    @answered
    async def release_task(task: str, token: str) -> Any:
        """Give a claimed task back unfinished. Its work is kept and no attempt is charged."""
        return await desk.run.release(task, token)

    @server.tool()
    @answered
    async def pause_run(now: bool = False, wait_s: float = _WAIT_S) -> Any:
        """Bring the run to rest: nothing more is offered, what is claimed may be completed. `now` ends claims, work kept."""
        status = await desk.run.pause(now=now, wait_s=wait_s)
        return {"run": desk.run.name, "status": status}
