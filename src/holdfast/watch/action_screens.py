"""Screens over the view: what can be done now, what an action needs to be told, and the keys.

An action is a command of the command line (`views/actions.py`). Its words are shown before it is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input, OptionList, Select, Static
from textual.widgets.option_list import Option

from holdfast.views.actions import ActionField, ActionView
from holdfast.views.text import one_line
from holdfast.watch.run_text import RED, YELLOW

_HOW = "enter: do it   tab: next field   escape: nothing"
_CANCEL = Binding("escape", "dismiss(None)", "cancel")


class ActionChoice(ModalScreen[ActionView | None]):
    """Every action that is possible now, with the command that it stands for."""

    BINDINGS: ClassVar[list[BindingType]] = [_CANCEL]

    def __init__(self, actions: Sequence[ActionView]) -> None:
        super().__init__()
        self._actions = actions

    def compose(self) -> ComposeResult:
        """Show the list."""
        options = [Option(_choice(action), id=str(at)) for at, action in enumerate(self._actions)]
        with Vertical(classes="dialog"):
            yield Static(Text("What to do (enter: choose, escape: nothing)", style="bold"))
            yield OptionList(*options)

    def on_option_list_option_selected(self, chosen: OptionList.OptionSelected) -> None:
        """Return the chosen action."""
        self.dismiss(self._actions[int(chosen.option_id or 0)])


def _choice(action: ActionView) -> Text:
    label = f"{action.label}{f' ({action.task})' if action.task else ''}"
    return Text.assemble((f"{label:<28} ", RED if action.danger else "bold"), (action.command, "dim"))


class ActionForm(ModalScreen[dict[str, str] | None]):
    """What an action needs to be told, and its confirmation. Enter starts it."""

    AUTO_FOCUS = "Input, Select, Checkbox"
    BINDINGS: ClassVar[list[BindingType]] = [_CANCEL, Binding("enter", "start", "start", priority=True)]

    def __init__(self, action: ActionView) -> None:
        super().__init__()
        self._action = action

    def compose(self) -> ComposeResult:
        """Show a widget per field."""
        action = self._action
        with VerticalScroll(classes="dialog"):
            yield Static(Text(f"{action.label}{f' {action.task}' if action.task else ''}", style="bold"))
            yield Static(Text(action.command, style="dim"))
            if action.confirm:
                yield Static(Text(action.confirm, style=YELLOW))
            for field in action.fields:
                yield from _widgets(field)
            yield Static(Text("" if action.fields else _HOW), id="how")

    def on_descendant_focus(self) -> None:
        """Say what to press, now that what is typed reaches a field."""
        self.query_one("#how", Static).update(Text(_HOW, style="dim"))

    def action_start(self) -> None:
        """Start, after what was typed before, which is still on its way to its field."""
        (self.focused or self).call_later(self._start)

    def _start(self) -> None:
        """Return what was said, if nothing that is needed is missing."""
        said = {field.name: self._said(field) for field in self._action.fields}
        missing = next(
            (field for field in self._action.fields if field.required and not said[field.name].strip()), None
        )
        if missing is not None:
            self.query_one(f"#field-{missing.name}").focus()
            self.notify(f"{missing.label}: say something", markup=False)
            return
        self.dismiss({name: value for name, value in said.items() if value})

    def _said(self, field: ActionField) -> str:
        match self.query_one(f"#field-{field.name}"):
            case Checkbox() as box:
                return "true" if box.value else ""
            case Select() as choice:
                return "" if choice.is_blank() else str(choice.value)
            case Input() as line:
                return _chosen(field, line.value)
            case _:
                return ""


def _widgets(field: ActionField) -> ComposeResult:
    name = f"field-{field.name}"
    if field.kind == "flag":
        yield Checkbox(Text(field.label), id=name, compact=True)
        return
    if field.kind == "choice":
        yield Select([(one_line(option), option) for option in field.options], prompt=field.label, id=name)
        return
    for number, option in enumerate(field.options, 1):
        yield Static(Text(f"{number}  {one_line(option)}"))
    yield Input(placeholder=field.label, id=name)


def _chosen(field: ActionField, text: str) -> str:
    """Return what was typed; a number stands for the option that has it."""
    if text.isdecimal() and 0 < int(text) <= len(field.options):
        return field.options[int(text) - 1]
    return text


class KeyList(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss(None)", "close")]

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Show them as a table."""
        lines = [Text.assemble((f"{key:>9}  ", "bold"), what) for key, what in self._keys]
        with VerticalScroll(classes="dialog"):
            yield Static(Text("\n").join([Text("Keys", style="bold"), *lines]))
