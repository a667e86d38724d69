"""One small, sound file of each kind, written for these tests: what the mutations start from."""

from __future__ import annotations

import json
from typing import Any


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=2).encode()


_APEX: dict[str, Any] = {
    "version": "1.0",
    "workflow": "apex",
    "task_id": "01-add-search",
    "flags": {"auto": True, "tests": True, "docs": False},
    "task_description": "Add full-text search to the notes",
    "tech_stack": {"backend": "Python", "database": ["SQLite"]},
    "current_phase": {
        "number": 4,
        "name": "validate",
        "status": "FAILED",
        "attempt": 2,
        "error": "2 tests fail",
    },
    "completed_phases": [
        {
            "number": 0,
            "name": "init",
            "status": "PASS",
            "output_file": "00-init.md",
            "summary": "Context read.",
        },
        {
            "number": 2,
            "name": "plan",
            "status": "PASS",
            "summary": "Three steps.",
            "acceptance_criteria": ["Finds words"],
        },
        {
            "number": 3,
            "name": "execute",
            "status": "WARN",
            "summary": "Done.",
            "files_changed": ["notes/search.py"],
        },
    ],
    "pending_phases": [{"number": 7, "name": "tests"}, {"number": "8b", "name": "e2e-chrome"}],
    "iteration_counts": {"validate": 1},
    "blockers": ["the index is not built"],
    "files_changed_total": ["notes/search.py"],
    "recovery_info": {
        "git_branch": "feat/search",
        "git_last_commit": "abc1234",
        "can_resume_from": "validate",
    },
}
_EXECUTE: dict[str, Any] = {
    "schema_version": "2.0",
    "prd_slug": "notes",
    "project_path": "/home/user/notes",
    "status": "in_progress",
    "current_layer": "1-backend",
    "layers": {
        "0-setup": {"status": "completed", "tasks_total": 1, "tasks_completed": 1, "tasks_failed": 0},
        "1-backend": {"status": "in_progress", "tasks_total": 2, "tasks_completed": 0, "tasks_failed": 1},
    },
    "tasks": {
        "L0-001": {
            "status": "completed",
            "attempts": 1,
            "commits": [{"hash": "aaa1111", "type": "implementation", "attempt": 1}],
        },
        "L1-001": {
            "status": "failed",
            "attempts": 2,
            "errors": [{"attempt": 1, "message": "expected 201, got 422"}],
            "retry_feedback": [{"attempt": 2, "feedback": "Check the title's length"}],
        },
        "L1-002": {
            "status": "in_progress",
            "attempts": 1,
            "worktree_path": ".worktrees/L1-002",
            "branch": "worktree-L1-002",
        },
    },
    "merge_queue": [{"task_id": "L1-002", "priority": 1, "status": "pending"}],
    "metrics": {"total_tasks": 3, "completed_tasks": 1},
}
_LAYERS: dict[str, Any] = {
    "layers": [
        {
            "id": "0-setup",
            "name": "Setup",
            "tasks": [{"id": "L0-001", "name": "Skeleton", "files": ["setup.cfg"], "depends_on": []}],
        },
        {"id": "1-backend", "tasks": [{"id": "L1-001", "name": "Model", "depends_on": ["L0-001"]}]},
    ],
    "dependency_graph": {"L1-001": ["L0-001"]},
}
_EPIC: dict[str, Any] = {
    "epicId": "notes-v2",
    "name": "Notes, second edition",
    "phases": [
        {
            "phaseId": "phase-1",
            "sprints": [
                {"sprintId": "sprint-1.1", "name": "Model", "status": "completed", "dependencies": []},
                {
                    "sprint_id": "sprint-1.2",
                    "name": "API",
                    "dependencies": ["sprint-1.1"],
                    "acceptanceCriteria": ["All routes"],
                },
            ],
        }
    ],
}
_RECORDS: dict[str, Any] = {
    "version": "1.0",
    "records": {
        "epic:notes-v2:state": {"epic_id": "notes-v2", "status": "in_progress", "sprints": ["s1", "s2"]},
        "sprint:s1:state": {
            "sprint_id": "s1",
            "status": "implementing",
            "progress": 40,
            "wip_branch": "wip/s1",
        },
        "sprint:s1:files": {
            "completed": ["a.py"],
            "in_progress": [{"path": "b.py", "last_line": 12, "confidence": 0.7}],
        },
        "agent:coder-1:checkpoint": {"agent_id": "coder-1", "sprint_id": "s1", "next_section": "printing"},
    },
}
_AUTO: dict[str, Any] = {
    "feature": "Search in notes",
    "status": "in_progress",
    "planStatus": "in_progress",
    "phases": [
        {
            "phase": 1,
            "name": "Model",
            "subtasks": [{"id": "subtask-1-1", "description": "Index", "status": "completed"}],
        },
        {
            "phase_id": 2,
            "name": "API",
            "depends_on": [1],
            "chunks": [
                {
                    "description": "Route",
                    "status": "pending",
                    "verification": {"type": "command", "command": "pytest", "expected": "OK"},
                },
                {
                    "subtask_id": "s-2",
                    "description": "Page",
                    "status": "not_started",
                    "files_to_create": ["page.py"],
                },
            ],
        },
    ],
}
_HISTORY: dict[str, Any] = {
    "subtasks": {
        "s-2": {
            "attempts": [{"session": 1, "approach": "templates", "success": False, "error": "no such page"}],
            "status": "failed",
        }
    },
    "stuck_subtasks": [{"subtask_id": "s-2", "reason": "circular fix"}],
}
_COMMITS: dict[str, Any] = {
    "commits": [{"hash": "bbb2222", "subtask_id": "subtask-1-1"}],
    "last_good_commit": "bbb2222",
}
_SPEC_STATE: dict[str, Any] = {
    "spec_id": "SPEC-007",
    "mode": "orchestrated",
    "waves": [
        {
            "id": 1,
            "groups": ["G1"],
            "status": "complete",
            "results": {"G1": {"status": "complete", "commits": ["ccc3333"]}},
        },
        {
            "id": 2,
            "groups": ["G2", "G3"],
            "status": "in_progress",
            "results": {"G2": "running", "G3": {"status": "failed", "error": "limit"}},
        },
    ],
    "commits": ["ccc3333"],
}
_PAUSED: dict[str, Any] = {
    "type": "orchestrated",
    "spec_id": "SPEC-007",
    "state_file": ".specflow/execution/SPEC-007-state.json",
    "paused_at": {"wave": 2, "group": "G2", "status": "running"},
    "commits_completed": ["ccc3333"],
}

SAMPLES: dict[str, bytes] = {
    ".claude/output/apex/01-add-search/state.json": _json(_APEX),
    ".claude/output/apex/02-x/00-context.md": (
        "# APEX Task: 02-x\n\n**Task:** Mend the panel\n\n## Progress\n\n| Step | Status | Timestamp |\n|---|---|---|\n"
        "| 00-init | ✓ Complete | 2026-01-01 |\n| 01-analyze | ⏸ Pending | |\n| 02-plan | ⏭ Skip | |\n".encode()
    ),
    "docs/backlog.yaml": b"stories:\n  - id: S1\n    title: Search\n    status: DONE\n  - id: S2\n    status: TODO\n",
    "docs/tasks/notes/execute-state.json": _json(_EXECUTE),
    "docs/tasks/notes/layer_plan.json": _json(_LAYERS),
    ".execute/notes/ledger.jsonl": b'{"task_id":"L0-001","commit":"aaa1111","attempts":1,"verified":true}\n{"task_id":"L1-001"}\n',
    "epic-config.json": _json(_EPIC),
    ".cfn/recovery/notes-v2.json": _json(_RECORDS),
    ".auto-claude/specs/001-search/implementation_plan.json": _json(_AUTO),
    ".auto-claude/specs/001-search/memory/attempt_history.json": _json(_HISTORY),
    ".auto-claude/specs/001-search/memory/build_commits.json": _json(_COMMITS),
    ".specflow/execution/SPEC-007-state.json": _json(_SPEC_STATE),
    ".specflow/.continue-here": _json(_PAUSED),
}
